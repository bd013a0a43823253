"""`rubric-synth run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NoReturn

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import ValidationError

from rubric_core import RubricError
from rubric_core.configuration import config_error
from rubric_judge import JudgeSetupError
from rubric_judge.console import Terminated, typed_command
from rubric_synth.advice import empty_splits, fatal_shortfall, few_accepted, spent, unanswered
from rubric_synth.cli.app import app
from rubric_synth.cli.console import (
    fail,
    print_counts,
    print_fallbacks,
    print_line,
    print_reasons,
    read_settings,
    warn,
    working,
)
from rubric_synth.config import SynthConfig
from rubric_synth.dataset import REJECTED_FILE
from rubric_synth.errors import UnfinishedError
from rubric_synth.pipeline import synthesise

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_judge.console import Phase
    from rubric_synth.pipeline import Progress as RunProgress

_STATUS: Final = {"cost": 3, "unpriced": 5, "unavailable": 4, "interrupted": 130}
_NO_ANSWER: Final = _STATUS["unavailable"]


@app.command
def run(
    collected: Path,
    *,
    out: Path,
    config: Path | None = None,
    limit: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    max_cost_usd: float | None = None,
    engine: Literal["local", "ray"] | None = None,
) -> None:
    """Turn a collected folder into a dataset: train, validation and test tasks.

    Goes on where an earlier run into the same folder ended, however it ended: what was answered is
    not asked again. Ends with status 3 where the ceiling on costs is reached, 4 where a model or
    judge does not answer, at the start or for any document, 5 where prices are missing, 130 after
    an interrupt; what is done is written each time, and the same command goes on.

    Args:
        collected: Folder written by `collect`.
        out: Dataset folder to write.
        config: YAML file.
        limit: Work on the first so many documents only.
        max_cost_usd: Stop before a call that is expected to take the cost of all runs above this,
            going by the mean of the dearest stage so far; needs known prices.
        engine: Where to work, in place of the configuration's.
    """
    settings = _overridden(read_settings(config), max_cost_usd=max_cost_usd, engine=engine)
    options = {"--config": config, "--limit": limit}
    options |= {"--max-cost-usd": max_cost_usd, "--engine": engine}
    words = [
        *("run", str(collected), "--out", str(out)),
        *(str(word) for pair in options.items() if pair[1] is not None for word in pair),
    ]
    go_on = f"go on with: {typed_command('rubric-synth', words)}"
    try:
        with working() as progress, progress.phase("making tasks", unit="documents") as phase:
            report = synthesise(
                collected, out, config=settings, limit=limit, on_progress=_shown_by(phase)
            )
    except UnfinishedError as error:
        if error.cause in {"interrupted", "unavailable"}:
            error.add_note(go_on)
        _stop(error, _STATUS[error.cause])
    except JudgeSetupError as error:
        _stop(error, _NO_ANSWER)
    except (KeyboardInterrupt, Terminated):
        _stop(RubricError(f"left at once; {go_on}"), _STATUS["interrupted"])
    place = report.out / REJECTED_FILE
    print_reasons(f"Left out, line by line in {place}", report.rejected, settings)
    print_counts("Tasks", report.tasks)
    print_fallbacks(report.usage)
    print_line(f"{report.accepted_documents} of {report.documents} documents, in {report.out}")
    if taken := spent(report):
        print_line(taken)
    if shortfall := fatal_shortfall(report):
        fail(shortfall)
    for warning in (few_accepted(report), unanswered(report), empty_splits(report)):
        if warning:
            warn(warning)


def _overridden(settings: SynthConfig, **given: object) -> SynthConfig:
    overrides = {name: value for name, value in given.items() if value is not None}
    try:
        return SynthConfig.model_validate(settings.model_dump() | overrides)
    except ValidationError as error:
        raise config_error(error, model=SynthConfig, source="the command line") from None


def _stop(error: RubricError, status: int) -> NoReturn:
    fail("; ".join([str(error), *getattr(error, "__notes__", [])]), status=status)


def _shown_by(phase: Phase) -> Callable[[RunProgress], None]:
    """Return what shows how far a run is, what it costs, and what it left out."""

    def show(now: RunProgress) -> None:
        if phase.total is None:
            phase.start_at(now.done)
        phase.done, phase.total, phase.note = now.done, now.total, _figures(now)

    return show


def _figures(now: RunProgress) -> str:
    parts = ["writing the dataset"] if now.done == now.total else []
    if now.calls_in_flight:
        parts.append(f"{now.calls_in_flight} in flight")
    if now.cost_usd:
        parts.append(f"{now.cost_usd:.2f} USD")
    if now.left_out:
        parts.append(f"{now.left_out} left out")
    return ", ".join(parts)
