"""Evaluations on disk, compared: comparison.json, with the hash of what it was made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_eval.comparison.evaluations import compare_measured
from rubric_eval.comparison.found import CompareSettings, EvalComparison
from rubric_eval.errors import ComparisonError, EvalFolderError
from rubric_eval.records import (
    EvalFolder,
    QuestionRow,
    evaluation_files,
    hashed_inputs,
    path_from,
)
from rubric_eval.records.files import read_finished_run, read_rows, write_json
from rubric_eval.scores.reading import has_scores, read_heldout
from rubric_eval.transfer import read_transfer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rubric_eval.records import EvalRun, Measured


def compare_folders(
    paths: Sequence[Path], settings: CompareSettings | None = None, *, out: Path | None = None
) -> tuple[EvalComparison, Path]:
    """Compare all models of some evaluations, and write what is found.

    Args:
        paths: finished evaluations, held-out or transfer; those that name a model alike must have
            evaluated the same one.
        settings: pairs, level, correction, power.
        out: file for it; by default comparison.json in the first folder.

    Returns:
        The comparison, and where it is.

    Raises:
        EvalFolderError: no folder, the same one twice, one that holds no finished evaluation or no
            score, or one name for two models.
        ComparisonError: two sides that do not match, or fewer than two models.
        RubricFileError: a file that is damaged.
        OSError: a file cannot be read or written.
    """
    folders = _folders(paths)
    runs = [read_finished_run(folder) for folder in folders]
    _check_names(folders, runs)
    target = out or folders[0].comparison
    files = [path for folder in folders for path in evaluation_files(folder)]
    # Hashed first: a file that changes while it is read makes a stale comparison, not a wrong one.
    inputs = hashed_inputs(files, beside=target)
    measured = [
        values
        for folder, run in zip(folders, runs, strict=True)
        for values in measured_of(folder, run)
    ]
    _check_passages(folders, runs)
    found = compare_measured(measured, settings).model_copy(
        update={
            "folders": tuple(path_from(target, to=folder.root) for folder in folders),
            "inputs": inputs,
        }
    )
    write_json(target, found)
    return found, target


def measured_of(folder: EvalFolder, run: EvalRun) -> list[Measured]:
    """Read all values of an evaluation, model by model in the order of the run.

    Raises:
        EvalFolderError: there are none, or they are not those of the run.
        RubricFileError: a file that is damaged.
    """
    if run.kind == "transfer":
        measured = [
            read_transfer(folder, benchmark, model.name, run=run)
            for benchmark in run.questions
            for model in run.models
        ]
    else:
        # A judge that came later need not have judged every model.
        measured = [
            read_heldout(folder, judge.name, model.name, run=run)
            for judge in run.judges
            for model in run.models
            if has_scores(folder, run, judge=judge.name, model=model.name)
        ]
    if not measured:
        raise EvalFolderError(
            f"{folder.root} holds no score; run the command that made it again, which goes on "
            "where it was"
        )
    order = {model.name: place for place, model in enumerate(run.models)}
    return sorted(measured, key=lambda one: order[one.model])


def _folders(paths: Sequence[Path]) -> list[EvalFolder]:
    if not paths:
        raise EvalFolderError("no evaluation to compare; name the folder of at least one")
    places = [path.resolve() for path in paths]
    if twice := [path for at, path in enumerate(places) if path in places[:at]]:
        raise EvalFolderError(f"{twice[0]} is named twice; name each evaluation once")
    return [EvalFolder(path) for path in paths]


def _check_passages(folders: Sequence[EvalFolder], runs: Sequence[EvalRun]) -> None:
    """Refuse the same questions with other passages: answers were judged against those."""
    known: dict[tuple[str, ...], tuple[str, EvalFolder]] = {}
    for folder, run in zip(folders, runs, strict=True):
        if run.kind == "heldout":
            ids = tuple(row.task_id for row in read_rows(folder.questions, QuestionRow))
            sha256 = run.questions["heldout"].sha256
            content, first = known.setdefault(ids, (sha256, folder))
            if content != sha256:
                raise ComparisonError(
                    f"{folder.root} and {first.root} judged the same questions against other "
                    "passages; evaluate both on the same file of tasks"
                )


def _check_names(folders: Sequence[EvalFolder], runs: Sequence[EvalRun]) -> None:
    """Refuse one name for two models."""
    known: dict[str, tuple[str, EvalFolder]] = {}
    for folder, run in zip(folders, runs, strict=True):
        for model in run.models:
            fingerprint, first = known.setdefault(model.name, (model.fingerprint, folder))
            if fingerprint != model.fingerprint:
                raise ComparisonError(
                    f"{model.name!r} is another model in {folder.root} than in {first.root} "
                    f"(fingerprints {model.fingerprint[:12]} and {fingerprint[:12]}); evaluate the "
                    "same one, or give it another name"
                )
