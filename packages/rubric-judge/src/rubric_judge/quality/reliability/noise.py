"""Test–retest noise of a judge: by criterion, in the reward, and in the signs of advantages.

Replicates of a response differ by the judge's noise alone. All sums here run over the scored
replicates; a response with fewer than two adds nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from rubric_core import group_advantages
from rubric_core.arrays import BoolArray, FloatArray
from rubric_judge.quality.reliability.ratings import IntArray, Statistic, ratio


@dataclass(frozen=True)
class Retest:
    """Sums over replicates, which give a variance in any pooling: Σ squares / Σ df."""

    squares: FloatArray
    """Σ_r (x_r − x̄)²; 0 where there are fewer than two replicates."""
    df: FloatArray
    """R − 1, or 0."""
    mean: FloatArray
    """x̄; nan without a replicate."""
    count: FloatArray
    """R."""


def retest(x_R: FloatArray) -> Retest:
    """Return the sums that the variance over replicates is computed from.

        τ² = Σ_i Σ_r (x_ir − x̄_i)² / Σ_i (R_i − 1)

    Args:
        x_R: any shape whose last axis is R; nan where there is no score.

    Returns:
        Arrays without the last axis. For 0.2, 0.4 and 0.6: squares 0.08, df 2, so τ² = 0.04.

    Source: Fleiss, The Design and Analysis of Clinical Experiments (1986), ch. 1: the mean square
        within subjects of a one-way random-effects model.
    """
    present = ~np.isnan(x_R)
    count = present.sum(axis=-1).astype(np.float64)
    filled = np.where(present, x_R, 0.0)
    sums = filled.sum(axis=-1)
    mean = np.where(count > 0, sums / np.maximum(count, 1), np.nan)
    deviation = np.where(present, x_R - mean[..., None], 0.0)
    # Equal replicates have no spread, whatever the rounding of their mean.
    lowest = np.where(present, x_R, np.inf).min(axis=-1)
    highest = np.where(present, x_R, -np.inf).max(axis=-1)
    squares = np.where(highest > lowest, (deviation**2).sum(axis=-1), 0.0)
    df = np.maximum(count - 1, 0)
    return Retest(squares=squares, df=df, mean=mean, count=count)


class RewardNoise(NamedTuple):
    """Statistics of the variance of a reward under judge noise."""

    tau2: Statistic
    """τ²: variance of z, pooled over criteria."""
    predicted: Statistic
    independent: Statistic
    measured: Statistic
    inflation: Statistic
    """measured / independent."""


def reward_noise(
    z_NRM: FloatArray, rewards_NR: FloatArray, alpha_NM: FloatArray
) -> RewardNoise:
    """Return the predicted and the measured variance of the reward over replicates.

        predicted    τ² / M_eff,   M_eff = 1 / Σ_j α_j²
        independent  Σ_j α_j² τ_j²
        measured     αᵀΣα = Var_r(r_i),   Σ the covariance of z over replicates

    each averaged over responses by their degrees of freedom. The first assumes one τ² for all
    criteria, both assume independent errors; measured − independent is what covariances add.

    Args:
        z_NRM: shape [N, R, M], nan where not scored or without weight.
        rewards_NR: shape [N, R]: αᵀz.
        alpha_NM: shape [N, M].

    Returns:
        Statistics over rows. Two criteria with α = (½, ½) and τ² = 0.04 each: predicted and
        independent 0.02; measured 0.02 if their errors are independent, 0.04 if they are equal.

    Source: paper, §3.3, Eq. effective_criteria.
    """
    per_criterion = retest(np.moveaxis(z_NRM, 1, 2))
    reward = retest(rewards_NR)
    squares_of_criteria_N = per_criterion.squares.sum(axis=1)
    tau2 = ratio(squares_of_criteria_N, per_criterion.df.sum(axis=1))
    inverse_N = (alpha_NM**2).sum(axis=1)
    inverse_effective = ratio(reward.df * inverse_N, reward.df)

    def predicted(rows: IntArray) -> float:
        return tau2(rows) * inverse_effective(rows)

    squares_N = (alpha_NM**2 * per_criterion.squares).sum(axis=1)
    independent = ratio(squares_N, reward.df)
    measured = ratio(reward.squares, reward.df)
    return RewardNoise(
        tau2=tau2,
        predicted=predicted,
        independent=independent,
        measured=measured,
        inflation=ratio(reward.squares, squares_N),
    )


def icc1(rewards_NR: FloatArray) -> Statistic:
    """Return the reliability of one judgement over all responses, ICC(1).

        ICC(1) = σ_b² / (σ_b² + τ_r²),   σ_b² = (MSB − MSW) / k₀
        k₀ = (Σ R_i − Σ R_i² / Σ R_i) / (N − 1)

    One-way random effects: replicates have no order, so no judge effect is taken out. k₀ = R where
    every response has R replicates.

    Args:
        rewards_NR: shape [N, R], nan where not scored.

    Returns:
        The statistic over rows; nan where nothing varies or nothing is repeated.

    Source: Shrout and Fleiss, Intraclass correlations, Psychological Bulletin 86 (1979), ICC(1,1).
    Source: Searle, Casella and McCulloch, Variance Components (1992), §3.6, for unequal R_i.
    """
    repeated = retest(rewards_NR)

    def statistic(rows: IntArray) -> float:
        scored = rows[repeated.count[rows] > 0]
        count = repeated.count[scored]
        mean = repeated.mean[scored]
        total = float(count.sum())
        df = float(repeated.df[scored].sum())
        if len(scored) < 2 or not df:  # noqa: PLR2004  # two responses to compare
            return math.nan
        grand_mean = (count * mean).sum() / total
        between = float((count * (mean - grand_mean) ** 2).sum())
        k0 = (total - float((count**2).sum()) / total) / (len(scored) - 1)
        within = float(repeated.squares[scored].sum())
        return _icc(between / (len(scored) - 1), within / df, k0)

    return statistic


def _icc(between: float, within: float, k0: float) -> float:
    signal = (between - within) / k0
    return signal / (signal + within) if signal + within > 0 else math.nan


class GroupParts(NamedTuple):
    """Each response's share of the sums over its group, the responses of a task."""

    between_N: FloatArray
    """R_i (x̄_i − x̄_group)²."""
    df_N: FloatArray
    """Sums to n − 1 over a group of n; 0 for a group that cannot be compared."""
    k_N: FloatArray
    """Sums to Σ R_i − Σ R_i² / Σ R_i over a group."""
    squares_N: FloatArray
    within_df_N: FloatArray
    signal_N: FloatArray
    """Sample variance of the group's x̄_i, the same for every member."""
    mean_inverse_N: FloatArray
    """Mean of 1 / R_i over the group, likewise."""
    part_N: FloatArray
    """1 / n, so that it sums to 1 over a group; 0 for a group that cannot be compared."""


