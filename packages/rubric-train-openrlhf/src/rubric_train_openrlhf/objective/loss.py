"""The training loss: clipped surrogate plus divergence from the reference, with the variants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import torch
from torch import Tensor

from rubric_train_openrlhf.errors import ObjectiveShapeError
from rubric_train_openrlhf.objective.aggregate import sequence_mean, token_mean, update_size
from rubric_train_openrlhf.objective.ratio import sequence_token_ratio, token_ratio
from rubric_train_openrlhf.objective.surrogate import (
    Clips,
    Surrogate,
    bounded_divergence,
    check_rows,
    check_tokens,
)
from rubric_train_openrlhf.objective.variants import check_shape, importance_weights

if TYPE_CHECKING:
    from rubric_train_openrlhf.objective.aggregate import UpdateSize
    from rubric_train_openrlhf.objective.variants import ObjectiveConfig

METRIC_NAMES: Final = (
    "kl",
    "ratio_mean",
    "clip_frac",
    "dual_clip_frac",
    "is_weight_mean",
    "is_weight_bounded_frac",
)
"""Keys of `PolicyLoss.metrics`, the same for every configuration."""


@dataclass(frozen=True, slots=True)
class ObjectiveBatch:
    """What the loss needs of sampled responses besides the policy's own log-probabilities."""

    gen_logprobs_BT: Tensor
    """log π_gen, recorded while sampling, shape [B, T], nats."""
    advantages_B: Tensor
    """A of each response, shape [B]."""
    mask_BT: Tensor
    """True on response tokens, end token included; False on padding and on masked samples."""
    ref_logprobs_BT: Tensor | None = None
    """log π_ref, shape [B, T], nats; needed unless kl_coef is 0."""
    old_logprobs_BT: Tensor | None = None
    """log π_old, the trainer's own value of log π_gen; needed for an importance correction."""


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """A loss to minimise and what it was made of."""

    loss: Tensor
    """Scalar with a gradient; over micro-batches of one update the losses add up."""
    metrics: dict[str, Tensor]
    """Detached scalars under METRIC_NAMES: means over all tokens of the update, which also add
    up over its micro-batches."""


def policy_loss(
    logprobs_BT: Tensor,
    batch: ObjectiveBatch,
    *,
    config: ObjectiveConfig,
    size: UpdateSize | None = None,
) -> PolicyLoss:
    """Token-averaged clipped surrogate with a divergence penalty.

        L(θ) = (1 / Σ T_ig) Σ_igt m_t [w_t ℓ_t + β KL_t]

    With the default config w_t = 1, ℓ_t is the clipped surrogate of r_t = π_θ / π_gen and KL_t is
    k3: the paper's Eq. total_loss. With an importance correction r_t = π_θ / π_old and w_t is the
    bounded, detached π_old / π_gen; the divergence is never weighted. ratio="sequence" puts
    GSPO's s_i in the place of r_t, aggregation="sequence" averages responses, not tokens.
    Half-precision inputs are computed in float32, float64 in float64.

    Args:
        logprobs_BT: log π_θ of the sampled tokens, with a gradient, shape [B, T], nats.
        batch: the other tensors of the same responses. Rows whose mask is False throughout are
            left out whatever their advantage, NaN included.
        config: clips, β, clamps and variants.
        size: tokens and responses of the whole update; None if this batch is all of it.

    Returns:
        The loss, or this micro-batch's part of it, and its metrics.

    Raises:
        ObjectiveShapeError: shapes differ; no token in an update given as one batch; or a tensor
            that the config needs is missing.

    Source: paper, §3.2, Eq. objective; paper, §3.2, Eq. total_loss; paper, §A; paper, §C.
    """
    size = update_size(batch.mask_BT) if size is None else size
    logprobs_BT, batch = _prepared(logprobs_BT, batch, config=config)
    loss_BT, metrics_BT = _token_terms(logprobs_BT, batch, config=config)
    return PolicyLoss(
        loss=_aggregate(loss_BT, batch.mask_BT, size=size, aggregation=config.aggregation),
        metrics={
            name: _aggregate(value_BT.detach().to(loss_BT.dtype), batch.mask_BT, size=size)
            for name, value_BT in metrics_BT.items()
        },
    )


