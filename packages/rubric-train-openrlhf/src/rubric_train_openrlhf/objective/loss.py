"""The training loss: a surrogate plus the divergence from the reference, with the variants.

Every mean here divides by a count of the *whole* update, given by the caller. The results of
the micro-batches, and their gradients, then add up exactly to those of the whole batch, however
long the responses of each micro-batch are.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rubric_train_openrlhf.errors import ObjectiveShapeError
from rubric_train_openrlhf.objective import ratio, shapes, surrogate, variants

METRIC_NAMES = (
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
    """Data of sampled responses that the loss needs besides the policy's own log-probabilities."""

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
    """A loss to minimise, with its metrics."""

    loss: Tensor
    """Scalar with a gradient; over micro-batches of one update the losses add up."""
    metrics: dict[str, Tensor]
    """Detached scalars under METRIC_NAMES: means over all tokens of the update, which also add
    up over its micro-batches."""


@dataclass(frozen=True, slots=True)
class UpdateSize:
    """Numbers of tokens and responses that one optimizer update averages over."""

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


def policy_loss(
    logprobs_BT: Tensor,
    batch: ObjectiveBatch,
    *,
    config: variants.ObjectiveConfig,
    size: UpdateSize | None = None,
) -> PolicyLoss:
    """Return the policy loss of a micro-batch: the surrogate plus β times the divergence.

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
    _check_inputs(logprobs_BT, batch, config=config)
    size = update_size(batch.mask_BT) if size is None else size
    logprobs_BT, batch = _cleared(logprobs_BT, batch)
    loss_BT, metrics_BT = _token_terms(logprobs_BT, batch, config=config)
    mask_BT = batch.mask_BT
    if config.aggregation == "token":
        loss = token_mean(loss_BT, mask_BT=mask_BT, total_tokens=size.tokens)
    else:
        loss = sequence_mean(loss_BT, mask_BT=mask_BT, total_sequences=size.sequences)
    metrics = {
        name: token_mean(
            value_BT.detach().to(loss_BT.dtype),
            mask_BT=mask_BT,
            total_tokens=size.tokens,
        )
        for name, value_BT in metrics_BT.items()
    }
    return PolicyLoss(loss, metrics)


def _token_terms(
    logprobs_BT: Tensor, batch: ObjectiveBatch, *, config: variants.ObjectiveConfig
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss of every token, and its metrics by name."""
    importance = config.importance
    mask_BT = batch.mask_BT
    gen_BT = batch.gen_logprobs_BT
    denominator_BT = gen_BT  # of the ratio, as a log-probability
    weights_BT = torch.ones_like(gen_BT)
    raw_weights_BT = weights_BT
    if importance.reads_old_logprobs and batch.old_logprobs_BT is not None:
        old_BT = batch.old_logprobs_BT
        denominator_BT = old_BT
        raw_weights_BT = importance.unbounded(old_BT, gen_BT, mask_BT=mask_BT)
        weights_BT = importance_weights(
            old_BT, gen_BT, mask_BT=mask_BT, importance=importance
        )
    ratio_of = (
        ratio.token_ratio if config.ratio == "token" else ratio.sequence_token_ratio
    )
    ratio_BT = ratio_of(logprobs_BT, denominator_BT, mask_BT=mask_BT)
    clips = surrogate.Clips(
        low=config.clip_low, high=config.clip_high, dual=config.dual_clip
    )
    terms = config.surrogate.of_ratio(ratio_BT, batch.advantages_B, clips=clips)
    for tensor_BT in terms:
        shapes.check_shape(
            tensor_BT, like=ratio_BT, of=f"surrogate.type={config.surrogate.type!r}"
        )
    loss_BT = weights_BT * terms.loss_BT
    kl_BT = torch.zeros_like(logprobs_BT)
    if batch.ref_logprobs_BT is not None:
        kl_BT = surrogate.bounded_divergence(
            logprobs_BT,
            batch.ref_logprobs_BT,
            config.kl.of_log_ratio,
            input_clamp=config.kl_input_clamp,
            output_clamp=config.kl_output_clamp,
        )
    if config.kl_coef > 0:
        loss_BT = loss_BT + config.kl_coef * kl_BT
    return loss_BT, {
        "kl": kl_BT,
        "ratio_mean": ratio_BT,
        "clip_frac": terms.clipped_BT,
        "dual_clip_frac": terms.dual_clipped_BT,
        "is_weight_mean": weights_BT,
        "is_weight_bounded_frac": weights_BT != raw_weights_BT,
    }


