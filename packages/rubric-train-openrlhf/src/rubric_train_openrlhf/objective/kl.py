"""Estimates of the divergence from the frozen reference policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from rubric_train_openrlhf.errors import ObjectiveShapeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


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
        logprobs, ref_logprobs, k3_of, input_clamp=input_clamp, output_clamp=output_clamp
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
    """Divergence of every token by some estimate, with a bound on what goes in and what comes out.

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
    if logprobs.shape != ref_logprobs.shape:
        raise ObjectiveShapeError(
            f"logprobs and ref_logprobs must have one shape, got {tuple(logprobs.shape)!r} and "
            f"{tuple(ref_logprobs.shape)!r}"
        )
    u = (ref_logprobs - logprobs).clamp(min=-input_clamp, max=input_clamp)
    divergence = of_log_ratio(u)
    if divergence.shape != u.shape:
        raise ObjectiveShapeError(
            f"the divergence must have one value for each of {tuple(u.shape)!r} tokens, got "
            f"{tuple(divergence.shape)!r}"
        )
    return divergence if output_clamp is None else divergence.clamp(max=output_clamp)
