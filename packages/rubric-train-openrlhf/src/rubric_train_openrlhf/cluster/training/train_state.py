"""Where a run on the cluster is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class TrainPosition:
    """What goes on with DeepSpeed's state; all else follows from the seed and the weights."""

    step: int
    """Steps done."""
    prompts_drawn: int
    """Position in the endless order of prompts."""
    wall_s: float
    """Seconds spent so far, restarts included."""

    @classmethod
    def of_checkpoint(cls, state: Mapping[str, Any]) -> Self:
        """Read it from what DeepSpeed kept; the start where it kept nothing."""
        return cls(
            step=int(state.get("global_step", 0)),
            prompts_drawn=int(state.get("total_consumed_prompts", 0)),
            wall_s=float(state.get("wall_s", 0.0)),
        )

    def client_state(self) -> dict[str, Any]:
        """What DeepSpeed keeps beside its own state, under OpenRLHF's names where it has them."""
        return {
            "episode": 0,
            "global_step": self.step,
            "total_consumed_prompts": self.prompts_drawn,
            "data_loader_state_dict": {},
            "wall_s": self.wall_s,
        }
