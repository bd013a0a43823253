"""Who is told of a local run as it goes on: summary.json, the command line, and a caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_judge.console import Phase, Progress
    from rubric_train_openrlhf.policy import SupervisedStep
    from rubric_train_openrlhf.run import HeldoutRow, MetricsRow
    from rubric_train_openrlhf.run.live_summary import LiveSummary


@dataclass(frozen=True)
class Watch:
    """The three of them."""

    summary_file: LiveSummary
    progress: Progress
    on_step: Callable[[MetricsRow], None] | None = None
    on_heldout: Callable[[HeldoutRow], None] | None = None
    on_supervised: Callable[[str, SupervisedStep], None] | None = None

    def step(self, row: MetricsRow, *, phase: Phase) -> None:
        """A training step is on disk."""
        self.summary_file.step(row)
        phase.advance(note=f"reward {row.reward_mean:.3f}, KL {row.kl:.4f}")
        if self.on_step is not None:
            self.on_step(row)

    def heldout(self, row: HeldoutRow) -> None:
        """A held-out pass is on disk."""
        self.summary_file.heldout(row)
        if self.on_heldout is not None:
            self.on_heldout(row)

    def supervised(self, name: str, step: SupervisedStep, *, phase: Phase) -> None:
        """A step of pre-training or of the warm start is made."""
        phase.advance(note=f"loss {step.loss:.3f}")
        if self.on_supervised is not None:
            self.on_supervised(name, step)
