"""What judge noise does to advantages: signs that flip, groups that carry no signal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rubric_core import group_advantages
from rubric_judge.reliability.noise import GroupParts
from rubric_judge.reliability.resampling import IntArray, Statistic

if TYPE_CHECKING:
    from rubric_core.groups import BoolArray, FloatArray


_ROUNDING: Final = 1e-9


class AdvantagePairs(NamedTuple):
    """Advantages of a response in two judgements of its group, and sums of them by response."""

    sizes: FloatArray
    """(|A_r| + |A_r'|) / 2 of each pair."""
    flipped: BoolArray
    """Whether the two have opposite signs."""
    flips_N: FloatArray
    pairs_N: FloatArray
    flipped_size_N: FloatArray
    size_N: FloatArray
    constant_N: FloatArray
    """Sums over a group to the share of its judgements whose rewards are all equal."""
    part_N: FloatArray
    """1 / n for the n responses of a group that can be compared."""


def advantage_pairs(rewards_NR: FloatArray, groups: Sequence[IntArray]) -> AdvantagePairs:
    """Compare the advantages that replicates of the same group's judgements give.

        flip: A^(r) A^(r') < 0,   over all pairs r < r' in which either is not 0

    A is `group_advantages` of replicate r's rewards; a judgement without scores is masked, as in
    training. The share of flips is what judging the batch again, independently, would turn
    around; noise alone gives about ½, a judge without noise 0.

    Args:
        rewards_NR: shape [N, R], nan where not scored.
        groups: the rows of each task.

    Returns:
        The pairs, and their sums by response.
    """
    sizes: list[FloatArray] = []
    flipped: list[BoolArray] = []
    sums = np.zeros((6, len(rewards_NR)))
    for group in groups:
        rewards_RG = rewards_NR[group].T
        valid_RG = ~np.isnan(rewards_RG)
        judged_R = valid_RG.sum(axis=1) > 1
        if len(group) < 2 or not judged_R.any():  # noqa: PLR2004  # a group of one has no advantage
            continue
        advantages_RG = group_advantages(rewards_RG[judged_R], valid_PG=valid_RG[judged_R])
        # The mean of the group is on neither side of it, whatever its rounding says.
        advantages_RG = np.where(np.abs(advantages_RG) < _ROUNDING, 0.0, advantages_RG)
        valid_RG = valid_RG[judged_R]
        for first, second in combinations(range(len(advantages_RG)), 2):
            a_G, b_G = advantages_RG[first], advantages_RG[second]
            counted_G = valid_RG[first] & valid_RG[second] & ((a_G != 0) | (b_G != 0))
            flip_G = counted_G & (a_G * b_G < 0)
            size_G = (np.abs(a_G) + np.abs(b_G)) / 2
            sizes.append(size_G[counted_G])
            flipped.append(flip_G[counted_G])
            sums[:4, group] += (flip_G, counted_G, size_G * flip_G, size_G * counted_G)
        constant = float((np.abs(advantages_RG).sum(axis=1) == 0).mean())
        sums[4:, group] = np.array([[constant], [1.0]]) / len(group)
    return AdvantagePairs(
        np.concatenate([*sizes, np.empty(0)]),
        np.concatenate([*flipped, np.empty(0, dtype=np.bool_)]),
        *sums,
    )


def below_noise(parts: GroupParts) -> Statistic:
    """Return the share of groups whose spread is below the noise of one judgement.

        σ̂_g² < τ_r²,   σ̂_g² = Var_i(x̄_i) − τ_r² · mean_i(1 / R_i)

    x̄_i is the mean reward of a response over replicates, whose own noise is taken off; τ_r² is the
    variance of the reward over replicates, pooled over the drawn rows.

    Returns:
        The statistic over rows of whole groups; 0 for a judge without noise.
    """

    def statistic(rows: IntArray) -> float:
        df, groups = float(parts.within_df_N[rows].sum()), float(parts.part_N[rows].sum())
        if not df or not groups:
            return math.nan
        tau2 = float(parts.squares_N[rows].sum()) / df
        signal_N = parts.signal_N[rows] - tau2 * parts.mean_inverse_N[rows]
        return float((parts.part_N[rows] * (signal_N < tau2)).sum()) / groups

    return statistic
