"""Figure 3: rewards of training and validation, and how many answers earned nothing."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rubric_core import RubricFileError
from rubric_core.rows import read_growing, rising_steps
from rubric_judge.ui.page.charts import Chart, Series


class _Row(BaseModel):
    """Columns of a row that the page uses; a run writes many more."""

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
    """Rows of a training run, up to the last one written."""

    path: Path
    steps: tuple[TrainingStep, ...]
    passes: tuple[ValidationPass, ...]

    @property
    def best(self) -> ValidationPass | None:
        """Validation pass that picks the checkpoint: the earliest with the highest reward."""
        return max(self.passes, key=lambda row: row.reward_mean, default=None)


def read_training(path: Path) -> Training:
    """Read the curves of a run folder.

    Args:
        path: folder with metrics.jsonl, and with heldout.jsonl if the run validated.

    Returns:
        The rows. A torn last line, which a run may still be writing, is left out.

    Raises:
        RubricFileError: the folder holds no run, a row is broken, or steps do not rise.
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
    """Return the charts of a run; none if it has no step."""
    if not training.steps and not training.passes:
        return ()
    best = training.best
    spread = tuple(
        row.reward_std for row in training.steps if row.reward_std is not None
    )
    has_spread = len(spread) == len(training.steps)
    ring = " The ring marks the best validation pass." if best else ""
    band = ""
    if has_spread:
        band = ", with one standard deviation of its answers either side"
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
    steps = tuple(row.step for row in training.steps)
    step_values = tuple(float(getattr(row, field)) for row in training.steps)
    passes = tuple(row.step for row in training.passes)
    pass_values = tuple(float(getattr(row, field)) for row in training.passes)
    both = (
        Series("training", "main", steps, step_values, spread=spread),
        Series("held out", "other", passes, pass_values, style="dots"),
    )
    return tuple(series for series in both if series.steps)
