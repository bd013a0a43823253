"""Reader of Harbor's task folders: the instruction, and the rubric in Reward Kit's judge files.

    TASK/instruction.md    the question
    TASK/task.toml         its name
    TASK/tests/**/*.toml   judge files, and reward.toml, which weighs them

The parts of one sum are followed from `reward` down to each criterion, so that criteria of several
files weigh as they do there. Programs and files of the container are counted, and not read.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

from rubric_core.data.dataset import read_tasks
from rubric_core.errors import RubricFileError
from rubric_core.files import read_file
from rubric_core.formats.draft import Draft, Imported, Points
from rubric_core.formats.fields import Account, Fields, LeftOut
from rubric_core.formats.harbor_weights import (
    REWARD,
    JudgeGroup,
    reward_of,
    weighted_criteria,
)
from rubric_core.formats.row import Row

OWN_TASK = "rubric_task.jsonl"
"""The file in `tests/` of a folder that was written here: the whole task, on the judge's side."""
_REWARD_TOML = "reward_toml"
_INSIDE = "/tests/"
"""The tests, as a container has them."""
_CANARY = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
"""Lines that Harbor takes off the beginning of an instruction."""

Note = Callable[[str], None]


@dataclass
class _Notes:
    """Sentences for the user, each kind once."""

    say: Note
    kinds: set[str] = field(default_factory=set[str])

    def add(self, kind: str, note: str) -> None:
        if kind not in self.kinds:
            self.kinds.add(kind)
            self.say(note)


def read_harbor(
    folder: Path, left_out: tuple[LeftOut, ...], on_note: Note
) -> Iterator[Callable[[], tuple[Draft, Fields] | Imported]]:
    """Yield the reading of each task in a folder: it is one, or holds some.

    Args:
        folder: a task, or a folder of tasks.
        left_out: fields that are left out on purpose.
        on_note: called with each sentence on what a rubric here lacks, once a kind.

    Raises:
        RubricFileError: no folder, or one without a task.
    """
    if not folder.is_dir():
        problem = "not a folder: name a Harbor task, or a folder of tasks"
        raise RubricFileError(problem, path=folder)
    tasks = list(_tasks(folder))
    if not tasks:
        problem = "no Harbor task: a task is a folder with instruction.md and task.toml"
        raise RubricFileError(problem, path=folder)
    notes = _Notes(on_note)
    for task in tasks:
        yield partial(_read_task, task, left_out, notes)


def _tasks(folder: Path) -> Iterator[Path]:
    """Yield the task folders in a folder, at any depth, or itself."""
    if any((folder / name).is_file() for name in ("task.toml", "instruction.md")):
        yield folder
        return
    for child in sorted(folder.iterdir()):
        if child.is_dir() and not child.is_symlink() and not child.name.startswith("."):
            yield from _tasks(child)


def _read_task(
    folder: Path, left_out: tuple[LeftOut, ...], notes: _Notes
) -> tuple[Draft, Fields] | Imported:
    config = _toml(folder / "task.toml", "a Harbor task has one")
    if config.get("steps"):
        problem = (
            "has [[steps]], each with an instruction and tests of its own: a task here has one "
            "question"
        )
        raise RubricFileError(problem, path=folder / "task.toml")
    tests = folder / "tests"
    if not tests.is_dir():
        raise RubricFileError(
            "there is no tests/ in it: Harbor's verifier, and the rubric, are there",
            path=folder,
        )
    if (own := tests / OWN_TASK).is_file():
        return _own_task(folder, own)
    return _Reader(folder, config, notes).read(left_out)


def _own_task(folder: Path, file: Path) -> Imported:
    tasks = list(read_tasks(file))
    if len(tasks) != 1:
        problem = f"must hold one task, not {len(tasks)}"
        raise RubricFileError(problem, path=file)
    return Imported(folder.name, tasks[0])


