"""The clipped surrogate of the policy gradient, with an asymmetric band and dual clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from rubric_train_openrlhf.objective.shapes import check_rows

if TYPE_CHECKING:
    from torch import Tensor


class Clips(NamedTuple):
    """Bounds of the objective."""

    low: float
    """ε_low in [0, 1]."""
    high: float
    """ε_high ≥ 0."""
    dual: float | None
    """c > 1, or None."""


class Surrogate(NamedTuple):
    """The surrogate of every token, and where one of its bounds is the active branch."""

    loss_BT: Tensor
    """Shape [B, T], to be minimised."""
    clipped_BT: Tensor
    """Boolean, shape [B, T]: the clipped ratio gives the larger loss, so the gradient is 0."""
    dual_clipped_BT: Tensor
    """Boolean, shape [B, T]: the dual bound is active, so the gradient is 0."""


def clipped_surrogate(
    ratio_BT: Tensor,
    advantages_B: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> Surrogate:
    """Pessimistic surrogate loss of PPO on every token.

        ℓ_t = −min(r_t A, clip(r_t, 1 − ε_low, 1 + ε_high) A)
        ℓ_t ← min(ℓ_t, −c A)     where A < 0, if c is given

    The paper prints the dual bound as max(ℓ_t, −c A). Read as a loss that would raise every
    small loss to c|A| and leave the large ones unbounded; the bound of arXiv 1912.09729 is a max
    on the objective −ℓ_t, which is the min on the loss used here and in every stack.

    Args:
        ratio_BT: r_t, or the sequence ratio on every token, shape [B, T], positive.
        advantages_B: A of each response, broadcast to its tokens, shape [B].
        clip_low: ε_low in [0, 1]; the paper has 0.2 on both sides.
        clip_high: ε_high ≥ 0; larger than ε_low is clip-higher (DAPO, arXiv 2503.14476).
        dual_clip: c > 1, typically 3; None leaves the loss of A < 0 unbounded (the main run).

    Returns:
        Loss and active bounds, each of shape [B, T]. At r = 1 the loss is −A and its gradient
        with respect to log π_θ is −A.

    Raises:
        ObjectiveShapeError: advantages_B is not one value per row.

    Source: paper, §3.2, Eq. clipped_loss; paper, §C, dual clipping; arXiv 1912.09729.
    """
    check_rows(ratio_BT.shape[0], advantages_B=advantages_B)
    advantages_B1 = advantages_B[:, None]
    plain_BT = -advantages_B1 * ratio_BT
    bounded_BT = -advantages_B1 * ratio_BT.clamp(min=1 - clip_low, max=1 + clip_high)
    clipped_BT = bounded_BT > plain_BT
    # The maximum; torch's own sends half a gradient down each branch where they are equal, which
    # is in all of the band, and half of the smallest number is 0.
    loss_BT = torch.where(clipped_BT, bounded_BT, plain_BT)
    dual_clipped_BT = torch.zeros_like(loss_BT, dtype=torch.bool)
    if dual_clip is not None:
        ceiling_B1 = -dual_clip * advantages_B1
        dual_clipped_BT = (advantages_B1 < 0) & (loss_BT > ceiling_B1)
        loss_BT = torch.where(dual_clipped_BT, ceiling_B1, loss_BT)
    return Surrogate(loss_BT, clipped_BT, dual_clipped_BT)
