"""Importance weights between the trainer's copy of the sampling policy and the sampler itself.

The same weights give other log-probabilities in the engine that samples (π_gen) than in the
model that trains (π_old, recomputed before the first update of a rollout). With a correction
chosen, the ratio of the surrogate is π_θ / π_old and each token's surrogate is multiplied by a
detached weight made of w_t = π_old / π_gen. All weights are 1 where the two agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from rubric_train_openrlhf.objective.ratio import bounded_exp, masked_log_ratio, mean_over_tokens

if TYPE_CHECKING:
    from torch import Tensor


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
    log_ratio_BT = masked_log_ratio(old_logprobs_BT, gen_logprobs_BT, mask_BT=mask_BT).detach()
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
    log_ratio_BT = masked_log_ratio(old_logprobs_BT, gen_logprobs_BT, mask_BT=mask_BT).detach()
    geometric_mean_B = bounded_exp(mean_over_tokens(log_ratio_BT, mask_BT))
    kept_B1 = ((geometric_mean_B >= low) & (geometric_mean_B <= high))[:, None]
    return bounded_exp(log_ratio_BT) * (mask_BT & kept_B1)
