"""Probability ratios of a response, and the weights that correct for the sampler it came from."""

from typing import Literal

import torch
from torch import Tensor

from rubric_train_openrlhf.objective.shapes import check_tokens

LOG_RATIO_BOUND = 20.0
"""Largest |log-ratio| that is exponentiated; beyond it the gradient is 0."""


def token_ratio(
    logprobs_BT: Tensor, base_logprobs_BT: Tensor, *, mask_BT: Tensor
) -> Tensor:
    """Ratio of the policy to the one that it is updated from, token by token.

        r_t = exp(log π_θ − log π_base)

    π_base is π_gen, recorded while sampling; under an importance correction it is π_old, the
    trainer's own value, and the correction's weights are π_old / π_gen.

    Args:
        logprobs_BT: log π_θ of the sampled tokens, shape [B, T], nats.
        base_logprobs_BT: log π_base, shape [B, T], nats.
        mask_BT: True on response tokens, shape [B, T].

    Returns:
        Shape [B, T], in [e⁻²⁰, e²⁰]; 1 on padding.

    Raises:
        ObjectiveShapeError: shapes differ, or the mask is not boolean.

    Source: paper, §3.2, Eq. clipped_loss.
    """
    log_ratio_BT = masked_log_ratio(logprobs_BT, base_logprobs_BT, mask_BT=mask_BT)
    return bounded_exp(log_ratio_BT)


def sequence_ratio(
    logprobs_BT: Tensor, base_logprobs_BT: Tensor, *, mask_BT: Tensor
) -> Tensor:
    """Length-normalised ratio of a whole response: the geometric mean of its token ratios.

        s_i = exp( (1/T_i) Σ_t (log π_θ − log π_base) )

    Args:
        logprobs_BT: log π_θ of the sampled tokens, shape [B, T], nats.
        base_logprobs_BT: log π_base, shape [B, T], nats.
        mask_BT: True on response tokens, shape [B, T]; T_i is the row's count.

    Returns:
        Shape [B], in [e⁻²⁰, e²⁰]; 1 for a row without tokens.

    Raises:
        ObjectiveShapeError: shapes differ, or the mask is not boolean.

    Source: paper, §C, importance sampling; arXiv 2507.18071 (GSPO).
    """
    log_ratio_BT = masked_log_ratio(logprobs_BT, base_logprobs_BT, mask_BT=mask_BT)
    return bounded_exp(mean_over_tokens(log_ratio_BT, mask_BT))


def sequence_token_ratio(
    logprobs_BT: Tensor, base_logprobs_BT: Tensor, *, mask_BT: Tensor
) -> Tensor:
    """Return the sequence ratio for every token, with the gradient of that token alone.

        s_it = sg[s_i] · π_θ(y_t) / sg[π_θ(y_t)]          (sg stops the gradient)

    The value is s_i on each token and ∇s_it = s_i ∇log π_θ(y_t). As long as all tokens of a
    response share one advantage and one weight, any mean over them has the gradient of s_i
    itself; with weights per token this form is the one that is still defined.

    Args:
        logprobs_BT: log π_θ of the sampled tokens, shape [B, T], nats.
        base_logprobs_BT: log π_base, shape [B, T], nats.
        mask_BT: True on response tokens, shape [B, T].

    Returns:
        Shape [B, T], in [e⁻²⁰, e²⁰]; padding holds s_i with no gradient.

    Raises:
        ObjectiveShapeError: shapes differ, or the mask is not boolean.

    Source: paper, §C, importance sampling; arXiv 2507.18071 (GSPO).
    """
    log_ratio_BT = masked_log_ratio(logprobs_BT, base_logprobs_BT, mask_BT=mask_BT)
    log_sequence_B1 = mean_over_tokens(log_ratio_BT, mask_BT).detach()[:, None]
    # Zero in value, log π_θ in gradient.
    through_BT = masked_log_ratio(logprobs_BT, logprobs_BT.detach(), mask_BT=mask_BT)
    return bounded_exp(log_sequence_B1 + through_BT)


def masked_log_ratio(
    logprobs_BT: Tensor, base_logprobs_BT: Tensor, *, mask_BT: Tensor
) -> Tensor:
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


