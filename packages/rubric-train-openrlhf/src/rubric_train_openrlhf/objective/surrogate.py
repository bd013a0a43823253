"""Terms of a token's loss: the divergence from the reference, and the clipped surrogate."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rubric_train_openrlhf.errors import ObjectiveShapeError
from rubric_train_openrlhf.objective import shapes


def k3(
    logprobs: Tensor,
    ref_logprobs: Tensor,
    *,
    input_clamp: float = 20.0,
    output_clamp: float | None = None,
) -> Tensor:
    """Non-negative estimate of KL(π_θ ‖ π_ref) from one sampled token.

        KL_t = e^u − 1 − u,   u = log π_ref − log π_θ clamped to [−20, 20]

    KL_t ≥ 0, is 0 only at u = 0, and equals u²/2 + O(u³). Its mean over π_θ is the divergence;
    its gradient −(e^u − 1) ∇log π_θ is 0 beyond a clamp.

    Args:
        logprobs: log π_θ of the sampled tokens, any shape, nats.
        ref_logprobs: log π_ref of the same tokens, the same shape, nats.
        input_clamp: bound on |u|, positive; infinity for none.
        output_clamp: upper bound on KL_t, positive; None is the paper, 10 is NeMo-RL and verl.

    Returns:
        The shape of the inputs, in [0, e²⁰ − 21] with the default clamp.

    Raises:
        ObjectiveShapeError: the shapes differ.

    Source: paper, §3.2, Eq. kl_approx; paper, §B, k3 KL approximation.
    """
    return bounded_divergence(
        logprobs,
        ref_logprobs,
        k3_of,
        input_clamp=input_clamp,
        output_clamp=output_clamp,
    )


def k3_of(log_ratio: Tensor) -> Tensor:
    """Return e^u − 1 − u of a log-ratio u.

    Args:
        log_ratio: u = log π_ref − log π_θ, any shape, nats, bounded already.
    """
    # expm1 keeps the digits that e^u − 1 loses for a policy close to its reference.
    return torch.expm1(log_ratio) - log_ratio


def bounded_divergence(
    logprobs: Tensor,
    ref_logprobs: Tensor,
    of_log_ratio: Callable[[Tensor], Tensor],
    *,
    input_clamp: float = 20.0,
    output_clamp: float | None = None,
) -> Tensor:
    """Divergence of every token by a given estimate, bounded before and after.

        KL_t = min(f(u), C),   u = log π_ref − log π_θ clamped to [−B, B]

    Args:
        logprobs: log π_θ of the sampled tokens, any shape, nats.
        ref_logprobs: log π_ref of the same tokens, the same shape, nats.
        of_log_ratio: f, element by element.
        input_clamp: B, positive; infinity for none.
        output_clamp: C, positive; None for none.

    Returns:
        The shape of the inputs.

    Raises:
        ObjectiveShapeError: the shapes differ, or f gives another one.
    """
    _check_pair(logprobs, ref_logprobs)
    u = (ref_logprobs - logprobs).clamp(min=-input_clamp, max=input_clamp)
    divergence = of_log_ratio(u)
    shapes.check_shape(divergence, like=u, of="kl")
    return divergence if output_clamp is None else divergence.clamp(max=output_clamp)


def _check_pair(logprobs: Tensor, ref_logprobs: Tensor) -> None:
    """Refuse log-probabilities of two policies that are not of the same tokens."""
    if logprobs.shape != ref_logprobs.shape:
        shape = tuple(logprobs.shape)
        ref_shape = tuple(ref_logprobs.shape)
        raise ObjectiveShapeError(
            f"logprobs and ref_logprobs must have one shape, got {shape!r} and {ref_shape!r}"
        )


class Clips(NamedTuple):
    """Bounds of the ratio, and of the loss where the advantage is negative."""

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

    r_t is π_θ / π_gen; with an importance correction, π_θ / π_old.

    The paper prints the dual bound as max(ℓ_t, −c A). Read as a loss, that would raise every
    small loss to c|A| and leave the large ones unbounded. The bound of arXiv 1912.09729 is a max
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
    shapes.check_rows(ratio_BT.shape[0], advantages_B=advantages_B)
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
