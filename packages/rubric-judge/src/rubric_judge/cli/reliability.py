"""`rubric-judge reliability`: the noise of judges and their agreement."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rubric_core import ConfigError, JudgeView, Task
from rubric_judge.cli import judging
from rubric_judge.cli.app import app, flag_error, make_folder, tasks_by_id, write_report
from rubric_judge.cli.thoughts import HowThoughts
from rubric_judge.quality.responses import read_submitted
from rubric_judge.quality.trajectories import Submitted
from rubric_judge.ui.console.command import (
    FAILED,
    Count,
    EachPath,
    Flag,
    Paths,
    Positive,
    configure_log,
    print_tables,
    working,
)

if TYPE_CHECKING:
    from rubric_judge.quality.reliability import Rating, ReliabilityReport
    from rubric_judge.ui.page.links import Leads

_VIEWER = "judgements.html"


def reliability(  # noqa: PLR0913  # each is an option of the command
    tasks: Path,
    responses: Path | None = None,
    *,
    judge: EachPath = (),
    judgements: Paths = (),
    out: Path,
    reference: str | None = None,
    replicates: Positive = 4,
    ledger: Path | None = None,
    resamples: Positive = 1000,
    seed: Count = 0,
    thoughts: HowThoughts = "cut",
    workers: Positive = 32,
    verbose: Flag = False,
) -> int:
    """Measure how noisy judges are, and how far they agree.

    Judges each response several times with every --judge, and reads --judgements, which may be a
    person's. Give at least two responses for each task, and eight tasks or more for intervals.

    Example: rubric-judge reliability test.jsonl answers.jsonl --judge llm.yaml --out reliability

    Example: rubric-judge reliability test.jsonl --judgements llm.jsonl people.jsonl --out agreement

    Args:
        tasks: Tasks, JSON Lines in the paper's schema (or Parquet).
        responses: JSON Lines with `task_id` and `response`, for --judge.
        judge: A judge's configuration, YAML; give it several times for several judges.
        judgements: Files of `rubric-judge score` or `label`; two of a judge are replicates.
        out: Folder for reliability.json, its pages and figures, and the judgements made; where
            RESPONSES are given, judgements.html is a private page of them.
        reference: Name of the judge or person that the others are held against: TPR, TNR and J.
        replicates: Judgements of each response by each --judge.
        ledger: A ledger to look judgements up in and to record them in, so as to go on if stopped.
        resamples: Bootstrap draws for each interval.
        seed: Seed of the draws.
        thoughts: How thoughts are told from answers, as `HowThoughts` says it.
        workers: Judge workers; each holds up to four responses.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when not a single judgement has scores, or the ledger could not be written.
    """
    from rubric_judge.quality.reliability import collect, measure
    from rubric_judge.quality.reliability.figures import draw_figures

    _check(responses, judge, judgements)
    configure_log(verbose=verbose)
    with working(app) as progress:
        with progress.phase("reading tasks and judgements"):
            by_id = tasks_by_id(tasks)
            submitted: list[Submitted] = []
            if responses:
                submitted = read_submitted(responses, by_id, thoughts=thoughts)
            views = {item.line: item.view for item in submitted}
            earlier_ratings, notes = _read_all(judgements, by_id, views)
        make_folder(out)
        judges = {
            spec.stem: judging.read_judge(spec, workers=workers) for spec in judge
        }
        _check_reference(reference, judges, earlier_ratings)
        new_ratings, unwritten = judging.judge_all(
            judges, submitted, replicates, ledger=ledger, out=out
        )
        ratings = collect(new_ratings + earlier_ratings, by_id)
        report = measure(ratings, resamples=resamples, seed=seed, reference=reference)
        all_ratings = [*new_ratings, *earlier_ratings]
        leads = _write_viewer(out, report, all_ratings, views, by_id)
        more = [_VIEWER] if leads is not None else []
        draw = partial(draw_figures, report, ratings)
        written = write_report(out, "reliability", report, draw, *more, leads=leads)
    _print(report, written, notes)
    is_lost = all(held.mean_reward.value is None for held in report.judges)
    return FAILED if unwritten or is_lost else 0


def _write_viewer(
    out: Path,
    report: ReliabilityReport,
    ratings: Sequence[Rating],
    views: Mapping[int, JudgeView],
    tasks: Mapping[str, Task],
) -> Leads | None:
    """Write the page of the judgements, where their responses are known and they fit on it."""
    from rubric_judge.quality.view.joining import MOST_JUDGES
    from rubric_judge.quality.view.page import write_page
    from rubric_judge.quality.view.studies import repeated_leads, repeated_samples

    known = [rating for rating in ratings if rating.line in views]
    if not known or len({rating.judge for rating in known}) > MOST_JUDGES:
        return None
    source, samples = repeated_samples(known, views, tasks)
    write_page(samples, [source], out / _VIEWER, title="Judgements held together")
    criteria = [noise.criterion for noise in report.criteria]
    criteria += [rate.criterion for rate in report.rates if rate.criterion]
    return repeated_leads(_VIEWER, (*report.marks, *report.marks.values()), criteria)


def _read_all(
    paths: Sequence[Path],
    tasks: Mapping[str, Task],
    views: Mapping[int, JudgeView],
) -> tuple[list[Rating], list[str]]:
    from rubric_judge.quality.reliability import read_ratings

    notes: list[str] = []
    read = partial(
        read_ratings,
        tasks=tasks,
        views=views or None,
        notes=notes,
    )
    return [rating for path in paths for rating in read(path)], notes


def _print(report: ReliabilityReport, written: str, notes: Sequence[str]) -> None:
    print_tables(report.tables(), footer=f"written: {written}")
    for judge in report.judges:
        failed = ", ".join(
            f"{reason} {count}" for reason, count in judge.reasons.items()
        )
        if failed:
            print(f"without scores, {judge.judge}: {failed}", file=sys.stderr)
    for note in notes:
        print(note, file=sys.stderr)


def _check(
    responses: Path | None, judge: Sequence[Path], judgements: Sequence[Path]
) -> None:
    if not judge and not judgements:
        raise ConfigError(
            "there is nothing to measure: give --judge with RESPONSES, or --judgements",
            location="judge",
        )
    if bool(judge) != (responses is not None):
        raise ConfigError(
            "--judge and RESPONSES go together: give both", location="responses"
        )
    names = Counter(spec.stem for spec in judge)
    if repeated := [name for name, count in names.items() if count > 1]:
        called = f"{names[repeated[0]]} files are called {repeated[0]!r}"
        raise flag_error("judge", f": {called}: rename one")


def _check_reference(
    reference: str | None,
    judges: Mapping[str, judging.Judging],
    earlier_ratings: Sequence[Rating],
) -> None:
    """Refuse an unknown reference before a judge is called."""
    from rubric_judge.quality.reliability.measure import check_reference

    if reference is not None:
        named = [
            *judging.labels(judges).values(),
            *(rating.judge for rating in earlier_ratings),
        ]
        check_reference(reference, list(dict.fromkeys(named)))