def group_parts(rewards_NR: FloatArray, groups: Sequence[IntArray]) -> GroupParts:
    """Split the variance within groups into parts that add up over any set of whole groups.

    Args:
        rewards_NR: shape [N, R], nan where not scored.
        groups: the rows of each task.

    Returns:
        Zeros for responses that were never scored, and for groups with fewer than two that were.
    """
    repeated = retest(rewards_NR)
    parts = GroupParts(*(np.zeros(len(rewards_NR)) for _ in GroupParts._fields))
    for group in groups:
        rows = group[repeated.count[group] > 0]
        n = len(rows)
        if n < 2 or not repeated.df[rows].sum():  # noqa: PLR2004  # two responses to compare
            continue
        count = repeated.count[rows]
        mean = repeated.mean[rows]
        total = count.sum()
        group_mean = (count * mean).sum() / total
        parts.between_N[rows] = count * (mean - group_mean) ** 2
        parts.df_N[rows] = (n - 1) / n
        parts.k_N[rows] = (total - (count**2).sum() / total) / n
        parts.squares_N[rows] = repeated.squares[rows]
        parts.within_df_N[rows] = repeated.df[rows]
        parts.signal_N[rows] = mean.var(ddof=1)
        parts.mean_inverse_N[rows] = (1 / count).mean()
        parts.part_N[rows] = 1 / n
    return parts


