"""What pre-training and the warm start share: one optimiser step, its learning rate, its record."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FINAL_FRAC = 0.1
"""Learning rate at the last step, as a share of the highest."""


class SupervisedStep(NamedTuple):
    """One finished optimiser step."""

    step: int
    """Counts from 1."""
    steps: int
    loss: float
    """Mean negative log-likelihood per token, in nats, before the update."""
    learning_rate: float
    tokens: int
    """Tokens that carried the loss."""


def learning_rate_frac(
    step: int, *, steps: int, warmup_steps: int, decay: Literal["cosine", "linear"]
) -> float:
    """Give the share of the highest learning rate at a step.

    Args:
        step: counts from 0.
        steps: in the whole phase.
        warmup_steps: over which the rate rises in a straight line.
        decay: how it falls to a tenth by the end.

    Returns:
        A number in (0, 1].
    """
    done = step / steps
    falling = 0.5 * (1 + math.cos(math.pi * done)) if decay == "cosine" else 1 - done
    return min(1.0, (step + 1) / max(1, warmup_steps)) * (_FINAL_FRAC + (1 - _FINAL_FRAC) * falling)


class SupervisedUpdate:
    """AdamW steps on one model with clipped gradients."""

    def __init__(
        self, model: PreTrainedModel, *, weight_decay: float, betas: tuple[float, float]
    ) -> None:
        """Set the optimiser up; the learning rate comes with each step."""
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=0.0, betas=betas, weight_decay=weight_decay
        )

    def apply(self, loss: torch.Tensor, *, learning_rate: float) -> float:
        """Take one step down the gradient of a loss.

        Args:
            loss: a scalar with its graph.
            learning_rate: of this step.

        Returns:
            The loss.
        """
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        return float(loss.detach())
