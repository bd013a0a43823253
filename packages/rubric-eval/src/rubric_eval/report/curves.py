"""Figure 3: what training and validation rewarded, and how many answers earned nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core import RubricFileError
from rubric_core.files import open_file
from rubric_eval.report.drawing import Chart, Curve

if TYPE_CHECKING:
    from pathlib import Path


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


_AnyRow = TypeVar("_AnyRow", bound=_Row)


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
        raise RubricFileError(
            "holds no training run: there is no metrics.jsonl in it; name the `out` of a run",
            path=path,
        )
    return Training(
        path=path,
        steps=_by_step(metrics, TrainingStep),
        passes=_by_step(path / "heldout.jsonl", ValidationPass),
    )


def _by_step(path: Path, kind: type[_AnyRow]) -> tuple[_AnyRow, ...]:
    if not path.exists():
        return ()
    rows: list[_AnyRow] = []
    with open_file(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = kind.model_validate_json(line)
            except ValidationError as error:
                if not line.endswith(b"\n"):
                    break
                raise _broken(path, number, error) from None
            if rows and row.step <= rows[-1].step:
                raise RubricFileError(
                    f"step {row.step} after step {rows[-1].step}; remove the rows that a restart "
                    "has repeated",
                    path=path,
                    line=number,
                    field="step",
                )
            rows.append(row)
    return tuple(rows)


def _broken(path: Path, line: int, error: ValidationError) -> RubricFileError:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return RubricFileError(
        f"field {field!r}: {first['msg']}; repair or remove the row",
        path=path,
        line=line,
        field=field or None,
    )


def training_charts(training: Training) -> tuple[Chart, ...]:
    """Choose the charts that a run can fill; none where it has no step."""
    if not training.steps and not training.passes:
        return ()
    best = training.best
    has_spread = all(row.reward_std is not None for row in training.steps)
    steps = tuple(row.step for row in training.steps)
    passes = tuple(row.step for row in training.passes)
    reward = Curve(
        "training", "train", steps, tuple(row.reward_mean for row in training.steps),
        spread=tuple(row.reward_std or 0.0 for row in training.steps) if has_spread else (),
    )  # fmt: skip
    held = Curve(
        "held out", "heldout", passes, tuple(row.reward_mean for row in training.passes),
        style="dots",
    )  # fmt: skip
    zero = Curve("training", "train", steps, tuple(row.zero_reward_frac for row in training.steps))
    zero_held = Curve(
        "held out", "heldout", passes, tuple(row.zero_reward_frac for row in training.passes),
        style="dots",
    )  # fmt: skip
    ring = " The ring marks the best validation pass." if best else ""
    band = ", with one standard deviation of its answers either side" if has_spread else ""
    return (
        Chart(
            "Rubric reward",
            f"Mean of each step{band}, and of the held-out passes.{ring}",
            tuple(curve for curve in (reward, held) if curve.steps),
            ringed=best.step if best else None,
        ),
        Chart(
            "Zero reward",
            "Share of answers that earned nothing.",
            tuple(curve for curve in (zero, zero_held) if curve.steps),
            is_share=True,
        ),
    )
