"""Paths of an evaluation's files, and the inputs of files that are derived from it."""

import os
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from rubric_core.artifact import Artifact
from rubric_core.files import file_sha256
from rubric_eval.records.run import EvalRun, InputFile, Record

ANSWERS = "answers"
PRIVATE = "judgements"
REPORT = "report.html"
TABLES = "tables"


class EvalFolder(Artifact[EvalRun]):
    """One evaluation, and the paths of its files."""

    def __init__(self, root: Path) -> None:
        """Name the folder."""
        super().__init__(root, "run.json", EvalRun)
        self.root = root
        self.run = root / "run.json"
        """Manifest, an `EvalRun`."""
        self.questions = root / "questions.jsonl"
        """Lines of `QuestionRow`."""
        self.heldout = root / "heldout.json"
        """The paper's Table 1 and the judges side by side; there only when they are complete."""
        self.transfer = root / "transfer.json"
        """The paper's Table 2; there only when it is complete."""
        self.calibration = root / "calibration.json"
        """The judge's `Calibration` of `rubric_judge`, where rewards are corrected by it."""
        self.ledger = root / "ledger.sqlite"
        """Judgements by content, `rubric_judge.Ledger`."""
        self.comparison = root / "comparison.json"
        """Results of `compare`, with the hashes of its inputs."""
        self.hacking = root / "hacking.json"
        """Results of `hacking`, with the hashes of its inputs."""
        self.report = root / REPORT
        """The page."""
        self.tables = root / TABLES
        """The paper's tables as .md, .tex and .json."""

    def answers(self, model: str, seed: int) -> Path:
        """Lines of `AnswerRow`, in the order in which they came."""
        return self.root / ANSWERS / model / _seed_file(seed)

    def answered_by(self, model: str) -> Path:
        """The weights that a server answered with; there only where servers say so."""
        return self.root / ANSWERS / model / "weights.json"

    def scores(self, judge: str, model: str, seed: int) -> Path:
        """Lines of `ScoreRow`, in the order of the questions."""
        return self.root / "scores" / judge / model / _seed_file(seed)

    def has_scores(self, run: EvalRun, *, judge: str, model: str) -> bool:
        """Return whether a judge is done with a model."""
        return all(self.scores(judge, model, seed).exists() for seed in run.seeds)

    def judgements(self, judge: str, model: str, seed: int) -> Path:
        """Lines of `ReasoningRow`."""
        return self.root / PRIVATE / judge / model / _seed_file(seed)

    def items(self, benchmark: str, model: str, seed: int) -> Path:
        """Lines of `ItemRow`, in the order of the benchmark."""
        return self.root / "items" / benchmark / model / _seed_file(seed)

    def files(self, part: str = "") -> dict[str, Path]:
        """Return what a run wrote but for run.json and its cache, the ledger.

        Args:
            part: only files whose paths begin so, such as "answers".

        Returns:
            Each file by its path from the folder, with slashes.
        """
        named = (self.questions, self.calibration, self.heldout, self.transfer)
        paths = [path for path in named if path.is_file()]
        for place in (ANSWERS, "items", PRIVATE, "scores"):
            for kind in ("*.jsonl", "weights.json"):
                paths += (self.root / place).rglob(kind)
        names = {path.relative_to(self.root).as_posix(): path for path in paths}
        return {name: path for name, path in names.items() if name.startswith(part)}


def _seed_file(seed: int) -> str:
    return f"seed_{seed}.jsonl"


class Derived(Record):
    """A file that a command made of evaluations; see `write_derived` and `read_derived`."""

    format: Literal[1] = 1
    inputs: tuple[InputFile, ...] = ()
    """Files that it was made of."""

    edited: tuple[str, ...] = ()
    """Accepted edits of the inputs since the end of their evaluation; empty as a rule."""

    notes: tuple[str, ...]
    """Notes on what was not measured, and what to know before quoting a number."""

    digest: str | None = None
    """SHA-256 of everything else here; None before it is written."""

    @property
    @abstractmethod
    def sources(self) -> tuple[str, ...]:
        """Paths of the evaluations from the folder of this file."""


def evaluation_files(folder: EvalFolder) -> list[Path]:
    """Return the files that the values of an evaluation are read from, in a fixed order."""
    named = (folder.run, folder.questions, folder.calibration)
    files = [path for path in named if path.is_file()]
    for part in (ANSWERS, "items", "scores"):
        files += sorted((folder.root / part).rglob("*.jsonl"))
    return files


def path_from(file: Path, *, to: Path) -> str:
    """Return a path relative to a file's folder, with slashes, so that both can move together."""
    return Path(os.path.relpath(to.resolve(), file.resolve().parent)).as_posix()


def hashed_inputs(files: Iterable[Path], *, beside: Path) -> tuple[InputFile, ...]:
    """Hash files.

    Args:
        files: the files that were read.
        beside: the file that is made of them.

    Raises:
        OSError: a file cannot be read.
    """
    return tuple(
        InputFile(path=path_from(beside, to=path), sha256=file_sha256(path))
        for path in files
    )
