"""Our warm-up inside DeepSpeed, which counts optimiser updates where we count GRPO steps."""

# pyright: reportUnknownMemberType=false
# torch annotates its schedules in part only.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rubric_train_openrlhf.objective import warmup

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from rubric_train_openrlhf.objective import OptimizerConfig


class StepSchedule:
    """The schedule of `warmup`, moved by `end_step` alone."""

    def __init__(self, optimizer: Optimizer, *, config: OptimizerConfig) -> None:
        """Set the learning rate of the first step at once."""
        self._warmup = warmup(optimizer, config=config)

    def step(self, *_args: object, **_options: object) -> None:
        """Do nothing: DeepSpeed calls this after every optimiser update of a step."""

    def end_step(self) -> None:
        """Go on to the learning rate of the next GRPO step."""
        self._warmup.step()

    def get_last_lr(self) -> list[float]:
        """Learning rate of the running step, once per group of weights."""
        return [float(rate) for rate in self._warmup.get_last_lr()]

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint."""
        return self._warmup.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._warmup.load_state_dict(state)
