"""The parts that every exported environment has, whatever stack it is for."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath
from typing import Literal

from rubric_core import ConfigError, PolicyView, Task
from rubric_judge.config import JudgeSpec
from rubric_judge.quality.fixtures.rows import Fixture
from rubric_synth.export.card_figures import Figures

TASKS_FILE = "tasks.jsonl"
JUDGE_FILE = "judge.yaml"
JUDGE_FOLDER = "judge"
POLICY_FOLDER = "policy"
RECORD_FILE = "environment.json"

Side = Literal["policy", "judge"]
"""Who reads a file: the judge's side alone, or everybody."""

_TAKEN = sys.stdlib_module_names | {
    "datasets",
    "environments",
    "falsepass",
    "harbor",
    "inspect_ai",
    "miles",
    "nemo_gym",
    "pydantic",
    "resources_servers",
    "rubric_core",
    "rubric_eval",
    "rubric_judge",
    "rubric_rewards",
    "rubric_sandbox",
    "rubric_synth",
    "rubric_train_openrlhf",
    "skyrl",
    "skyrl_gym",
    "slime",
    "trl",
    "verifiers",
    "verl",
}
"""Modules and folders that an environment of this name would hide, or lie in."""
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class File:
    """A file of an environment."""

    path: PurePosixPath
    """Its path in the environment's folder."""
    content: bytes
    side: Side = "policy"
    """`judge` for a file that may hold passages, rubrics or reference answers."""


@dataclass(frozen=True)
class Environment:
    """A dataset that is made an environment; nothing of it is written yet."""

    name: str
    """Name of the distribution, such as `my-docs`; see `checked_name`."""
    dataset: Path
    """Folder of the dataset."""
    splits: Mapping[str, Sequence[Task]]
    """Tasks by split; a split without tasks has none."""
    judge_spec: JudgeSpec
    """Configuration of the judge."""
    judge_files: Mapping[str, bytes]
    """Contents of `JUDGE_FILE` and of the files that it names, by name."""
    fixtures: Sequence[Fixture] = ()
    """Answers of known worth; empty where they were left out."""
    targets: Sequence[Target] = ()
    """Stacks that it is written for."""
    figures: Figures | None = None
    """Figures of the card; None where nothing was judged."""

    @property
    def module(self) -> str:
        """Name that Python imports it by, such as `my_docs`."""
        return self.name.replace("-", "_")

    @property
    def tasks(self) -> list[Task]:
        """All tasks, split by split."""
        return [task for tasks in self.splits.values() for task in tasks]

    def first_of(self, *splits: str) -> str:
        """Return the first of some splits that has tasks; few documents do not fill all."""
        return next((split for split in splits if self.splits[split]), splits[-1])

    def views(self, split: str) -> list[PolicyView]:
        """Return what the policy sees of the tasks of a split."""
        return [task.policy_view() for task in self.splits[split]]

    def path(self, *parts: str) -> PurePosixPath:
        """Return a path in the folder of the Python module."""
        return PurePosixPath(self.module, *parts)


@dataclass(frozen=True)
class Target:
    """A stack that an environment is written for."""

    name: str
    """Name that `--to` gives it."""
    stack: str
    """Release that it was written and tested with, such as `verifiers==0.4.0`."""
    files: Callable[[Environment], Iterable[File]]
    """Makes the files that the stack needs beside the common ones."""
    dependencies: Sequence[str] = ()
    """Requirements that it adds to those of the package."""
    usage: str = ""
    """Section of the card: how it is started. `{name}`, `{module}` and `{split}`, a split that has
    tasks, are filled in."""
    is_trainer: bool = False
    """Whether its file does nothing but train, on the tasks of `train`."""


def checked_name(name: str) -> str:
    """Return the name of a distribution, lower case with hyphens.

    Raises:
        ConfigError: It could not be imported, or not be installed, under this name.
    """
    plain = name.lower().replace("_", "-").replace(".", "-").replace(" ", "-")
    if not _NAME.fullmatch(plain) or keyword.iskeyword(plain):
        raise ConfigError(
            f"--name {name!r}: no name of a package; it begins with a letter and holds letters, "
            "digits and single hyphens, such as my-docs",
            location="name",
        )
    if plain.replace("-", "_") in _TAKEN or _is_installed(plain):
        raise ConfigError(
            f"--name {name!r}: Python, a stack or a package installed here has a module or folder "
            "of this name, which it would hide; choose another one, such as my-docs",
            location="name",
        )
    return plain


def _is_installed(name: str) -> bool:
    """Whether something else than an environment has this name: its own needs may be of it."""
    spec = PathFinder.find_spec(name.replace("-", "_"))
    if spec is not None and spec.origin:
        return not Path(spec.origin).with_name(RECORD_FILE).exists()
    return next(iter(distributions(name=name)), None) is not None
