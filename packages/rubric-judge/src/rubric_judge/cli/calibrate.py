"""`rubric-judge calibrate`: a judge against people's labels, and what to do with each criterion."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from cyclopts import Parameter

from rubric_core import JudgeView, RubricFileError, Task, read_tasks
from rubric_judge.capabilities import fingerprint
from rubric_judge.cli import judging
from rubric_judge.cli.app import app, flag_error, make_folder, write_report
from rubric_judge.console.command import (
    FAILED,
    Count,
    Positive,
    Share,
    configure_log,
    console,
    print_tables,
    working,
)
from rubric_judge.console.progress import current
from rubric_judge.responses import read_responses

if TYPE_CHECKING:
    from rubric_judge.calibration.pairing import Paired
    from rubric_judge.calibration.report import CalibrationReport
    from rubric_judge.labels.rows import Label
    from rubric_judge.reliability import Rating


class _Judged(NamedTuple):
    ratings: list[Rating]
    fingerprint: str | None
    unwritten: int


def calibrate_judge(  # noqa: PLR0913  # each is an option of the command
    tasks: Path,
    responses: Path,
    *,
    labels: Annotated[tuple[Path, ...], Parameter(negative=())],
    judge: Path | None = None,
    judgements: Annotated[tuple[Path, ...], Parameter(negative=(), consume_multiple=True)] = (),
    out: Path,
    replicates: Positive = 1,
    ledger: Path | None = None,
    combine: Literal["mean", "majority"] = "mean",
    bound: Share = 0.3,
    resamples: Positive = 1000,
    seed: Count = 0,
    workers: Positive = 32,
    verbose: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Calibrate a judge against people's labels, and say what to do with each criterion.

    Example: rubric-judge calibrate test.jsonl answers.jsonl --labels a.jsonl --judge j.yaml --out c

    Args:
        tasks: Tasks, JSON Lines in the paper's schema (or Parquet).
        responses: JSON Lines with `task_id` and `response`; only those with labels are judged.
        labels: Labels of `rubric-judge label`; give it several times for several files.
        judge: The judge's configuration, YAML.
        judgements: Files of its judgements, in place of asking it; --judge says whose they are.
        out: Folder for calibration.json, calibration.html, calibration.md and figures.
        replicates: Judgements of each response; from two on, the judge's noise is measured.
        ledger: Looked up and recorded in, so that a command that was stopped goes on.
        combine: What several raters' scores are together: their mean, or what most call met.
        bound: A criterion is admitted where Youden's J = TPR − FPR is above it, with confidence.
        resamples: Bootstrap draws of those intervals that need them.
        seed: Seed of the draws.
        workers: Judge workers; each holds up to four responses.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when the ledger could not be written.
    """
    from rubric_judge.calibration.measure import Settings, calibrate
    from rubric_judge.calibration.pairing import pair
    from rubric_judge.reliability import collect

    configure_log(verbose=verbose)
    with working(app):
        by_id, numbered, given = _labelled(tasks, responses, labels)
        make_folder(out, flag="--out")
        views = [(line, numbered[line]) for line in sorted({one.line for one in given})]
        if judgements:
            judged = _read(judgements, by_id, numbered, judge)
        else:
            judged = _ask(judge, views, replicates, out=out, ledger=ledger, workers=workers)
        paired = pair(given, collect(judged.ratings, by_id), combining=combine)
        how = Settings(bound=bound, resamples=resamples, seed=seed)
        report = calibrate(paired, fingerprint=judged.fingerprint, settings=how)
        written = _write(report, out)
    _print(report, paired, written)
    return FAILED if judged.unwritten else 0


def _labelled(
    tasks: Path, responses: Path, labels: Sequence[Path]
) -> tuple[dict[str, Task], dict[int, JudgeView], list[Label]]:
    from rubric_judge.calibration.pairing import read_all_labels
    from rubric_judge.labels.rows import LabelSource

    with current().phase("reading tasks, responses and labels"):
        by_id = {task.task_id: task for task in read_tasks(tasks)}
        views = dict(read_responses(responses, by_id))
        return by_id, views, read_all_labels(labels, LabelSource(by_id, views))


def _write(report: CalibrationReport, out: Path) -> str:
    from rubric_judge.calibration.figures import draw_figures
    from rubric_judge.calibration.page import write_page

    write_page(report, out / "calibration.html")
    draw = partial(draw_figures, report)
    return write_report(out, "calibration", report, draw, "calibration.html")


def _print(report: CalibrationReport, paired: Paired, written: str) -> None:
    console().print(report.summary(), soft_wrap=True)
    print_tables(report.tables(), footer=f"written: {written}")
    failed = paired.ratings.reasons_J[0]
    for note in [*report.notes, *(f"without scores: {name} {n}" for name, n in failed.items())]:
        print(note, file=sys.stderr)


def _ask(
    judge: Path | None,
    views: Sequence[tuple[int, JudgeView]],
    replicates: int,
    *,
    out: Path,
    ledger: Path | None,
    workers: int,
) -> _Judged:
    """Judge what was labelled."""
    if judge is None:
        problem = ": there is no judge; give its configuration, or --judgements"
        raise flag_error("judge", problem)
    asked = judging.read_judge(judge, workers=workers)
    made, unwritten = judging.judge_all(
        {judge.stem: asked}, views, replicates, ledger=ledger, out=out
    )
    return _Judged(made, fingerprint(asked.make()), unwritten)


def _read(
    paths: Sequence[Path],
    tasks: Mapping[str, Task],
    views: Mapping[int, JudgeView],
    judge: Path | None,
) -> _Judged:
    """Read judgements that exist; the judge's configuration only tells who it is."""
    from rubric_judge.reliability import read_ratings

    ratings: list[Rating] = []
    for path in paths:
        for rating in read_ratings(path, tasks):
            view = views.get(rating.line)
            if view is None or view.task_id != rating.task_id:
                problem = (
                    f"judges line {rating.line} as a response to task {rating.task_id!r}, which it "
                    "is not in the file of responses: give the responses that were judged"
                )
                raise RubricFileError(problem, path=path)
            ratings.append(rating)
    if judge is None:
        return _Judged(ratings, None, 0)
    made = judging.read_judge(judge, workers=1).make()
    if others := {one.judge for one in ratings} - {made.name}:
        problem = f" {judge}: it is {made.name!r}; the judgements are of {min(others)!r}"
        raise flag_error("judge", problem)
    return _Judged(ratings, fingerprint(made), 0)
