"""Evaluation folders, read and checked: a page is made of whole evaluations or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from rubric_eval.errors import EvalFolderError
from rubric_eval.records import EvalFolder, EvalRun, Measured
from rubric_eval.records.files import read_finished_run, read_rows
from rubric_eval.records.rows import QuestionRow
from rubric_eval.scores.reading import has_scores, read_heldout
from rubric_eval.transfer import read_transfer
from rubric_judge.responses import read_rows as numbered_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_Row = TypeVar("_Row", bound=BaseModel)


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: its manifest and its numbers; no text of a model yet."""

    folder: EvalFolder
    run: EvalRun
    measured: tuple[Measured, ...]
    """Held-out: judge by judge, in each the models in order; transfer: benchmark by benchmark."""

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Names, the first being what the others are compared with."""
        return tuple(entry.name for entry in self.run.models)

    @cached_property
    def groups(self) -> dict[str, dict[str, Measured]]:
        """By judge, or by benchmark, the values of each model."""
        found: dict[str, dict[str, Measured]] = {}
        for one in self.measured:
            found.setdefault(one.judge or one.benchmark, {})[one.model] = one
        return found

    @cached_property
    def questions(self) -> dict[str, QuestionRow]:
        """What was asked, by id; empty for benchmarks."""
        if self.run.kind != "heldout":
            return {}
        return {row.task_id: row for row in read_rows(self.folder.questions, QuestionRow)}


def read_evaluations(paths: Sequence[Path]) -> tuple[Evaluation | None, Evaluation | None]:
    """Read a held-out evaluation, a transfer evaluation, or one of each.

    Args:
        paths: folders, in any order.

    Returns:
        The held-out one and the transfer one; None for what was not given.

    Raises:
        EvalFolderError: no evaluation there, one that has not ended well, two of a kind, or one
            name for two different models.
        RubricFileError: a damaged file.
    """
    found: dict[str, Evaluation] = {}
    for path in paths:
        one = _read(EvalFolder(path))
        if (other := found.get(one.run.kind)) is not None:
            raise EvalFolderError(
                f"{other.folder.root} and {path} are both {one.run.kind} evaluations; a report "
                "shows one held-out and one transfer evaluation, so name one of them"
            )
        found[one.run.kind] = one
    heldout, transfer = found.get("heldout"), found.get("transfer")
    if heldout is not None and transfer is not None:
        _check_same_models(heldout, transfer)
    return heldout, transfer


def iterate_rows(path: Path, kind: type[_Row]) -> Iterator[_Row]:
    """Yield rows one by one, so that only those which are kept stay in memory.

    Raises:
        RubricFileError: a line that is not such a row.
        OSError: the file cannot be read.
    """
    form = f"a row as `{kind.__name__}` has it"
    return (row for _, row in numbered_rows(path, kind, form=form))


def _read(folder: EvalFolder) -> Evaluation:
    run = read_finished_run(folder)
    if run.kind == "heldout":
        # A judge that came later may not have judged every model.
        measured = [
            read_heldout(folder, judge.name, model.name, run=run)
            for judge in run.judges
            for model in run.models
            if has_scores(folder, run, judge=judge.name, model=model.name)
        ]
    else:
        measured = [
            read_transfer(folder, benchmark, model.name, run=run)
            for benchmark in run.questions
            for model in run.models
        ]
    if not measured:
        raise EvalFolderError(
            f"{folder.root} holds no scores; run the command that made it again, which goes on "
            "where it was"
        )
    return Evaluation(folder=folder, run=run, measured=tuple(measured))


def _check_same_models(heldout: Evaluation, transfer: Evaluation) -> None:
    """Refuse one name for two models: a reader would take them for one."""
    prints = {entry.name: entry.fingerprint for entry in heldout.run.models}
    for entry in transfer.run.models:
        if prints.get(entry.name, entry.fingerprint) != entry.fingerprint:
            raise EvalFolderError(
                f"the model {entry.name!r} of {transfer.folder.root} is another one than that of "
                f"{heldout.folder.root}: fingerprints {entry.fingerprint[:12]} and "
                f"{prints[entry.name][:12]}; evaluate the same model, or give it another name"
            )
