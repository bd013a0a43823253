"""Figure 3: what training and validation rewarded, and how many answers earned nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_eval.report.drawing import Chart, Curve

if TYPE_CHECKING:
    from rubric_eval.report.training import Training


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
