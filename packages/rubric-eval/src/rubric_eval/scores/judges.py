"""Judges by name, from their files."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rubric_core import ConfigError
from rubric_eval.records import JudgeEntry
from rubric_judge import load_replicas, read_judge_spec
from rubric_judge.capabilities import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from rubric_core import Judge
    from rubric_judge import JudgeSpec


_NAMED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.+)", re.DOTALL)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME: Final = 64
_SHOWN: Final = {
    "name",
    "model",
    "transport",
    "prompt",
    "evidence",
    "passage_chars",
    "temperature",
    "max_tokens",
    "parameters",
    "python_tests",
    "regex_timeout_s",
}
"""Settings that a reader asks for. Addresses, names of keys and a plugin's options stay out."""


@dataclass(frozen=True, slots=True)
class NamedJudge:
    """A judge as tables and folders call it, with its replicas."""

    entry: JudgeEntry
    replicas: tuple[Judge, ...]

    @property
    def name(self) -> str:
        """In tables and file names."""
        return self.entry.name


def read_judges(given: Sequence[str]) -> tuple[NamedJudge, ...]:
    """Build judges from `FILE.yaml` or `NAME=FILE.yaml`; nothing is called.

    Args:
        given: at least one; a judge without a name has that of its file.

    Returns:
        The judges, in the order given.

    Raises:
        ConfigError: no judge, a file that cannot be used, or two judges with one name.
        JudgeSetupError, PluginError, SandboxError: as `rubric_judge.load_judge`.
    """
    if not given:
        raise ConfigError("no judge: give --judge FILE.yaml, once or more", location="judge")
    judges = tuple(_judge(*_name_and_path(text)) for text in given)
    known: dict[str, NamedJudge] = {}
    for judge in judges:
        if judge.name in known:
            raise ConfigError(
                f"two judges are called {judge.name!r}: name them with --judge NAME=FILE.yaml",
                location="judge",
            )
        known[judge.name] = judge
    return judges


def _name_and_path(text: str) -> tuple[str, Path]:
    named = None if Path(text).exists() else _NAMED.fullmatch(text)
    if named:
        return named[1], Path(named[2])
    path = Path(text)
    name = _NOT_IN_NAMES.sub("-", path.stem).lstrip("._-")[:_LONGEST_NAME]
    if not name:
        raise ConfigError(
            f"--judge {text}: no name can be made of this: give --judge NAME=FILE.yaml",
            location="judge",
        )
    return name, path


def _judge(name: str, path: Path) -> NamedJudge:
    spec = read_judge_spec(path)
    replicas = load_replicas(spec)
    identity = fingerprint(replicas[0])
    entry = JudgeEntry(
        name=name,
        fingerprint=hashlib.sha256(identity.encode()).hexdigest(),
        identity={"judge": replicas[0].name, "fingerprint": identity, **_settings(spec)},
    )
    return NamedJudge(entry=entry, replicas=replicas)


def _settings(spec: JudgeSpec) -> dict[str, JsonValue]:
    """Return what is shown of a judge; what identifies it is its fingerprint."""
    shown: dict[str, JsonValue] = {"type": spec.type}
    shown |= spec.model_dump(mode="json", include=_SHOWN)
    if spec.type == "hybrid":
        shown["judge_for_the_rest"] = _settings(spec.judge)
    return shown
