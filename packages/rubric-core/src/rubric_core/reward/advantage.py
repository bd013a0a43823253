"""Group-relative advantages: how much better a response is than its siblings."""

import numpy as np
from numpy.typing import ArrayLike

from rubric_core import arrays
from rubric_core.arrays import BoolArray, FloatArray
from rubric_core.reward import inputs
from rubric_core.reward.inputs import Std

_LEAVE_ONE_OUT_EPS = 1e-6


def leave_one_out_baseline(
    rewards_PG: ArrayLike, *, valid_PG: ArrayLike | None = None
) -> FloatArray:
    """Return for each response the mean reward of its siblings.

        b_i^(g) = 1/(G−1) · Σ_{g'≠g} R_i^(g')

    Args:
        rewards_PG: shape [P, G], G ≥ 2, finite where valid.
        valid_PG: bool, shape [P, G]; False leaves a response out. None: all take part.

    Returns:
        Shape [P, G]; nan where there is no baseline: masked responses, and the only valid
        response of a group.

    Raises:
        RewardShapeError: not [P, G], G < 2, or a mask of another shape.
        RewardError: a valid reward that is not a finite number, or beyond ±1e100.

    Source: paper, §3.2, Eq. advantage.
    """
    rewards, valid = arrays.checked_groups(rewards_PG, valid_PG)
    siblings_P1 = valid.sum(axis=1, keepdims=True) - 1
    siblings_sum_PG = rewards.sum(axis=1, keepdims=True) - rewards
    baseline_PG = siblings_sum_PG / np.maximum(siblings_P1, 1)
    return np.where(valid & (siblings_P1 > 0), baseline_PG, np.nan)


def group_advantages(
    rewards_PG: ArrayLike,
    *,
    std: Std = "sample",
    delta: float = 1e-8,
    valid_PG: ArrayLike | None = None,
) -> FloatArray:
    """Return each response's reward relative to its siblings', in units of the group's spread.

        A_i^(g) = (R_i^(g) − b_i^(g)) / (σ_i + δ)      0 for a group whose rewards are equal

    Args:
        rewards_PG: shape [P, G], G ≥ 2, finite where valid.
        std: σ_i: "sample" divides the squares by G − 1, "population" by G; "none" takes 1 for the
            whole denominator; "leave_one_out" takes the sample std of the G − 1 siblings, with
            ε = 1e-6 for δ, and leaves R − b unscaled where the siblings agree within rounding.
        delta: δ ≥ 0, finite; read by "sample" and "population".
        valid_PG: bool, shape [P, G]; False leaves a response out. None: all take part.

    Returns:
        Shape [P, G]. 0 for masked responses, and in groups whose valid rewards do not differ by
        more than rounding (`arrays.differ`). Rows sum to 0 within rounding, except for
        "leave_one_out".

    Raises:
        RewardShapeError: not [P, G], G < 2, or a mask of another shape.
        RewardError: a valid reward that is not a finite number or beyond ±1e100, or an unknown
            `std` or `delta`.

    Source: paper, §3.2, Eq. advantage.
    Source: NeMo-RL 0.4 and later, use_leave_one_out_baseline with normalize_rewards.
    """
    rewards, valid = arrays.checked_groups(rewards_PG, valid_PG)
    scale_PG = advantage_scale(rewards, valid, std=std, delta=delta)
    deviation_PG = rewards - leave_one_out_baseline(rewards, valid_PG=valid)
    # The std cannot decide this: it is above 0 for three rewards of 0.1.
    informative_P1 = arrays.differ(rewards, valid)[:, None]
    return np.where(valid & informative_P1, deviation_PG / scale_PG, 0.0)


def advantage_scale(
    rewards_PG: FloatArray, valid_PG: BoolArray, *, std: Std, delta: float
) -> FloatArray:
    """Return the divisor of R − b, shape [P, G] or [P, 1]; 1 where there is nothing to divide.

    Raises:
        RewardError: an unknown `std`, or a `delta` that is negative or not finite.
    """
    inputs.check_scale(std, delta=delta)
    match std:
        case "sample" | "population":
            ddof = 1 if std == "sample" else 0
            std_P = arrays.std_over_valid(rewards_PG, valid_PG, ddof=ddof)
            return np.where(std_P > 0, std_P + delta, 1.0)[:, None]
        case "leave_one_out":
            std_PG = _siblings_std(rewards_PG, valid_PG)
            return np.where(std_PG > 0, std_PG + _LEAVE_ONE_OUT_EPS, 1.0)
        case "none":
            return np.ones((len(rewards_PG), 1))


def _siblings_std(rewards_PG: FloatArray, valid_PG: BoolArray) -> FloatArray:
    """Return the sample std of each response's valid siblings, 0 if equal or fewer than two."""
    std_PG = np.zeros_like(rewards_PG)
    # Siblings whose rewards differ by a rounding are equal here: the advantage of the one response
    # that does differ, divided by ε alone, would be a million. Σ R² − (Σ R)² cannot tell these.
    for g in range(rewards_PG.shape[1]):
        siblings_PG = valid_PG.copy()
        siblings_PG[:, g] = False
        differ_P = arrays.differ(rewards_PG, siblings_PG)
        std_P = arrays.std_over_valid(rewards_PG, siblings_PG, ddof=1)
        std_PG[differ_P, g] = std_P[differ_P]
    return std_PG


def length_penalty(lengths: ArrayLike, *, max_length: int, buffer: int) -> FloatArray:
    """Return the penalties to add to the rewards of responses that come near the length limit.

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
    inputs.check_buffer(buffer, max_length=max_length)
    tokens = inputs.checked_lengths(lengths)
    return np.clip((max_length - buffer - tokens) / buffer, -1.0, 0.0)


def truncation_penalty(
    rewards: ArrayLike, ended: ArrayLike, *, alpha_stop: float
) -> FloatArray:
    """Return the rewards, reduced for responses without a stop token.

        R ← α_stop · R        where the response was cut off

    Args:
        rewards: any shape, finite and not negative (a share of a negative reward would be a
            bonus); nan, which stands for a masked reward, stays nan.
        ended: bool, the same shape: the response has its stop token.
        alpha_stop: α_stop in [0, 1).

    Returns:
        The same shape.

    Raises:
        RewardShapeError: arrays of different shape.
        RewardError: a reward that is negative, infinite or no number, endings that are not
            booleans, or α_stop outside [0, 1).

    Source: paper, §app:variants, topic truncation_penalty.
    """
    inputs.check_share(alpha_stop, name="alpha_stop")
    values, complete = inputs.checked_endings(rewards, ended)
    return np.where(complete, values, alpha_stop * values)
