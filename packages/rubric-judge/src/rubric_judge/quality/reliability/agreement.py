"""Agreement between judges: statistics over one judgement of each.

A replicate is not a second judge: each judge's first scored judgement of a response is taken,
as training would take it.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from rubric_core.arrays import BoolArray, FloatArray
from rubric_judge.quality.reliability.ratings import IntArray, Statistic, ratio
from rubric_judge.statistics.untyped import stats

_DIGITS = 9
"""Digits to which equal scores agree; a smaller difference is rounding."""
_ROUNDING = 1e-9
Metric = Literal["interval", "ordinal", "nominal"]


class Single(NamedTuple):
    """One judgement of each judge; nan where a judge has no scored judgement."""

    rewards_JN: FloatArray
    z_JNM: FloatArray


def single_judgements(z_JNRM: FloatArray, rewards_JNR: FloatArray) -> Single:
    """Take the first scored replicate of each response."""
    first_JN1 = np.argmax(~np.isnan(rewards_JNR), axis=2)[:, :, None]
    z_JN1M = np.take_along_axis(z_JNRM, first_JN1[..., None], axis=2)
    rewards_JN1 = np.take_along_axis(rewards_JNR, first_JN1, axis=2)
    return Single(rewards_JN=rewards_JN1[:, :, 0], z_JNM=z_JN1M[:, :, 0, :])


def correlation(
    x_N: FloatArray,
    y_N: FloatArray,
    name: Literal["pearsonr", "spearmanr", "kendalltau"],
) -> Statistic:
    """Return Pearson's r, Spearman's ρ or Kendall's τ-b; nan where either side is constant.

    Args:
        x_N: rewards of one judge.
        y_N: rewards of the other.
        name: scipy's name of the coefficient.
    """
    correlate = getattr(stats, name)

    def statistic(rows: IntArray) -> float:
        x = x_N[rows]
        y = y_N[rows]
        if not len(rows) or not np.ptp(x) or not np.ptp(y):
            return math.nan
        return float(correlate(x, y).statistic)

    return statistic


def kendall_within(
    x_N: FloatArray, y_N: FloatArray, groups: Sequence[IntArray]
) -> Statistic:
    """Return the mean over tasks of Kendall's τ-b within the task's responses.

        mean_p τ_b(x_p, y_p)

    over tasks in which both judges tell responses apart: whether they would push a policy the same
    way, which agreement on what is an easy task does not show.

    Args:
        x_N: rewards of one judge, nan where missing.
        y_N: rewards of the other.
        groups: the rows of each task.

    Returns:
        The statistic over rows of whole groups.
    """
    tau_N = np.zeros(len(x_N))
    part_N = np.zeros(len(x_N))
    for group in groups:
        has_both = ~np.isnan(x_N[group]) & ~np.isnan(y_N[group])
        rows = group[has_both]
        tau = correlation(x_N, y_N, "kendalltau")(rows)
        if not math.isnan(tau):
            tau_N[rows] = tau / len(rows)
            part_N[rows] = 1 / len(rows)
    return ratio(tau_N, part_N)


def kappa(a_NM: FloatArray, b_NM: FloatArray) -> Statistic:
    """Return the quadratically weighted κ of two judges' scores, as they are.

        κ = 1 − mean((a − b)²) / (Var a + Var b + (ā − b̄)²)

    nan where both give the same score to everything.

    Args:
        a_NM: scores of one judge, nan where missing.
        b_NM: scores of the other.

    Source: Fleiss and Cohen, The equivalence of weighted kappa and the intraclass correlation
        coefficient, Educational and Psychological Measurement 33 (1973).
    """

    def statistic(rows: IntArray) -> float:
        a = a_NM[rows].ravel()
        b = b_NM[rows].ravel()
        both = ~(np.isnan(a) | np.isnan(b))
        a = a[both]
        b = b[both]
        if not len(a):
            return math.nan
        largest_difference = max(np.ptp(a), np.ptp(b), abs(a[0] - b[0]))
        if largest_difference < _ROUNDING:
            return math.nan
        bias = a.mean() - b.mean()
        expected = float(np.var(a) + np.var(b) + bias**2)
        observed = float(np.mean((a - b) ** 2))
        return 1 - observed / expected

    return statistic


def alpha(z_JNM: FloatArray, metric: Metric = "interval") -> Statistic:
    """Return Krippendorff's α of all judges' scores, as they are, by a metric.

        α = 1 − (n − 1) Σ_u (m_u Σ_i x_i² − (Σ_i x_i)²) / (m_u − 1) / (n Σ x² − (Σ x)²)

    over the n scores x of units that m_u ≥ 2 judges scored: one criterion of one response. It is
    the interval metric's; of the ordinal one x are mid-ranks among the n, whose distance is
    Krippendorff's; of the nominal one x is 1 for one score and 0 for the others, summed over
    scores. nan where all give the same score to everything.

    Args:
        z_JNM: scores, nan where missing.
        metric: distance of two scores.

    Source: Krippendorff, Computing Krippendorff's alpha-reliability (2011).
    """

    def statistic(rows: IntArray) -> float:
        x_JU = z_JNM[:, rows].reshape(len(z_JNM), -1)
        is_comparable_U = (~np.isnan(x_JU)).sum(axis=0) > 1
        x_JU = np.round(x_JU[:, is_comparable_U], _DIGITS)
        is_there_JU = ~np.isnan(x_JU)
        values, place = np.unique(x_JU[is_there_JU], return_inverse=True)
        if len(values) < 2:  # noqa: PLR2004  # one value cannot disagree
            return math.nan
        if metric == "ordinal":
            values = stats.rankdata(values[place])
            x_JU[is_there_JU] = values
        levels = values if metric == "nominal" else (None,)
        observed = 0.0
        expected = 0.0
        for level in levels:
            own_JU = x_JU
            if level is not None:
                own_JU = np.where(is_there_JU, x_JU == level, np.nan)
            # Centred, so that a spread is no difference of large numbers.
            mean = float(np.nanmean(own_JU))
            centred_JU = np.asarray(own_JU - mean, dtype=np.float64)
            of_unit, of_all = _squares(centred_JU, is_there_JU)
            observed = observed + of_unit
            expected = expected + of_all
        n = int(is_there_JU.sum())
        return 1 - (n - 1) * observed / expected

    return statistic


def _squares(x_JU: FloatArray, is_there_JU: BoolArray) -> tuple[float, float]:
    """Return half the squared differences of pairs: within units, and among all n scores."""
    counts_U = is_there_JU.sum(axis=0)
    n = int(is_there_JU.sum())
    sums_U = np.nansum(x_JU, axis=0)
    squares_U = np.nansum(x_JU**2, axis=0)
    within_U = (counts_U * squares_U - sums_U**2) / (counts_U - 1)
    among_all = n * float(squares_U.sum()) - float(sums_U.sum()) ** 2
    within_units = float(within_U.sum())
    return within_units, among_all


def icc_a1(rewards_JN: FloatArray) -> Statistic:
    """Return the absolute agreement of single judgements, ICC(A,1).

        ICC(A,1) = (MSR − MSE) / (MSR + (k − 1) MSE + k/n (MSC − MSE))

    Two-way random effects: n responses (MSR), k judges (MSC), so that a judge who is always
    stricter lowers it, where a correlation would not see that.

    Args:
        rewards_JN: shape [J, N], J = k.

    Returns:
        The statistic over rows that every judge scored; nan where nothing varies.

    Source: McGraw and Wong, Forming inferences about some intraclass correlation coefficients,
        Psychological Methods 1 (1996), ICC(A,1); Shrout and Fleiss call it ICC(2,1).
    """

    def statistic(rows: IntArray) -> float:
        x_JN = rewards_JN[:, rows]
        k, n = x_JN.shape
        if n < 2:  # noqa: PLR2004  # two responses to compare
            return math.nan
        rows_mean_N = x_JN.mean(axis=0)
        judges_mean_J = x_JN.mean(axis=1)
        mean = x_JN.mean()
        rows_squares = float(((rows_mean_N - mean) ** 2).sum())
        judges_squares = float(((judges_mean_J - mean) ** 2).sum())
        msr = k * rows_squares / (n - 1)
        msc = n * judges_squares / (k - 1)
        residual_JN = x_JN - rows_mean_N - judges_mean_J[:, None] + mean
        residual_squares = float((residual_JN**2).sum())
        mse = residual_squares / ((k - 1) * (n - 1))
        total = msr + (k - 1) * mse + k / n * (msc - mse)
        if total <= 0:
            return math.nan
        return (msr - mse) / total

    return statistic


def effective_judges(rewards_JN: FloatArray) -> Statistic:
    """Return the number of uncorrelated judges whose rewards would spread as these do.

        J_eff = (Σ λ)² / Σ λ²

    λ are the eigenvalues of the judges' correlation matrix, so that Σλ = J and
    J_eff = J² / Σ_ij ρ_ij²: J for uncorrelated judges, 1 for judges that always move together. It
    is blind to the truth: judges who all see it count as few, too.

    Args:
        rewards_JN: shape [J, N].

    Returns:
        The statistic over rows that every judge scored; two judges with ρ = 0.6: 4 / 2.72 = 1.47.
        nan where a judge gives everything the same reward.

    Source: Bretherton et al., The effective number of spatial degrees of freedom, Journal of
        Climate 12 (1999), Eq. 5.
    """

    def statistic(rows: IntArray) -> float:
        x_JN = rewards_JN[:, rows]
        if x_JN.shape[1] < 2 or not np.ptp(x_JN, axis=1).all():  # noqa: PLR2004
            return math.nan
        eigenvalues = np.linalg.eigvalsh(np.corrcoef(x_JN))
        square_of_sum = eigenvalues.sum() ** 2
        sum_of_squares = (eigenvalues**2).sum()
        return float(square_of_sum / sum_of_squares)

    return statistic