def importance_ratio(
    old_logprobs_BT: Tensor,
    gen_logprobs_BT: Tensor,
    *,
    mask_BT: Tensor,
    level: Literal["token", "sequence"] = "token",
) -> Tensor:
    """Plain importance ratio of the trainer's sampling policy to the sampler.

        w_t = exp(log π_old − log π_gen)                 level="token"
        w_i = exp(Σ_t (log π_old − log π_gen))           level="sequence", on every token

    Args:
        old_logprobs_BT: log π_old recomputed by the trainer, shape [B, T], nats.
        gen_logprobs_BT: log π_gen recorded while sampling, shape [B, T], nats.
        mask_BT: True on response tokens, shape [B, T].
        level: one weight per token, or the product over the response.

    Returns:
        Detached, shape [B, T], in [e⁻²⁰, e²⁰]; 0 on padding.

    Raises:
        ObjectiveShapeError: shapes differ, or the mask is not boolean.

    Source: paper, §C, importance sampling.
    """
    log_ratio_BT = masked_log_ratio(
        old_logprobs_BT, gen_logprobs_BT, mask_BT=mask_BT
    ).detach()
    if level == "sequence":
        log_ratio_BT = log_ratio_BT.sum(dim=-1, keepdim=True).expand_as(log_ratio_BT)
    return bounded_exp(log_ratio_BT) * mask_BT


def truncated_weights(ratio_BT: Tensor, *, cap: float) -> Tensor:
    """Truncated importance sampling (TIS): cap the weight.

        w ← min(w, C)

    C = ∞ is plain importance sampling.

    Args:
        ratio_BT: w, shape [B, T], ≥ 0.
        cap: C > 0.

    Returns:
        Shape [B, T], in [0, C].

    Source: paper, §C, topic tis; https://fengyao.notion.site/off-policy-rl.
    """
    return ratio_BT.clamp(max=cap)


def icepop_weights(ratio_BT: Tensor, *, low: float, high: float) -> Tensor:
    """ICEPOP: drop what lies outside a band.

        w ← w if α ≤ w ≤ β else 0

    The band [0, ∞] is plain importance sampling.

    Args:
        ratio_BT: w, shape [B, T], ≥ 0.
        low: α ≥ 0, kept itself.
        high: β > α, kept itself.

    Returns:
        Shape [B, T], in {0} ∪ [α, β].

    Source: paper, §C, importance sampling (ICEPOP); arXiv 2510.18855 (Ring-1T), ICEPOP.
    """
    inside_BT = (ratio_BT >= low) & (ratio_BT <= high)
    return torch.where(inside_BT, ratio_BT, torch.zeros_like(ratio_BT))


def sequence_masked_weights(
    old_logprobs_BT: Tensor,
    gen_logprobs_BT: Tensor,
    *,
    mask_BT: Tensor,
    low: float,
    high: float,
) -> Tensor:
    """Seq-Mask-TIS: drop whole responses by the geometric mean of their ratios.

        w_t ← w_t if α ≤ exp( (1/T_i) Σ_t log w_t ) ≤ β else 0

    Kept responses keep their own token weights. The band [0, ∞] is plain importance sampling.

    Args:
        old_logprobs_BT: log π_old recomputed by the trainer, shape [B, T], nats.
        gen_logprobs_BT: log π_gen recorded while sampling, shape [B, T], nats.
        mask_BT: True on response tokens, shape [B, T].
        low: α ≥ 0, kept itself.
        high: β > α, kept itself.

    Returns:
        Detached, shape [B, T], ≥ 0; 0 on padding and on dropped responses.

    Raises:
        ObjectiveShapeError: shapes differ, or the mask is not boolean.

    Source: paper, §C, topic seq_mask_tis.
    """
    log_ratio_BT = masked_log_ratio(
        old_logprobs_BT, gen_logprobs_BT, mask_BT=mask_BT
    ).detach()
    geometric_mean_B = bounded_exp(mean_over_tokens(log_ratio_BT, mask_BT))
    kept_B1 = ((geometric_mean_B >= low) & (geometric_mean_B <= high))[:, None]
    return bounded_exp(log_ratio_BT) * (mask_BT & kept_B1)