def icc1_within(parts: GroupParts) -> Statistic:
    """Return the reliability of one judgement among the responses to the same task.

        ICC = σ_g² / (σ_g² + τ_r²),   σ_g² = (MSG − MSW) / k₀

    MSG is the mean square between the responses of a task, within tasks: what makes one task
    easier than another is in no advantage and is left out here.

    Returns:
        The statistic over rows of whole groups. Two tasks with the replicates (0, 1), (1, 0) and
        (5, 6), (6, 5): −1, noise alone, where ICC(1) over all four is 0.94.

    Source: Searle, Casella and McCulloch, Variance Components (1992), §3.6, on nested groups.
    """
    between = ratio(parts.between_N, parts.df_N)
    k0 = ratio(parts.k_N, parts.df_N)
    within = ratio(parts.squares_N, parts.within_df_N)
    return lambda rows: _icc(between(rows), within(rows), k0(rows))


def replicates_needed(icc: float, target: float) -> int | None:
    """Return the number of judgements of a response to average for a reliability.

        k = ρ* (1 − ρ) / (ρ (1 − ρ*))

    Args:
        icc: ρ, the reliability of one judgement.
        target: ρ* in (0, 1).

    Returns:
        The smallest whole k ≥ 1: 4 for ρ = 0.5 and ρ* = 0.8. None for ρ ≤ 0: no number is enough.

    Source: Spearman (1910) and Brown (1910), British Journal of Psychology 3.
    """
    if icc <= 0:
        return None
    k = target * (1 - icc) / (icc * (1 - target))
    return max(1, math.ceil(round(k, 9)))


_ROUNDING = 1e-9


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


def advantage_pairs(
    rewards_NR: FloatArray, groups: Sequence[IntArray]
) -> AdvantagePairs:
    """Compare the advantages between replicates of the same group's judgements.

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
        advantages_RG = group_advantages(
            rewards_RG[judged_R], valid_PG=valid_RG[judged_R]
        )
        # A reward at the group's mean has no sign, whatever the rounding.
        advantages_RG = np.where(np.abs(advantages_RG) < _ROUNDING, 0.0, advantages_RG)
        valid_RG = valid_RG[judged_R]
        for first, second in combinations(range(len(advantages_RG)), 2):
            a_G = advantages_RG[first]
            b_G = advantages_RG[second]
            is_valid_G = valid_RG[first] & valid_RG[second]
            counted_G = is_valid_G & ((a_G != 0) | (b_G != 0))
            flip_G = counted_G & (a_G * b_G < 0)
            size_G = (np.abs(a_G) + np.abs(b_G)) / 2
            sizes.append(size_G[counted_G])
            flipped.append(flip_G[counted_G])
            sums[0, group] += flip_G
            sums[1, group] += counted_G
            sums[2, group] += size_G * flip_G
            sums[3, group] += size_G * counted_G
        sizes_R = np.abs(advantages_RG).sum(axis=1)
        constant = float((sizes_R == 0).mean())
        sums[4, group] = constant / len(group)
        sums[5, group] = 1.0 / len(group)
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
    noise = ratio(parts.squares_N, parts.within_df_N)

    def statistic(rows: IntArray) -> float:
        tau2 = noise(rows)
        signal_N = parts.signal_N - tau2 * parts.mean_inverse_N
        below_N = parts.part_N * (signal_N < tau2)
        if math.isnan(tau2):
            return math.nan
        return ratio(below_N, parts.part_N)(rows)

    return statistic
