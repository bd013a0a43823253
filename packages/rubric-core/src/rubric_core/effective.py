"""The noise and resolution that a rubric's weights imply before any response is judged."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from rubric_core.arrays import FloatArray, check_each, check_number, float_array
from rubric_core.errors import RewardError, RewardShapeError


def shares(weights: ArrayLike, *, axes: str = "M") -> FloatArray:
    """Return each weight's part of its rubric's total.

        α_j = w_j / W

    Args:
        weights: the last axis is M; every w_j ≥ 0 and finite, W > 0.
        axes: one letter an axis, "M" or "PM".

    Returns:
        The same shape; sums to 1 over M.

    Raises:
        RewardShapeError: another number of axes.
        RewardError: a negative or non-finite weight, or a total that is 0 or not finite.

    Source: paper, §3.3, definition of α.
    """
    name = f"weights_{axes}"
    weights = float_array(weights, name=name, axes=axes)
    finite = (weights >= 0) & (weights < np.inf)
    check_each(weights, finite, name=name, problem=", not ≥ 0 and finite")
    with np.errstate(over="ignore"):
        totals = weights.sum(axis=-1)
    positive = (totals > 0) & (totals < np.inf)
    check_each(
        totals,
        positive,
        name=f"the total of {name}",
        problem=", not positive and finite",
    )
    return weights / totals[..., None]


def effective_criteria(weights_M: ArrayLike) -> float:
    """Return the number of equal criteria that would average noise as well as these do.

        M_eff = W² / Σ_j w_j²

    Args:
        weights_M: shape [M], every w_j ≥ 0 and finite, W > 0.

    Returns:
        Between 1 (one criterion has all the weight) and M (equal weights).

    Raises:
        RewardError: weights that no reward can be computed from.

    Source: paper, §3.3, Eq. effective_criteria.
    """
    return float(1.0 / (shares(weights_M) ** 2).sum())


def reward_noise_variance(weights_M: ArrayLike, tau2: float) -> float:
    """Return the variance of the reward under independent judge noise on every z_j.

        Var(αᵀξ) = τ² Σ_j α_j² = τ² / M_eff

    Args:
        weights_M: shape [M], every w_j ≥ 0 and finite, W > 0.
        tau2: τ² ≥ 0, the variance of one criterion's normalised score.

    Returns:
        The variance of r; errors that criteria share do not average away and are not in it.

    Raises:
        RewardError: a negative or non-finite τ², or weights that no reward can be computed from.

    Source: paper, §3.3, Eq. effective_criteria.
    """
    check_number(tau2, name="tau2, a variance,")
    return tau2 / effective_criteria(weights_M)


def attainable_levels(
    weights_M: Sequence[float | Fraction], grids: Sequence[Sequence[float | Fraction]]
) -> int:
    """Count the distinct rewards that a rubric can give when scores lie on finite grids.

        |{αᵀz : z ∈ Z_1 × … × Z_M}| ≤ Π_j |Z_j|

    Args:
        weights_M: w_j ≥ 0, at least one positive.
        grids: Z_j for each criterion: the values that z_j can take, in [0, 1].

    Returns:
        The exact count. Floats are read as the decimals that they print as, so that 0.1 + 0.2 and
        0.3 are one level; give a `Fraction` for thirds. Time grows with the levels counted.

    Raises:
        RewardShapeError: not one grid per weight, or an empty grid.
        RewardError: weights that no reward can be computed from, or a value that is not a number or
            outside [0, 1].

    Source: paper, §3.3, topic resolution.
    """
    for value in chain(weights_M, *grids):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise RewardError(
                "weights and grid values must be real numbers: floats or fractions"
            )
    for j, weight in enumerate(weights_M):
        check_number(weight, name=f"weights_M[{j}]")
    shares([float(w) for w in weights_M])
    if len(grids) != len(weights_M) or not all(len(grid) for grid in grids):
        raise RewardShapeError(
            f"{len(weights_M)} weights need as many non-empty grids, not {len(grids)}"
        )
    levels = {Fraction(0)}
    for weight, grid in zip(weights_M, grids, strict=True):
        for z in grid:
            if not 0 <= z <= 1:
                raise RewardError(f"grid values must be in [0, 1], not {z!r}")
        steps = {_exact(weight) * _exact(z) for z in grid}
        levels = {level + step for level in levels for step in steps}
    return len(levels)


def _exact(value: float | Fraction) -> Fraction:
    if isinstance(value, Fraction):
        return value
    return Fraction(str(value))
