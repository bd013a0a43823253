"""Figure 3: what training and validation rewarded, and how many answers earned nothing."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rubric_core import RubricFileError
from rubric_core.rows import read_growing, rising_steps
from rubric_judge.page.charts import Chart, Series


class _Row(BaseModel):
    """What the page takes from a row; a run keeps much more in it."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    step: int


class TrainingStep(_Row):
    """A line of metrics.jsonl."""

    reward_mean: float
    reward_std: float | None = None
    zero_reward_frac: float


class ValidationPass(_Row):
    """A line of heldout.jsonl."""

    reward_mean: float
    zero_reward_frac: float
    n: int


@dataclass(frozen=True)
class Training:
    """A run, as far as it got."""

    path: Path
    steps: tuple[TrainingStep, ...]
    passes: tuple[ValidationPass, ...]

    @property
    def best(self) -> ValidationPass | None:
        """The pass that a checkpoint is chosen by: the earliest of the highest reward."""
        return max(self.passes, key=lambda row: row.reward_mean, default=None)


def read_training(path: Path) -> Training:
    """Read the curves of a run folder.

    Args:
        path: a folder with metrics.jsonl, and heldout.jsonl where the run validated.

    Returns:
        The rows. A torn last line, which a run may be writing, is left out.

    Raises:
        RubricFileError: no run there, a broken row, or steps that do not rise.
    """
    metrics = path / "metrics.jsonl"
    if not metrics.exists():
        problem = "holds no training run: there is no metrics.jsonl in it"
        raise RubricFileError(f"{problem}; name the `out` of a run", path=path)
    heldout = path / "heldout.jsonl"
    return Training(
        path=path,
        steps=rising_steps(read_growing(metrics, TrainingStep), path=metrics),
        passes=rising_steps(read_growing(heldout, ValidationPass), path=heldout),
    )


def training_charts(training: Training) -> tuple[Chart, ...]:
    """Choose the charts that a run can fill; none where it has no step."""
    if not training.steps and not training.passes:
        return ()
    best = training.best
    spread = tuple(
        row.reward_std for row in training.steps if row.reward_std is not None
    )
    has_spread = len(spread) == len(training.steps)
    ring = " The ring marks the best validation pass." if best else ""
    band = (
        ", with one standard deviation of its answers either side" if has_spread else ""
    )
    return (
        Chart(
            "reward",
            "Rubric reward",
            f"Mean of each step{band}, and of the held-out passes.{ring}",
            _series(training, "reward_mean", spread=spread if has_spread else ()),
            ceiling=1.0,
            ringed=best.step if best else None,
        ),
        Chart(
            "zero",
            "Zero reward",
            "Share of answers that earned nothing.",
            _series(training, "zero_reward_frac"),
            is_share=True,
        ),
    )


def _series(
    training: Training, field: str, *, spread: tuple[float, ...] = ()
) -> tuple[Series, ...]:
    steps, passes = (
        (
            tuple(row.step for row in rows),
            tuple(float(getattr(row, field)) for row in rows),
        )
        for rows in (training.steps, training.passes)
    )
    found = (
        Series("training", "main", *steps, spread=spread),
        Series("held out", "other", *passes, style="dots"),
    )
    return tuple(series for series in found if series.steps)