def _token_terms(
    logprobs_BT: Tensor, batch: ObjectiveBatch, *, config: ObjectiveConfig
) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss of every token, and what is reported of it."""
    ratio_BT = _ratio(logprobs_BT, batch, config=config)
    weights_BT, raw_weights_BT = _weights(batch, config=config)
    kl_BT = _divergence(logprobs_BT, batch, config=config)
    surrogate = _surrogate(ratio_BT, batch, config=config)
    loss_BT = weights_BT * surrogate.loss_BT
    if config.kl_coef > 0:
        loss_BT = loss_BT + config.kl_coef * kl_BT
    terms_BT = (
        kl_BT,
        ratio_BT,
        surrogate.clipped_BT,
        surrogate.dual_clipped_BT,
        weights_BT,
        weights_BT != raw_weights_BT,
    )
    return loss_BT, dict(zip(METRIC_NAMES, terms_BT, strict=True))


def _prepared(
    logprobs_BT: Tensor, batch: ObjectiveBatch, *, config: ObjectiveConfig
) -> tuple[Tensor, ObjectiveBatch]:
    """Check what the config needs, bring it to one dtype and clear the padding."""
    mask_BT = batch.mask_BT
    tokens_BT = {"logprobs_BT": logprobs_BT, "gen_logprobs_BT": batch.gen_logprobs_BT}
    if batch.ref_logprobs_BT is not None:
        tokens_BT["ref_logprobs_BT"] = batch.ref_logprobs_BT
    elif config.kl_coef > 0:
        raise ObjectiveShapeError(
            f"ref_logprobs_BT is missing while kl_coef={config.kl_coef!r}: give the reference's "
            "log-probabilities or set kl_coef to 0"
        )
    if batch.old_logprobs_BT is not None:
        tokens_BT["old_logprobs_BT"] = batch.old_logprobs_BT
    elif config.importance.type != "none":
        raise ObjectiveShapeError(
            f"old_logprobs_BT is missing while importance={config.importance.type!r}: give the "
            "trainer's log-probabilities from before the update"
        )
    check_tokens(mask_BT, **tokens_BT)
    check_rows(mask_BT.shape[0], advantages_B=batch.advantages_B)
    dtype = torch.promote_types(logprobs_BT.dtype, torch.float32)
    # Padding may hold NaN or infinities; selecting here keeps them out of every gradient, which
    # a mask applied after the arithmetic would not: 0 · NaN is NaN.
    clean = {name: _where(mask_BT, tensor.to(dtype)) for name, tensor in tokens_BT.items()}
    prepared = ObjectiveBatch(
        gen_logprobs_BT=clean["gen_logprobs_BT"],
        advantages_B=_where(mask_BT.any(dim=-1), batch.advantages_B.to(dtype)),
        mask_BT=mask_BT,
        ref_logprobs_BT=clean.get("ref_logprobs_BT"),
        old_logprobs_BT=clean.get("old_logprobs_BT"),
    )
    return clean["logprobs_BT"], prepared


def _ratio(logprobs_BT: Tensor, batch: ObjectiveBatch, *, config: ObjectiveConfig) -> Tensor:
    denominator_BT = batch.gen_logprobs_BT
    if config.importance.type != "none" and batch.old_logprobs_BT is not None:
        denominator_BT = batch.old_logprobs_BT
    ratio_of = token_ratio if config.ratio == "token" else sequence_token_ratio
    return ratio_of(logprobs_BT, denominator_BT, mask_BT=batch.mask_BT)


def _surrogate(ratio_BT: Tensor, batch: ObjectiveBatch, *, config: ObjectiveConfig) -> Surrogate:
    clips = Clips(low=config.clip_low, high=config.clip_high, dual=config.dual_clip)
    surrogate = config.surrogate.of_ratio(ratio_BT, batch.advantages_B, clips=clips)
    for tensor_BT in surrogate:
        check_shape(tensor_BT, like=ratio_BT, of=f"surrogate.type={config.surrogate.type!r}")
    return surrogate


def _weights(batch: ObjectiveBatch, *, config: ObjectiveConfig) -> tuple[Tensor, Tensor]:
    """Importance weights with their bounds applied, and without."""
    importance, mask_BT = config.importance, batch.mask_BT
    if importance.type == "none" or batch.old_logprobs_BT is None:
        ones_BT = torch.ones_like(batch.gen_logprobs_BT)
        return ones_BT, ones_BT
    raw_BT = importance.unbounded(batch.old_logprobs_BT, batch.gen_logprobs_BT, mask_BT=mask_BT)
    weights_BT = importance_weights(
        batch.old_logprobs_BT, batch.gen_logprobs_BT, mask_BT=mask_BT, importance=importance
    )
    return weights_BT, raw_BT


def _divergence(logprobs_BT: Tensor, batch: ObjectiveBatch, *, config: ObjectiveConfig) -> Tensor:
    """Divergence of each token; 0 if there is no reference."""
    if batch.ref_logprobs_BT is None:
        return torch.zeros_like(logprobs_BT)
    return bounded_divergence(
        logprobs_BT,
        batch.ref_logprobs_BT,
        config.kl.of_log_ratio,
        input_clamp=config.kl_input_clamp,
        output_clamp=config.kl_output_clamp,
    )


def _aggregate(
    values_BT: Tensor,
    mask_BT: Tensor,
    *,
    size: UpdateSize,
    aggregation: Literal["token", "sequence"] = "token",
) -> Tensor:
    if aggregation == "token":
        return token_mean(values_BT, mask_BT=mask_BT, total_tokens=size.tokens)
    return sequence_mean(values_BT, mask_BT=mask_BT, total_sequences=size.sequences)


def _where(mask: Tensor, values: Tensor) -> Tensor:
    return torch.where(mask, values, torch.zeros_like(values))
