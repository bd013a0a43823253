"""Logs of any format: what format a file or folder has, and its judged answers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Literal

from rubric_core import ConfigError, RubricFileError, Task
from rubric_core.files import open_file, read_lines
from rubric_core.nearest import no_such_file
from rubric_judge.pool.ledger.database import is_sqlite
from rubric_judge.quality.criteria import ours, stacks
from rubric_judge.quality.criteria.fields import Fields
from rubric_judge.quality.criteria.groups import JudgedAnswer

Format = Literal["run", "ledger", "judged", "trl", "verl", "verifiers", "nemo-gym"]
"""A format of a log."""

_PARQUET = b"PAR1"
_TRACES = "traces.jsonl"
_NUMBERED = re.compile(r"\d+\.jsonl")
_LINES: dict[Format, frozenset[str]] = {
    "run": frozenset({"id", "step", "task_id", "result", "z", "shares"}),
    "judged": frozenset({"line", "task_id", "reward", "result"}),
    "verl": frozenset({"input", "output", "score", "step"}),
    "verifiers": frozenset({"traces", "task"}),
    "nemo-gym": frozenset({"responses_create_params"}),
}
"""Fields that tell which format a line is of."""
_BY_STEP = frozenset({"run", "trl", "verl"})
"""Formats with a file for each step."""
_OWN: dict[Format, str] = {
    "trl": "columns of several reward functions",
    "verl": (
        "numbers of `reward_extra_info`. verl 0.9.1 writes those to `trainer.validation_data_dir`, "
        "and to `trainer.rollout_data_dir` only with `trainer.use_v1=false`; where it cannot, give "
        "the reward a `ledger` and read that"
    ),
    "verifiers": "`rewards` and `metrics` of the trace",
    "nemo-gym": "`reward_components`",
}
"""Name that each stack has for its scores by criterion, for errors."""
_WANTED = (
    "a run folder or its judgements/step_*.jsonl (run); an SQLite ledger (ledger); lines of "
    "`rubric-judge score` (judged); completions_*.parquet of TRL's log_completions (trl); "
    "<step>.jsonl of verl's rollout_data_dir (verl); traces.jsonl of verifiers (verifiers); "
    "rollouts of NeMo-Gym (nemo-gym)"
)


@dataclass
class Log:
    """A log that is open to be read once."""

    format: Format
    answers: Iterable[JudgedAnswer]
    notes: list[str] = field(default_factory=list[str])
    """Remarks for a reader of the log; complete once all answers are read."""
    fields: Fields | None = None

    def all_notes(self) -> list[str]:
        """Return the notes; to be called once all answers are read."""
        if self.fields is not None and self.fields.avoided:
            names = ", ".join(map(repr, sorted(self.fields.avoided)))
            self.notes.append(
                f"{names}: the weight is negative, and so a fault is to be avoided: figures are of "
                "1 − z"
            )
        if self.fields is not None and self.fields.most == 1:
            self.notes.append(
                "The log holds one score for each answer, and none by criterion: give the adapter "
                "log_judgements=True, or read the ledger"
            )
        elif self.fields is not None and self.fields.weighed_alike:
            self.notes.append(
                "The log names no weights, so that all criteria were weighed alike: give --tasks, "
                "or the adapter log_judgements=True"
            )
        return self.notes


def open_log(
    paths: Sequence[Path],
    *,
    kind: Format | None = None,
    tasks: Mapping[str, Task] | None = None,
    group_size: int | None = None,
    last: int | None = None,
    only: Sequence[str] = (),
) -> Log:
    """Open a log of any format.

    Args:
        paths: one file or folder; several files of one format are read as one log.
        kind: the format; told from the content if None.
        tasks: tasks by id, which give weights and kinds.
        group_size: answers in a group, for TRL.
        last: only the last steps, of formats with a file for each.
        only: names of the stack's own scores that are criteria; all numbers if empty.

    Returns:
        The log, not yet read.

    Raises:
        ConfigError: no file, several formats, or an option that the format does not have.
        RubricFileError: a file that is of no known format.
    """
    if not paths:
        raise ConfigError("no log is named; give a file or a folder", location="log")
    kinds: dict[Path, Format] = {path: kind or told_format(path) for path in paths}
    chosen = kinds[paths[0]]
    if others := [path for path, other in kinds.items() if other != chosen]:
        raise ConfigError(
            f"{paths[0]} is of format {chosen!r}, {others[0]} of {kinds[others[0]]!r}: "
            "read logs of two formats one after the other",
            location="log",
        )
    if group_size is not None and chosen != "trl":
        raise ConfigError(
            f"--group-size is for TRL's logs; a log of format {chosen!r} names its groups",
            location="group-size",
        )
    _check_options(chosen, last=last, only=only)
    known = tasks or {}
    notes: list[str] = []
    if chosen == "ledger":
        if len(paths) > 1:
            raise ConfigError("give one ledger at a time", location="log")
        return Log(chosen, ours.ledger_answers(paths[0], known, notes), notes)
    if chosen == "judged":
        return Log(chosen, ours.judged_answers(paths, known), notes)
    files = [file for path in paths for file in files_of(path, chosen)][-(last or 0) :]
    if chosen == "run":
        return Log(chosen, ours.run_answers(files, notes=notes), notes)
    fields = Fields(known, own=_OWN[chosen], notes=notes, only=frozenset(only))
    answers = _foreign(chosen, files, fields, group_size)
    return Log(chosen, answers, notes, fields)


def _check_options(kind: Format, *, last: int | None, only: Sequence[str]) -> None:
    """Refuse options that a format has no use for."""
    if last is not None and kind not in _BY_STEP:
        raise ConfigError(
            f"--last is for logs with a file for each step; one of format {kind!r} is one file: "
            "leave it out",
            location="last",
        )
    if only and kind not in _OWN:
        raise ConfigError(
            f"--only names scores of other stacks; a log of format {kind!r} has its criteria: "
            "leave it out",
            location="only",
        )


def _foreign(
    kind: Format, files: Sequence[Path], fields: Fields, group_size: int | None
) -> Iterable[JudgedAnswer]:
    """Return the judged answers of another stack's log."""
    match kind:
        case "trl":
            return stacks.trl_answers(files, fields, group_size=group_size)
        case "verl":
            return stacks.verl_answers(files, fields)
        case "verifiers":
            # Asynchronous training writes the episodes of several steps in turns.
            return _by_step(stacks.verifiers_answers(files, fields))
        case _:
            return stacks.nemo_gym_answers(files, fields)


