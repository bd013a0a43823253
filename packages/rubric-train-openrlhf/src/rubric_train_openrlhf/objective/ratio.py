"""Probability ratios of a sampled response: per token, and one per sequence (GSPO).

Log-ratios are bounded at ±20, as in the stacks that bound them at all: a probability ratio of
e²⁰ ≈ 4.9e8 is clipped or meaningless, but an infinite one turns into the gradient 0 · ∞ = NaN.
Padding never enters: its log-ratio is 0, whatever the tensors hold there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from rubric_train_openrlhf.objective.shapes import check_tokens

if TYPE_CHECKING:
    from torch import Tensor

LOG_RATIO_BOUND: Final = 20.0
"""Largest |log-ratio| that is exponentiated; beyond it the gradient is 0."""


def token_ratio(logprobs_BT: Tensor, gen_logprobs_BT: Tensor, *, mask_BT: Tensor) -> Tensor:
    """Ratio of the policy to the policy that sampled, token by token.

        r_t = exp(log π_θ − log π_gen)

    Args:
        logprobs_BT: log π_θ of the sampled tokens, shape [B, T], nats.
        gen_logprobs_BT: log π_gen recorded while sampling, shape [B, T], nats.
        mask_BT: True on response tokens, shape [B, T].

    Returns:
        Shape [B, T], in [e⁻²⁰, e²⁰]; 1 on padding.

    Raises:
        ObjectiveShapeError: shapes differ, or the mask is not boolean.

    Source: paper, §3.2, Eq. clipped_loss.
    """
    log_ratio_BT = masked_log_ratio(logprobs_BT, gen_logprobs_BT, mask_BT=mask_BT)
    return bounded_exp(log_ratio_BT)


def sequence_ratio(logprobs_BT: Tensor, gen_logprobs_BT: Tensor, *, mask_BT: Tensor) -> Tensor:
    """Length-normalised ratio of a whole response: the geometric mean of its token ratios.

        s_i = exp( (1/T_i) Σ_t (log π_θ − log π_gen) )

    Args:
        logprobs_BT: log π_θ of the sampled tokens, shape [B, T], nats.
        gen_logprobs_BT: log π_gen recorded while sampling, shape [B, T], nats.
        mask_BT: True on response tokens, shape [B, T]; T_i is the row's count.

    Returns:
        Shape [B], in [e⁻²⁰, e²⁰]; 1 for a row without tokens.

    Raises:
        ObjectiveShapeError: shapes differ, or the mask is not boolean.

    Source: paper, §C, importance sampling; arXiv 2507.18071 (GSPO).
    """
    log_ratio_BT = masked_log_ratio(logprobs_BT, gen_logprobs_BT, mask_BT=mask_BT)
    return bounded_exp(mean_over_tokens(log_ratio_BT, mask_BT))


def sequence_token_ratio(
    logprobs_BT: Tensor, gen_logprobs_BT: Tensor, *, mask_BT: Tensor
) -> Tensor:
    """Carry the sequence ratio on every token, with the gradient of that token alone.

        s_it = sg[s_i] · π_θ(y_t) / sg[π_θ(y_t)]          (sg stops the gradient)

    The value is s_i on each token and ∇s_it = s_i ∇log π_θ(y_t). As long as all tokens of a
    response share one advantage and one weight, any mean over them has the gradient of s_i
    itself; with weights per token this form is the one that is still defined.

    Args:
        logprobs_BT: log π_θ of the sampled tokens, shape [B, T], nats.
        gen_logprobs_BT: log π_gen recorded while sampling, shape [B, T], nats.
        mask_BT: True on response tokens, shape [B, T].

    Returns:
        Shape [B, T], in [e⁻²⁰, e²⁰]; padding holds s_i with no gradient.

    Raises:
        ObjectiveShapeError: shapes differ, or the mask is not boolean.

    Source: paper, §C, importance sampling; arXiv 2507.18071 (GSPO).
    """
    log_ratio_BT = masked_log_ratio(logprobs_BT, gen_logprobs_BT, mask_BT=mask_BT)
    log_sequence_B1 = mean_over_tokens(log_ratio_BT, mask_BT).detach()[:, None]
    # Zero in value, log π_θ in gradient.
    through_BT = masked_log_ratio(logprobs_BT, logprobs_BT.detach(), mask_BT=mask_BT)
    return bounded_exp(log_sequence_B1 + through_BT)


def masked_log_ratio(logprobs_BT: Tensor, base_logprobs_BT: Tensor, *, mask_BT: Tensor) -> Tensor:
    """Difference of two log-probabilities on response tokens.

        m_t (log π_θ − log π_base), and exactly 0 where m_t = 0

    Args:
        logprobs_BT: shape [B, T], nats.
        base_logprobs_BT: shape [B, T], nats.
        mask_BT: True on response tokens, shape [B, T].

    Returns:
        Shape [B, T], nats; 0 on padding even if the inputs hold NaN or infinities there.

    Raises:
        ObjectiveShapeError: shapes differ, or the mask is not boolean.

    Source: paper, §A, Algorithm 1.
    """
    check_tokens(mask_BT, logprobs_BT=logprobs_BT, base_logprobs_BT=base_logprobs_BT)
    difference_BT = logprobs_BT - base_logprobs_BT
    return torch.where(mask_BT, difference_BT, torch.zeros_like(difference_BT))


def mean_over_tokens(values_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Mean of each row over its own tokens; 0 for a row without tokens.

    Args:
        values_BT: shape [B, T], exactly 0 where the mask is False.
        mask_BT: True on response tokens, shape [B, T].

    Returns:
        Shape [B].
    """
    return values_BT.sum(dim=-1) / mask_BT.sum(dim=-1).clamp(min=1)


def bounded_exp(log_ratio: Tensor) -> Tensor:
    """Exponential of a log-ratio bounded at ±20.

    Args:
        log_ratio: any shape, nats.

    Returns:
        The same shape, in [e⁻²⁰, e²⁰].
    """
    return log_ratio.clamp(min=-LOG_RATIO_BOUND, max=LOG_RATIO_BOUND).exp()
