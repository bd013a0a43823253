"""`rubric-judge cascade`: the thresholds of a cascade of judges, from people's labels."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from cyclopts import Parameter

from rubric_core import read_tasks
from rubric_core.files import write_text
from rubric_judge.cli import judging
from rubric_judge.cli.app import app, flag_error, require_writable
from rubric_judge.console.command import (
    FAILED,
    Positive,
    configure_log,
    print_pairs,
    print_rows,
    working,
)
from rubric_judge.console.progress import current
from rubric_judge.responses import read_responses

if TYPE_CHECKING:
    from rubric_judge.calibration.cascade import CascadeTarget
    from rubric_judge.cascade.record import CascadeCalibration
    from rubric_judge.ledger.store import Ledger

_Flag = Annotated[bool, Parameter(negative=())]


def cascade(  # noqa: PLR0913  # the flags of a command
    tasks: Path,
    responses: Path,
    *,
    labels: Path,
    judge: Path,
    out: Path,
    risk: float,
    confidence: float = 0.95,
    per_criterion: _Flag = False,
    tolerance: float | None = None,
    unit: Literal["response", "task"] = "response",
    ledger: Path | None = None,
    workers: Positive = 32,
    verbose: _Flag = False,
) -> int:
    """Find how unsure the judges of a cascade may be, so that few scores contradict the labels.

    Every labelled response is judged by the cascade at one threshold after another, from "all goes
    to the last judge" on, until the labels no longer show that at most RISK of its verdicts
    contradict them. No answer is asked for twice.

    Example: rubric-judge cascade test.jsonl answers.jsonl --labels people.jsonl
    --judge cascade.yaml --risk .1 --out cascade.json

    Args:
        tasks: Tasks, JSON Lines in the paper's schema (or Parquet).
        responses: JSON Lines with `task_id` and `response`.
        labels: People's scores of their criteria, JSON Lines.
        judge: The cascade's configuration, YAML; its `calibration` need not be there yet.
        out: File to write; name it in the configuration as `calibration`.
        risk: Share of the verdicts that may contradict the labels, between 0 and 1.
        confidence: Probability that the share is kept to.
        per_criterion: A threshold and a promise for each criterion, instead of one for all.
        tolerance: How far a score may be from its label, as a share of the weight; left out, they
            contradict each other when only one reaches half of it.
        unit: What was drawn independently: responses, or tasks with all of theirs.
        ledger: A ledger to look answers up in and to record them in, so that a command that was
            stopped goes on where it was.
        workers: Responses that are judged at once; each takes up to `k` calls at a time.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when the ledger could not be written.
    """
    from rubric_judge.calibration.cascade import CascadeTarget

    configure_log(verbose=verbose)
    require_writable(out, flag="--out", inputs=(tasks, responses, labels, judge, ledger))
    target = CascadeTarget(risk, confidence, per_criterion, tolerance, unit)
    with tempfile.TemporaryDirectory() as folder, working(app):
        with judging.opened(ledger or Path(folder) / "ledger.sqlite") as books:
            found = calibrated(
                judge, target, ledger=books, workers=workers, files=(tasks, responses, labels)
            )
        unwritten = judging.say_unwritten(books)
        write_text(out, found.model_dump_json(indent=2) + "\n")
    report(found, out)
    return FAILED if unwritten else 0


def calibrated(
    judge: Path,
    target: CascadeTarget,
    *,
    ledger: Ledger | None,
    workers: int,
    files: tuple[Path, Path, Path],
) -> CascadeCalibration:
    """Calibrate the cascade of a configuration.

    Args:
        judge: the configuration.
        target: what is to be promised.
        ledger: where answers are looked up and kept.
        workers: responses that are judged at once.
        files: tasks, responses and labels.

    Raises:
        ConfigError: the judge is no cascade, or as `calibrate_cascade`.
        RubricFileError: a label fits no task, response or criterion.
        JudgeSetupError: a judge is not there.
    """
    from rubric_judge.calibration.cascade import CascadeRun, calibrate_cascade
    from rubric_judge.calibration.thresholds import GRID
    from rubric_judge.capabilities import check, close
    from rubric_judge.config import CascadeConfig, read_judge_spec
    from rubric_judge.labels.rows import LabelSource, read_labels
    from rubric_judge.load import load_judge

    config = read_judge_spec(judge)
    if not isinstance(config, CascadeConfig):
        kind = f"is of `type: {config.type}`"
        raise flag_error("judge", f" {judge}: {kind}: give a file of `type: cascade`")
    with current().phase("reading tasks, responses and labels"):
        by_id = {task.task_id: task for task in read_tasks(files[0])}
        views = read_responses(files[1], by_id)
        given = list(read_labels(files[2], LabelSource(by_id, dict(views))))
    judges = [load_judge(one) for one in config.judges]

    async def calibrate() -> CascadeCalibration:
        try:
            with current().phase("asking the judges whether they are there"):
                for one in judges:
                    await check(one)
            run = CascadeRun(judges, config, ledger, workers=workers)
            with current().phase("testing thresholds", total=len(GRID)) as phase:
                return await calibrate_cascade(
                    run, given, views, target, on_threshold=lambda _: phase.advance()
                )
        finally:
            for one in judges:
                await close(one)

    return anyio.run(calibrate)


def report(found: CascadeCalibration, out: Path) -> None:
    """Print the thresholds, and where they are written."""
    tests = {"all": found.pooled} if found.pooled is not None else found.criteria
    header = ("criterion", "kept up to", f"{found.unit}s", "risk", "at most", "escalated")
    rows = [
        (
            name,
            "–" if one.threshold is None else f"{one.threshold:.2f}",
            str(one.n),
            f"{one.risk:.1%}",
            f"{one.bound:.1%}",
            f"{one.escalated:.1%}",
        )
        for name, one in tests.items()
    ]
    print_rows(header, rows)
    alone = max(one.last_risk for one in tests.values())
    promise = f"risk ≤ {found.risk:g} with probability {found.confidence:g}"
    print_pairs([("promise", promise), ("the last judge alone", f"{alone:.1%}"), ("written", out)])
    for name, one in tests.items():
        if one.threshold is None:
            said = "no threshold keeps to the risk: everything goes to the last judge"
            print(f"rubric-judge: {name}: {said}", file=sys.stderr)