def importance_weights(
    old_logprobs_BT: Tensor,
    gen_logprobs_BT: Tensor,
    *,
    mask_BT: Tensor,
    importance: variants.ImportanceCorrection,
) -> Tensor:
    """Weight of every token under the configured correction.

        w ← 1, min(w, C), w · 1[α ≤ w ≤ β] or w · 1[α ≤ geometric mean ≤ β]

    Args:
        old_logprobs_BT: log π_old recomputed by the trainer, shape [B, T], nats.
        gen_logprobs_BT: log π_gen recorded while sampling, shape [B, T], nats.
        mask_BT: True on response tokens, shape [B, T].
        importance: which correction, with its bounds.

    Returns:
        Detached, shape [B, T], ≥ 0; 0 on padding.

    Raises:
        ObjectiveShapeError: shapes differ, the mask is not boolean, or the correction gives
            weights of another shape.

    Source: paper, §C, importance sampling.
    """
    weights_BT = importance.weights(old_logprobs_BT, gen_logprobs_BT, mask_BT=mask_BT)
    shapes.check_shape(
        weights_BT, like=mask_BT, of=f"importance.type={importance.type!r}"
    )
    return weights_BT.detach()


def _per_token(logprobs_BT: Tensor, batch: ObjectiveBatch) -> dict[str, Tensor]:
    """Return the log-probabilities that are there, by name, each of shape [B, T]."""
    per_token = {
        "logprobs_BT": logprobs_BT,
        "gen_logprobs_BT": batch.gen_logprobs_BT,
    }
    if batch.ref_logprobs_BT is not None:
        per_token["ref_logprobs_BT"] = batch.ref_logprobs_BT
    if batch.old_logprobs_BT is not None:
        per_token["old_logprobs_BT"] = batch.old_logprobs_BT
    return per_token


def _check_inputs(
    logprobs_BT: Tensor, batch: ObjectiveBatch, *, config: variants.ObjectiveConfig
) -> None:
    """Refuse a batch that lacks what the config needs, or whose shapes differ."""
    if batch.ref_logprobs_BT is None and config.kl_coef > 0:
        raise ObjectiveShapeError(
            f"ref_logprobs_BT is missing while kl_coef={config.kl_coef!r}: give the "
            "reference's log-probabilities or set kl_coef to 0"
        )
    importance = config.importance
    if batch.old_logprobs_BT is None and importance.reads_old_logprobs:
        raise ObjectiveShapeError(
            f"old_logprobs_BT is missing while importance.type={importance.type!r}: give "
            "the trainer's log-probabilities from before the update"
        )
    shapes.check_tokens(batch.mask_BT, **_per_token(logprobs_BT, batch))
    shapes.check_rows(batch.mask_BT.shape[0], advantages_B=batch.advantages_B)


def _cleared(
    logprobs_BT: Tensor, batch: ObjectiveBatch
) -> tuple[Tensor, ObjectiveBatch]:
    """Return the log-probabilities and the batch in one dtype, with 0 on padding."""
    mask_BT = batch.mask_BT
    dtype = torch.promote_types(logprobs_BT.dtype, torch.float32)
    # Padding may hold NaN or infinities; selecting here keeps them out of every gradient, which
    # a mask applied after the arithmetic would not: 0 · NaN is NaN.
    clean = {
        name: values_BT.to(dtype).masked_fill(~mask_BT, 0)
        for name, values_BT in _per_token(logprobs_BT, batch).items()
    }
    logprobs_BT = clean.pop("logprobs_BT")
    advantages_B = batch.advantages_B.to(dtype).masked_fill(~mask_BT.any(dim=-1), 0)
    return logprobs_BT, replace(batch, advantages_B=advantages_B, **clean)


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
    shapes.check_mask(mask_BT)
    return UpdateSize(
        tokens=int(mask_BT.sum().item()),
        sequences=int(mask_BT.any(dim=-1).sum().item()),
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


def sequence_mean(
    values_BT: Tensor, *, mask_BT: Tensor, total_sequences: int
) -> Tensor:
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
    return (
        ratio.mean_over_tokens(_on_tokens(values_BT, mask_BT), mask_BT).sum()
        / total_sequences
    )


def _on_tokens(values_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return the values on response tokens, and 0 elsewhere."""
    shapes.check_tokens(mask_BT, values_BT=values_BT)
    # Selecting, not multiplying: 0 · NaN on padding would be NaN.
    return torch.where(mask_BT, values_BT, torch.zeros_like(values_BT))
