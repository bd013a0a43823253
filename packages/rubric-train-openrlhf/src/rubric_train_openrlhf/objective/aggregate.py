"""From a loss per token to one number, for an update that is computed in micro-batches.

Every mean here divides by a count of the *whole* update, given by the caller. The results of
the micro-batches, and their gradients, then add up exactly to those of the whole batch, however
long the responses of each micro-batch are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rubric_train_openrlhf.errors import ObjectiveShapeError
from rubric_train_openrlhf.objective.ratio import mean_over_tokens
from rubric_train_openrlhf.objective.surrogate import check_mask, check_tokens


@dataclass(frozen=True, slots=True)
class UpdateSize:
    """How many tokens and responses one optimizer update averages over."""

    tokens: int
    """Σ T_ig: response tokens that take part, over all micro-batches."""
    sequences: int
    """Responses with at least one such token, over all micro-batches."""

    def __post_init__(self) -> None:
        """Refuse an update without a token: its mean does not exist."""
        if self.tokens < 1 or self.sequences < 1:
            raise ObjectiveShapeError(
                f"an update needs at least one response token, got {self.tokens!r} tokens in "
                f"{self.sequences!r} responses: skip the update if every response is masked"
            )


def update_size(mask_BT: Tensor) -> UpdateSize:
    """Count what one update averages over.

        N = Σ_ig T_ig,   S = |{(i, g): T_ig > 0}|

    Args:
        mask_BT: True on the response tokens of the whole update, shape [B, T].

    Returns:
        Both counts. Reads them from the device, so call it once per update.

    Raises:
        ObjectiveShapeError: not a boolean matrix, or no token is True.

    Source: paper, §3.2, Eq. total_loss.
    """
    check_mask(mask_BT)
    return UpdateSize(
        tokens=int(mask_BT.sum().item()), sequences=int(mask_BT.any(dim=-1).sum().item())
    )


def token_mean(values_BT: Tensor, *, mask_BT: Tensor, total_tokens: int) -> Tensor:
    """Mean over all tokens of an update, or this micro-batch's part of it.

        (1 / N) Σ_igt m_t x_t,   N = Σ_ig T_ig over the whole update

    Args:
        values_BT: x_t, shape [B, T]; padding may hold anything.
        mask_BT: m_t, True on response tokens, shape [B, T].
        total_tokens: N, positive.

    Returns:
        A scalar; exactly 0, with a zero gradient, if no token is True.

    Raises:
        ObjectiveShapeError: shapes differ, or the mask is not boolean.

    Source: paper, §3.2, Eq. total_loss.
    """
    return _on_tokens(values_BT, mask_BT).sum() / total_tokens


def sequence_mean(values_BT: Tensor, *, mask_BT: Tensor, total_sequences: int) -> Tensor:
    """Mean over responses of the mean over their tokens, or this micro-batch's part of it.

        (1 / S) Σ_ig (1 / T_ig) Σ_t m_t x_t,   S responses with a token in the whole update

    Long and short responses weigh the same, which is GSPO's average.

    Args:
        values_BT: x_t, shape [B, T]; padding may hold anything.
        mask_BT: m_t, True on response tokens, shape [B, T].
        total_sequences: S, positive.

    Returns:
        A scalar; responses without a token add 0.

    Raises:
        ObjectiveShapeError: shapes differ, or the mask is not boolean.

    Source: arXiv 2507.18071 (GSPO).
    """
    return mean_over_tokens(_on_tokens(values_BT, mask_BT), mask_BT).sum() / total_sequences


def _on_tokens(values_BT: Tensor, mask_BT: Tensor) -> Tensor:
    check_tokens(mask_BT, values_BT=values_BT)
    # Selecting, not multiplying: 0 · NaN on padding would be NaN.
    return torch.where(mask_BT, values_BT, torch.zeros_like(values_BT))
