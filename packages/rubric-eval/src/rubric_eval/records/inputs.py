"""Where the files of an evaluation lie, and what a derived one was made from."""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from rubric_core.files import file_sha256
from rubric_core.locks import LOCK_FILE
from rubric_eval.records.run import InputFile, Record


class EvalFolder:
    """Paths of one evaluation; nothing is read or made here."""

    def __init__(self, root: Path) -> None:
        """Name the folder."""
        self.root = root
        self.run = root / "run.json"
        """Manifest, an `EvalRun`."""
        self.lock = root / LOCK_FILE
        """Held by the process that evaluates."""
        self.questions = root / "questions.jsonl"
        """Lines of `QuestionRow`."""
        self.heldout = root / "heldout.json"
        """The paper's Table 1 and the judges side by side; there only when they are complete."""
        self.transfer = root / "transfer.json"
        """The paper's Table 2; there only when it is complete."""
        self.calibration = root / "calibration.json"
        """The judge's, where rewards are corrected by it, `rubric_judge`'s `Calibration`."""
        self.ledger = root / "ledger.sqlite"
        """Judgements by content, `rubric_judge.Ledger`."""
        self.comparison = root / "comparison.json"
        """What `compare` found, with the hash of what it compared."""
        self.hacking = root / "hacking.json"
        """What `hacking` found, with the hash of what it looked at."""
        self.report = root / "report.html"
        """The page."""
        self.tables = root / "tables"
        """The paper's tables as .md, .tex and .json."""

    def answers(self, model: str, seed: int) -> Path:
        """Lines of `AnswerRow`, in the order in which they came."""
        return self.root / "answers" / model / _of(seed)

    def answered_by(self, model: str) -> Path:
        """Which weights a server answered with; there only where servers say so."""
        return self.root / "answers" / model / "weights.json"

    def scores(self, judge: str, model: str, seed: int) -> Path:
        """Lines of `ScoreRow`, in the order of the questions."""
        return self.root / "scores" / judge / model / _of(seed)

    def judgements(self, judge: str, model: str, seed: int) -> Path:
        """Lines of `ReasoningRow`."""
        return self.root / "judgements" / judge / model / _of(seed)

    def items(self, benchmark: str, model: str, seed: int) -> Path:
        """Lines of `ItemRow`, in the order of the benchmark."""
        return self.root / "items" / benchmark / model / _of(seed)


def _of(seed: int) -> str:
    return f"seed_{seed}.jsonl"


class Derived(Record):
    """What a command made of evaluations; see `write_derived` and `read_derived`."""

    format: Literal[1] = 1
    inputs: tuple[InputFile, ...] = ()
    """What it was read from."""

    edited: tuple[str, ...] = ()
    """What of it was not as its evaluation left it, and was accepted so; empty as a rule."""

    notes: tuple[str, ...]
    """What was not measured, and what a reader must know before quoting a number."""

    digest: str | None = None
    """SHA-256 of everything else here; None before it is written."""


def text_sha256(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical_json(value: object) -> str:
    """Write JSON in the one way in which it is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def evaluation_files(folder: EvalFolder) -> list[Path]:
    """Find what the values of an evaluation are read from, in a fixed order."""
    named = (folder.run, folder.questions, folder.calibration)
    files = [path for path in named if path.is_file()]
    for part in ("answers", "items", "scores"):
        files += sorted((folder.root / part).rglob("*.jsonl"))
    return files


def path_from(file: Path, *, to: Path) -> str:
    """Name a path from the folder of a file, with slashes, so that both can be moved together."""
    return Path(os.path.relpath(to.resolve(), file.resolve().parent)).as_posix()


def hashed_inputs(files: Iterable[Path], *, beside: Path) -> tuple[InputFile, ...]:
    """Hash files.

    Args:
        files: what was read.
        beside: the file that is made of them.

    Raises:
        OSError: a file cannot be read.
    """
    return tuple(
        InputFile(path=path_from(beside, to=path), sha256=file_sha256(path))
        for path in files
    )


def changed_inputs(
    inputs: Sequence[InputFile], *, beside: Path, folders: Sequence[EvalFolder]
) -> list[str]:
    """Find what is new, gone or different since a file was made.

    Args:
        inputs: as they were.
        beside: the file that was made of them.
        folders: whose files should be among them.

    Returns:
        Paths as the inputs name them; none while the file is up to date.
    """
    home = beside.resolve().parent
    then = {file.path: file.sha256 for file in inputs}
    now = {
        input_file.path: input_file.sha256
        for folder in folders
        for input_file in hashed_inputs(evaluation_files(folder), beside=beside)
    }
    for path in then.keys() - now.keys():  # named one by one, such as a file of tasks
        if (home / path).is_file():
            now[path] = file_sha256(home / path)
    return sorted(
        path for path in then.keys() | now.keys() if then.get(path) != now.get(path)
    )


def is_made_of(
    inputs: Sequence[InputFile],
    names: Sequence[str],
    *,
    beside: Path,
    folders: Sequence[EvalFolder],
) -> bool:
    """Return whether a file was made of these evaluations, as they are now.

    Args:
        inputs: what it was made of, as it says; nothing where it was edited.
        names: of the evaluations' folders, from its own.
        beside: the file.
        folders: the evaluations.
    """
    there = [EvalFolder(beside.resolve().parent / name) for name in names]
    roots = [{folder.root.resolve() for folder in group} for group in (there, folders)]
    is_same = bool(inputs) and roots[0] == roots[1]
    return is_same and not changed_inputs(inputs, beside=beside, folders=there)
