"""`rubric-judge calibrate`: a judge against people's labels, and what to do with each criterion."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from cyclopts import Parameter

from rubric_core import RubricFileError, Thoughts
from rubric_core.files import write_text
from rubric_judge.cli import cascade, judging
from rubric_judge.cli.app import app, flag_error, make_folder, tasks_by_id, write_report
from rubric_judge.cli.cascade import Labelled
from rubric_judge.cli.thoughts import HowThoughts
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.quality.calibration.target import CascadeTarget
from rubric_judge.quality.responses import read_submitted
from rubric_judge.ui.console import command, progress
from rubric_judge.ui.console.outputs import require_writable

if TYPE_CHECKING:
    from rubric_judge.quality.calibration.pairing import Paired
    from rubric_judge.quality.calibration.report import CalibrationReport, Files
    from rubric_judge.quality.reliability import Rating
    from rubric_judge.ui.page.tables import Table


_VIEWER = "judgements.html"
_KNOWN_TRUTH = (
    "The labels are the truth of answers that were written to be right, or false: J says "
    "whether the judge tells those apart. How it errs on what a policy writes, and so a "
    "corrected reward, takes people's labels of the policy's answers."
)


class _Asked(NamedTuple):
    judge: Path | None
    out: Path
    ledger: Path | None
    workers: int

    @property
    def configuration(self) -> Path:
        """The judge's; it must be given, but where its judgements are."""
        if self.judge is None:
            raise flag_error(
                "judge",
                ": there is no judge; give its configuration (or, for verdicts, --judgements)",
            )
        return self.judge


class _Calibrated(NamedTuple):
    report: Callable[[], None]
    """Prints it."""
    unwritten: int


class _Judged(NamedTuple):
    ratings: list[Rating]
    fingerprint: str | None
    unwritten: int


@Parameter(name="*", group=("Parameters", cascade.VERDICTS))
@dataclass(frozen=True)
class VerdictOptions:
    """How verdicts are found; with --cascade there are none."""

    judgements: command.Paths = ()
    """Files of the judge's judgements, in place of asking it; --judge says whose they are."""
    replicates: command.Positive = 1
    """Judgements of each response; from two on, the judge's noise is measured."""
    combine: Literal["mean", "majority"] = "mean"
    """How several raters' scores are combined: their mean, or what most call met."""
    bound: command.Share = 0.3
    """A criterion is admitted where Youden's J = TPR − FPR is above it, with confidence."""
    resamples: command.Positive = 1000
    """Bootstrap draws of those intervals that need them."""
    seed: command.Count = 0
    """Seed of the draws."""


_VERDICTS = VerdictOptions()
_TARGET = CascadeTarget()


def calibrate_judge(  # noqa: PLR0913  # each is an option of the command
    tasks: Path,
    responses: Path,
    *,
    labels: command.EachPath = (),
    judge: Path | None = None,
    out: Path,
    ledger: Path | None = None,
    workers: command.Positive = 32,
    verdicts: VerdictOptions = _VERDICTS,
    is_cascade: cascade.IsCascade = False,
    target: cascade.Target = _TARGET,
    thoughts: HowThoughts = "cut",
    verbose: command.Flag = False,
) -> int:
    """Calibrate a judge against people's labels, and say what to do with each criterion.

    With --cascade, find how unsure the judges of a cascade may be: each labelled response is judged
    at one threshold after another, from "all goes to the last judge" on, until the labels no longer
    show that at most RISK of the verdicts contradict them. No answer is asked for twice.

    Example: rubric-judge calibrate test.jsonl answers.jsonl --labels a.jsonl --judge j.yaml --out c

    Args:
        tasks: Tasks, JSON Lines in the paper's schema (or Parquet).
        responses: JSON Lines with `task_id` and `response`, a text or a trajectory; only those with
            labels are judged.
            Or written answers, of which each was written to meet every criterion, or none.
        labels: Labels of `rubric-judge label`; give it several times for several files. Written
            answers need none: their truth is known.
        judge: The judge's configuration, YAML; of a cascade its `calibration` need not be there.
        out: Folder for calibration.json, its pages and figures, or with --cascade cascade.json.
        ledger: Looked up and recorded in, so that a command that was stopped goes on.
        workers: Judge workers; each holds up to four responses, one of a cascade.
        verdicts: How verdicts are found.
        is_cascade: Find how unsure the judges of a `type: cascade` may be, in place of verdicts.
        target: What is promised of a cascade.
        thoughts: How thoughts are told from answers, as `HowThoughts` says it.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when the ledger could not be written.
    """
    command.configure_log(verbose=verbose)
    asked = _Asked(judge, out, ledger, workers)
    with command.working(app):
        labelled = _labelled(tasks, responses, labels, thoughts)
        make_folder(out)
        files = (tasks, responses, *labels)
        if is_cascade:
            calibrated = _thresholds(labelled, asked, target, inputs=files)
        else:
            calibrated = _verdicts(labelled, asked, verdicts, files=files)
    calibrated.report()
    return command.FAILED if calibrated.unwritten else 0


def _labelled(
    tasks: Path, responses: Path, labels: Sequence[Path], thoughts: Thoughts
) -> Labelled:
    from rubric_judge.quality.calibration.pairing import read_all_labels
    from rubric_judge.quality.labels.rows import LabelSource
    from rubric_judge.quality.labels.written import read_known, require_written

    with progress.current().phase("reading tasks, responses and labels"):
        by_id = tasks_by_id(tasks)
        if not labels:
            require_written(responses)
            return Labelled(by_id, *read_known(responses, by_id))
        read = read_submitted(responses, by_id, thoughts=thoughts)
        views = {item.line: item.view for item in read}
        return Labelled(
            by_id,
            views,
            read_all_labels(labels, LabelSource(by_id, views)),
            {item.line: item for item in read if item.recorded is not None},
        )


