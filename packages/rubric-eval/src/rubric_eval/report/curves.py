"""Figure 3: rewards of training and validation, and how many answers earned nothing."""

import os
from pathlib import Path

from rubric_eval.findings.studies import Training
from rubric_judge.ui.page.charts import Chart, Series
from rubric_judge.ui.page.links import AT_STEP, link_to


def training_charts(
    training: Training, *, beside: Path | None = None
) -> tuple[Chart, ...]:
    """Return the charts of a run; none if it has no step.

    Args:
        training: the run.
        beside: folder of the page that shows them, from which the points of training lead to the
            run's own page, where it has one.
    """
    page = training.path / "report.html"
    link = ""
    if beside is not None and page.is_file():
        try:
            place = Path(os.path.relpath(page.resolve(), beside.resolve())).as_posix()
        except ValueError:  # another drive of Windows
            place = ""
        link = link_to(place, step=AT_STEP) if place else ""
    if not training.steps and not training.passes:
        return ()
    best = training.best
    spread = tuple(
        row.reward_std for row in training.steps if row.reward_std is not None
    )
    has_spread = bool(spread) and len(spread) == len(training.steps)
    ring = " The ring marks the best validation pass." if best else ""
    band = ""
    if has_spread:
        band = ", with one standard deviation of its answers either side"
    return (
        Chart(
            "reward",
            "Rubric reward",
            f"Mean of each step{band}, and of the held-out passes.{ring}",
            _series(
                training,
                "reward_mean",
                spread=spread if has_spread else (),
                link=link,
            ),
            ceiling=1.0,
            ringed=best.step if best else None,
        ),
        Chart(
            "zero",
            "Zero reward",
            "Share of answers that earned nothing.",
            _series(training, "zero_reward_frac", link=link),
            is_share=True,
        ),
    )


def _series(
    training: Training, field: str, *, spread: tuple[float, ...] = (), link: str = ""
) -> tuple[Series, ...]:
    steps = tuple(row.step for row in training.steps)
    step_values = tuple(float(getattr(row, field)) for row in training.steps)
    passes = tuple(row.step for row in training.passes)
    pass_values = tuple(float(getattr(row, field)) for row in training.passes)
    both = (
        Series("training", "main", steps, step_values, spread=spread, link=link),
        Series("held out", "other", passes, pass_values, style="dots"),
    )
    return tuple(series for series in both if series.steps)