def _by_step(answers: Iterable[JudgedAnswer]) -> Iterable[JudgedAnswer]:
    """Yield answers with those of a step together."""
    yield from sorted(answers, key=attrgetter("step"))


def told_format(path: Path) -> Format:
    """Tell the format of a log from its content.

    Raises:
        RubricFileError: no such file, or one of no known format; says what was looked for.
    """
    if path.is_dir():
        return _format_of_folder(path)
    if not path.exists():
        raise _absent(path)
    try:
        if is_sqlite(path):
            return "ledger"
        with open_file(path) as file:
            start = file.read(len(_PARQUET))
    except OSError as error:
        raise RubricFileError(f"cannot be read: {error.strerror}", path=path) from None
    return "trl" if start == _PARQUET else _format_of_lines(path)


def _format_of_folder(path: Path) -> Format:
    if ours.step_files(path):
        return "run"
    if _parquets(path):
        return "trl"
    if (path / _TRACES).is_file():
        return "verifiers"
    files = sorted(path.glob("*.jsonl"))
    if not files:
        raise _unknown(path, "a folder without a log in it")
    return _format_of_lines(files[0])


def _format_of_lines(path: Path) -> Format:
    first = next(read_lines(path, exact=True), None)
    if first is None:
        raise _unknown(path, "an empty file")
    _, row = first
    for kind, names in _LINES.items():
        if names <= row.keys():
            return kind
    if stacks.TASK_INDEX in row:
        return "nemo-gym"
    shown = ", ".join(sorted(map(repr, row))[:12]) or "no field"
    raise _unknown(path, f"a line with {shown}")


def _absent(path: Path) -> RubricFileError:
    """Return the error of a log that is not there; it names the path once."""
    message = no_such_file(path).removeprefix(f"{path}: ")
    return RubricFileError(message, path=path)


def files_of(path: Path, kind: Format) -> list[Path]:
    """Return the files of a log in the order of their steps.

    Raises:
        RubricFileError: the folder holds none of that format.
    """
    if not path.is_dir():
        if not path.exists():
            raise _absent(path)
        return [path]
    match kind:
        case "run":
            files = ours.step_files(path)
        case "trl":
            files = _parquets(path)
        case "verl":
            files = [p for p in path.glob("*.jsonl") if _NUMBERED.fullmatch(p.name)]
            files.sort(key=lambda file: int(file.stem))
        case "verifiers":
            files = [path / _TRACES] if (path / _TRACES).is_file() else []
        case _:
            files = [
                p
                for p in sorted(path.glob("*.jsonl"))
                if not p.stem.endswith("_failures")
            ]
    if not files:
        raise _unknown(path, f"a folder without files of format {kind!r}")
    return files


def _parquets(path: Path) -> list[Path]:
    inner = path / "completions"
    folder = inner if inner.is_dir() else path
    return sorted(folder.glob("completions_*.parquet"))


def _unknown(path: Path, what: str) -> RubricFileError:
    return RubricFileError(
        f"is no log that is known: {what}; looked for {_WANTED}; --format names one",
        path=path,
    )