def _verdicts(
    labelled: Labelled,
    asked: _Asked,
    options: VerdictOptions,
    *,
    files: tuple[Path, ...],
) -> _Calibrated:
    from rubric_judge.pool.ledger.entry import hash_answer
    from rubric_judge.quality.calibration.measure import Settings, calibrate
    from rubric_judge.quality.calibration.pairing import pair
    from rubric_judge.quality.calibration.report import Files
    from rubric_judge.quality.reliability import collect

    if options.judgements:
        judged = _read(options.judgements, labelled, asked.judge)
    else:
        judged = _ask(labelled, asked, options.replicates)
    ratings = collect(judged.ratings, labelled.tasks)
    paired = pair(labelled.labels, ratings, combining=options.combine)
    how = Settings(options.bound, options.resamples, seed=options.seed)
    answers = {
        line: hash_answer(view.task_id, view.response)
        for line, view in labelled.views.items()
    }
    report = calibrate(
        paired, fingerprint=judged.fingerprint, answers=answers, settings=how
    )
    tasks, responses, *labels = (shlex.quote(str(path)) for path in files)
    if not labels:
        report = report.model_copy(update={"notes": (_KNOWN_TRUTH, *report.notes)})
    named = Files(
        tasks,
        responses,
        str(asked.out / "calibration.json"),
        "LABELS" if len(labels) > 1 else "".join(labels),
        is_all_labelled=labelled.is_complete,
        is_drawn=all(label.inclusion is not None for label in labelled.labels),
    )
    written = _write(
        report, asked.out, named, _differences(judged, labelled, asked.out)
    )
    report_printer = partial(_print, report, paired, written, named)
    return _Calibrated(report_printer, judged.unwritten)


def _thresholds(
    labelled: Labelled,
    asked: _Asked,
    target: CascadeTarget,
    *,
    inputs: tuple[Path, ...],
) -> _Calibrated:
    out = asked.out / "cascade.json"
    require_writable(
        out,
        flag="--out",
        inputs=(*inputs, asked.judge, asked.ledger),
    )
    calibration, unwritten = cascade.find_thresholds(
        asked.configuration,
        target,
        labelled,
        ledger=asked.ledger,
        workers=asked.workers,
    )
    write_text(out, calibration.model_dump_json(indent=2) + "\n")
    classes = cascade.classes_of(labelled, calibration)
    return _Calibrated(
        partial(cascade.print_thresholds, calibration, out, classes), unwritten
    )


def _differences(judged: _Judged, labelled: Labelled, out: Path) -> Table:
    """Write the page of what was judged and labelled; return where the two differ."""
    from rubric_judge.quality.view.differences import differences, rated_samples
    from rubric_judge.quality.view.page import write_page

    source, samples = rated_samples(
        judged.ratings, labelled.views, labelled.labels, labelled.tasks
    )
    write_page(samples, [source], out / _VIEWER, title="Judge and people")
    return differences(samples, labelled.tasks, page=_VIEWER)


def _write(report: CalibrationReport, out: Path, files: Files, differ: Table) -> str:
    from rubric_judge.quality.calibration.figures import draw_figures
    from rubric_judge.quality.calibration.page import write_page

    page = out / "calibration.html"
    write_page(report, page, files, differ=differ, viewer=_VIEWER)
    draw = partial(draw_figures, report)
    return write_report(out, "calibration", report, draw, "calibration.html", _VIEWER)


def _print(
    report: CalibrationReport, paired: Paired, written: str, files: Files
) -> None:
    from rubric_judge.quality.calibration.report import next_steps

    command.console().print(report.summary(), soft_wrap=True)
    command.print_tables(report.tables(), footer=f"written: {written}")
    if steps := next_steps(report, files):
        print("next:")
    for step in steps:
        print("\n".join([step.what, *(f"  {line}" for line in step.how.splitlines())]))
    failed = paired.ratings.reasons_J[0]
    for note in [
        *report.notes,
        *(f"without scores: {name} {n}" for name, n in failed.items()),
    ]:
        print(note, file=sys.stderr)


def _ask(labelled: Labelled, asked: _Asked, replicates: int) -> _Judged:
    """Judge what was labelled."""
    judge = asked.configuration
    judge_setup = judging.read_judge(judge, workers=asked.workers)
    lines = sorted({label.line for label in labelled.labels})
    ratings, unwritten = judging.judge_all(
        {judge.stem: judge_setup},
        [labelled.submitted(line) for line in lines],
        replicates,
        ledger=asked.ledger,
        out=asked.out,
    )
    return _Judged(ratings, fingerprint(judge_setup.make()), unwritten)


def _read(paths: Sequence[Path], labelled: Labelled, judge: Path | None) -> _Judged:
    """Read judgements that exist; the judge's configuration only tells who it is."""
    from rubric_judge.quality.reliability import read_ratings

    ratings: list[Rating] = []
    for path in paths:
        for rating in read_ratings(path, labelled.tasks):
            view = labelled.views.get(rating.line)
            if view is None or view.task_id != rating.task_id:
                raise RubricFileError(
                    f"judges line {rating.line} as a response to task {rating.task_id!r}, "
                    "which it is not in the file of responses: give the responses that were "
                    "judged",
                    path=path,
                )
            ratings.append(rating)
    if judge is None:
        return _Judged(ratings, None, 0)
    configured = judging.read_judge(judge, workers=1).make()
    others = {rating.judge for rating in ratings} - {configured.name}
    if others:
        raise flag_error(
            "judge",
            f" {judge}: it is {configured.name!r}; the judgements are of {min(others)!r}",
        )
    return _Judged(ratings, fingerprint(configured), 0)
