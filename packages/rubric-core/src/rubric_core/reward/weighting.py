"""Weights of criteria that change from group to group, before the projection onto a reward."""

import numpy as np
from numpy.typing import ArrayLike

from rubric_core import arrays
from rubric_core.arrays import BoolArray, FloatArray
from rubric_core.effective import shares
from rubric_core.errors import RewardError
from rubric_core.reward.inputs import check_share, checked_scores

_ROUNDING = 1e-9
"""Error that dropout · M may have: .29 · 100 is 28.999999999999996."""


def contrast_factors(
    z_PGM: ArrayLike,
    weights_PM: ArrayLike,
    *,
    least: float,
    most: float,
    valid_PG: ArrayLike | None = None,
) -> FloatArray:
    """Return the factors of weights that follow how far a criterion separates its group.

        c_j = std over the group of z_j,   c̄ = Σ_j α_j c_j,   f_j = clip(c_j / c̄, least, most)

    with 1 for every criterion where c̄ is 0, and for criteria of weight 0. The factors are of the
    group's own scores and of nothing else, so there is no state between steps.

    Args:
        z_PGM: shape [P, G, M], finite where valid and w_j > 0; not read elsewhere.
        weights_PM: shape [P, M], every w_j ≥ 0 and finite, each row with a positive sum.
        least: the factor of a criterion on which the group agrees, in (0, 1].
        most: the greatest factor, from 1 up, finite.
        valid_PG: bool, shape [P, G]; False leaves a response out. None: all take part.

    Returns:
        Shape [P, M], in [least, most].

    Raises:
        RewardShapeError: axes that do not fit, G < 2, or a mask of another shape.
        RewardError: a valid z_j that is not finite, weights that no reward can be computed from, or
            bounds outside their range.

    Source: arXiv 2605.20164 (POW3R), weights by the contrast of rollouts; its smoothing over steps
    and its categories of criteria are left out, and the bounds are ours.
    """
    if not 0 < least <= 1:
        raise RewardError(f"least must be in (0, 1], not {least!r}")
    if not (1 <= most < np.inf):
        raise RewardError(f"most must be a finite number from 1 up, not {most!r}")
    z, alpha, valid = checked_scores(z_PGM, weights_PM, valid_PG)
    contrast_PM = np.zeros(alpha.shape)
    for j, z_PG in enumerate(np.moveaxis(z, 2, 0)):
        std_P = arrays.std_over_valid(z_PG, valid, ddof=0)
        contrast_PM[:, j] = np.where(arrays.differ(z_PG, valid), std_P, 0.0)
    mean_P1 = (alpha * contrast_PM).sum(axis=1, keepdims=True)
    ratio_PM = np.divide(
        contrast_PM, mean_P1, out=np.ones_like(alpha), where=mean_P1 > 0
    )
    return np.where(alpha > 0, np.clip(ratio_PM, least, most), 1.0)


def kept_criteria(
    weights_M: ArrayLike, *, dropout: float, generator: np.random.Generator
) -> BoolArray:
    """Draw the criteria of a rubric that enter a reward.

    Of n criteria with weight, dropout · n are left out, rounded up or down at random so that each
    is left out with probability `dropout`, and never all: one stays, and a rubric of one criterion
    is left as it is. With equal weights the mean reward over the draws is the full rubric's.

    Args:
        weights_M: shape [M], every w_j ≥ 0, with a positive sum.
        dropout: in [0, 1).
        generator: draws twice.

    Returns:
        Shape [M]; True also for criteria of weight 0, which enter no reward.

    Raises:
        RewardError: a dropout outside [0, 1), or weights that no reward can be computed from.

    Source: arXiv 2608.11669 (Rubric Dropout); how many are drawn is ours.
    """
    check_share(dropout, name="dropout")
    alpha_M = shares(weights_M, axes="M")
    weighted = np.flatnonzero(alpha_M > 0)
    expected = dropout * len(weighted) + _ROUNDING
    out = int(expected) + int(generator.random() < expected % 1 - _ROUNDING)
    order = generator.permutation(weighted)
    kept = np.ones(alpha_M.shape, dtype=np.bool_)
    kept[order[: min(out, len(weighted) - 1)]] = False
    return kept


def moved_shares(weights_PM: ArrayLike, factors_PM: ArrayLike) -> FloatArray:
    """Return α_j' = f_j w_j / Σ_k f_k w_k: the shares by which the advantage is computed.

    A row whose factors are equal is α itself, to the last bit.

    Args:
        weights_PM: shape [P, M], every w_j ≥ 0 and finite, each row with a positive sum.
        factors_PM: shape [P, M], f_j ≥ 0; 0 leaves a criterion out.

    Raises:
        RewardError: nothing is left of a row's weight, or weights of another shape.

    Source: paper, §3.1, Eq. norm_reward, with f_j w_j in the place of w_j.
    """
    alpha = shares(weights_PM, axes="PM")
    factors = arrays.float_array(factors_PM, name="factors_PM", axes="PM")
    if factors.shape != alpha.shape:
        raise RewardError(
            f"factors_PM has shape {factors.shape}, weights_PM has {alpha.shape}"
        )
    weighted = alpha > 0
    low = factors.min(axis=1, where=weighted, initial=np.inf)
    high = factors.max(axis=1, where=weighted, initial=-np.inf)
    moved = shares(np.where(weighted, factors * alpha, 0.0), axes="PM")
    return np.where((low == high)[:, None], alpha, moved)