@dataclass
class _Reader:
    """The reading of one task, with the account of its values."""

    folder: Path
    config: dict[str, object]
    notes: _Notes
    account: Account = field(default_factory=Account)
    files: set[Path] = field(default_factory=set[Path])
    """Files that were read."""

    def read(self, left_out: tuple[LeftOut, ...]) -> tuple[Draft, Fields]:
        tests = self.folder / "tests"
        record: dict[str, object] = {"config": self.config}
        record["tests"], group = self._group(tests, "tests")
        group = group.without_empty()
        whole = Row(record, self.folder, 1, account=self.account)
        if not group.count():
            raise RubricFileError(
                "no .toml in it has a [[criterion]], so there is no rubric: its tests are "
                "programs, which nothing here runs",
                path=tests,
            )
        record["instruction"] = self._instruction()
        question = whole.text("instruction")
        prior = self.folder / "trajectory.json"
        if prior.is_file():
            record["trajectory"] = prior.name
        criteria = tuple(self._criteria(group))
        reference = self._reference(group)
        record["programs"], record["files"] = self._others(tests)
        self._note_programs(group)
        name = whole.maybe_text("config.task.name") or self.folder.name
        draft = Draft(criteria, (("user", question),), name, reference)
        return draft, whole.close(left_out)

    def _instruction(self) -> str:
        path = self.folder / "instruction.md"
        if not path.is_file():
            raise RubricFileError("there is no instruction.md in it", path=self.folder)
        self.files.add(path)
        lines = _text(path).split("\n")
        while lines and (not lines[0].strip() or _CANARY.match(lines[0].strip())):
            lines.pop(0)
        return "\n".join(lines).strip()

    def _group(self, path: Path, place: str) -> tuple[dict[str, object], JudgeGroup]:
        """Return the contents of the TOML files in a folder of tests, and the folder as a group.

        Args:
            path: the folder.
            place: its dotted path in the whole record, such as `tests.style`.
        """
        group = JudgeGroup(path)
        record: dict[str, object] = {}
        for child in sorted(path.iterdir()):
            name = child.name.replace(".", "_")
            if child.is_dir():
                _refuse_link(child)
                if not child.name.startswith((".", "__")):
                    record[name], group.groups[name] = self._group(
                        child, f"{place}.{name}"
                    )
                continue
            if child.suffix == ".py":
                group.programs.add(child.stem)
            if child.suffix != ".toml":
                continue
            fields = _toml(child, "it was listed a moment ago")
            is_judge = "judge" in fields or "criterion" in fields
            if not is_judge and child.name != "reward.toml":
                continue
            self.files.add(child)
            name = child.stem.replace(".", "_") if is_judge else _REWARD_TOML
            row = Row(fields, child, 1, f"{place}.{name}", self.account)
            if name in record:
                raise RubricFileError(f"two parts are called {name!r}", path=path)
            record[name] = fields
            if is_judge:
                group.judges[name] = row
            else:
                group.reward = row
        if both := set(group.judges) & set(group.groups):
            raise RubricFileError(f"two parts are called {min(both)!r}", path=path)
        return record, group

    def _criteria(self, group: JudgeGroup) -> Iterator[Points]:
        """Return all criteria, each with its part of `reward`, and note what weighs alike."""
        spec = reward_of(group, is_root=True)
        if spec is None and group.groups and group.count() > 1:
            self.notes.add(
                "dimensions",
                f"{group.path}: several dimensions and no [[reward]] named {REWARD!r}, so "
                "they weigh alike here",
            )
        return weighted_criteria(group, spec)

    def _reference(self, group: JudgeGroup) -> str:
        """Return the text of the reference answer that judge files name in `tests/`, or ""."""
        tests = (self.folder / "tests").resolve()
        reference = ""
        for row in group.all_judges():
            name = row.get("judge.reference")
            if not isinstance(name, str) or not name.startswith(_INSIDE):
                continue
            file = (tests / name.removeprefix(_INSIDE)).resolve()
            if not file.is_relative_to(tests) or not file.is_file():
                continue
            row.take("judge.reference")
            self.files.add(file)
            text = _text(file)
            if reference not in ("", text):
                raise row.error(
                    "names a second reference of one question", "judge.reference"
                )
            reference = text
        return reference

    def _others(self, tests: Path) -> tuple[list[str], list[str]]:
        """Return the files that were not read: programs of the tests, and all others."""
        read_files = {file.resolve() for file in self.files}
        read_files.add((self.folder / "task.toml").resolve())
        read_files.add((self.folder / "trajectory.json").resolve())
        programs: list[str] = []
        others: list[str] = []
        for file in sorted(self.folder.rglob("*")):
            if not file.is_file() or file.resolve() in read_files:
                continue
            is_program = file.suffix in (".py", ".sh", ".bat") and file.is_relative_to(
                tests
            )
            (programs if is_program else others).append(
                str(file.relative_to(self.folder))
            )
        return programs, others

    def _note_programs(self, group: JudgeGroup) -> None:
        if programs := sorted(group.all_programs()):
            self.notes.add(
                "programs",
                f"{group.path}: criteria that are programs ({', '.join(programs)}) are not in "
                "the rubric, and the others weigh as if they were all",
            )


def _refuse_link(folder: Path) -> None:
    """Refuse a link to a folder, which may lead to the folder that it stands in."""
    if folder.is_symlink():
        raise RubricFileError(
            f"{folder.name} is a link to a folder, which is not followed: put the folder itself "
            "there, or take the link away",
            path=folder.parent,
        )


def _toml(path: Path, why: str) -> dict[str, object]:
    if not path.is_file():
        raise RubricFileError(f"there is no {path.name} in it: {why}", path=path.parent)
    try:
        document: Mapping[str, object] = tomllib.loads(_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RubricFileError(f"not TOML: {error}", path=path) from None
    return cast("dict[str, object]", document)


def _text(path: Path) -> str:
    try:
        return read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RubricFileError(f"not UTF-8: {error}", path=path) from None
