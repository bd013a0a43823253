"""Reward shaping by length and by ending, both off in the main run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rubric_core.errors import RewardError, RewardShapeError
from rubric_core.groups import check_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rubric_core.groups import FloatArray


def length_penalty(lengths: ArrayLike, *, max_length: int, buffer: int) -> FloatArray:
    """Return what to add to the rewards of responses that come near the length limit.

        0                                for |y| ≤ L_max − L_buffer
        (L_max − L_buffer − |y|) / L_buffer      up to L_max
        −1                               beyond L_max

    Args:
        lengths: |y| ≥ 0 in tokens, any shape.
        max_length: L_max, the limit in tokens.
        buffer: L_buffer, 0 < L_buffer ≤ L_max: the tokens before the limit that are penalised.

    Returns:
        The same shape, in [−1, 0].

    Raises:
        RewardError: a negative length, or a buffer that is not in (0, L_max].

    Source: paper, §app:variants, Reward shaping.
    Source: arXiv 2503.14476 (DAPO), Eq. 13, soft overlong punishment.
    """
    check_number(max_length, name="max_length")
    check_number(buffer, name="buffer")
    if not 0 < buffer <= max_length:
        raise RewardError(f"buffer must be in (0, max_length = {max_length}], not {buffer}")
    tokens = _numbers(lengths, name="lengths")
    if not (tokens >= 0).all():
        raise RewardError(f"lengths must be numbers from 0 up, the smallest is {tokens.min()}")
    return np.clip((max_length - buffer - tokens) / buffer, -1.0, 0.0)


def truncation_penalty(rewards: ArrayLike, ended: ArrayLike, *, alpha_stop: float) -> FloatArray:
    """Return the rewards, reduced for responses without a stop token.

        R ← α_stop · R        where the response was cut off

    Args:
        rewards: any shape, not negative (a share of a negative reward would be a bonus); nan
            stays nan.
        ended: bool, the same shape: the response has its stop token.
        alpha_stop: α_stop in [0, 1).

    Returns:
        The same shape.

    Raises:
        RewardShapeError: arrays of different shape.
        RewardError: a negative reward, or α_stop outside [0, 1).

    Source: paper, §app:variants, topic truncation_penalty.
    """
    check_number(alpha_stop, name="alpha_stop")
    if not alpha_stop < 1:
        raise RewardError(f"alpha_stop must be in [0, 1), not {alpha_stop!r}")
    values, complete = _numbers(rewards, name="rewards"), np.asarray(ended, dtype=np.bool_)
    if values.shape != complete.shape:
        raise RewardShapeError(f"rewards have shape {values.shape}, ended has {complete.shape}")
    if (values < 0).any():
        raise RewardError(f"rewards must not be negative, the smallest is {np.nanmin(values)}")
    return np.where(complete, values, alpha_stop * values)


def _numbers(values: ArrayLike, *, name: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise RewardError(f"{name} must be an array of real numbers") from None
