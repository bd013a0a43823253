"""Agreement between judges: one judgement of each, on what they all scored.

A replicate is no second judge: of each judge the first scored judgement of a response is taken,
as training would take it.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import krippendorff
import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import cohen_kappa_score  # pyright: ignore[reportUnknownVariableType]

from rubric_core.arrays import FloatArray
from rubric_judge.reliability.ratings import IntArray, Statistic, ratio

_TENTHS: Final = 10
_MISSING: Final = -1
Metric: TypeAlias = Literal["interval", "ordinal", "nominal"]


class Single(NamedTuple):
    """One judgement of each judge; nan where a judge has no scored judgement."""

    rewards_JN: FloatArray
    z_JNM: FloatArray
    tenths_JNM: NDArray[np.intp]
    """z to the nearest tenth, 0 to 10; −1 where missing."""


def single_judgements(z_JNRM: FloatArray, rewards_JNR: FloatArray) -> Single:
    """Take the first scored replicate of each response."""
    first_JN1 = np.argmax(~np.isnan(rewards_JNR), axis=2)[:, :, None]
    z_JNM = np.take_along_axis(z_JNRM, first_JN1[..., None], axis=2)[:, :, 0, :]
    rewards_JN = np.take_along_axis(rewards_JNR, first_JN1, axis=2)[:, :, 0]
    return Single(rewards_JN, z_JNM, in_tenths(z_JNM))


def in_tenths(z: FloatArray) -> NDArray[np.intp]:
    """Return scores z to the nearest tenth, 0 to 10; −1 where missing."""
    # Half up, as people round: numpy would send 0.25 and 0.35 to different sides.
    tenths = np.floor(np.nan_to_num(z) * _TENTHS + 0.5 + 1e-9).astype(np.intp)
    return np.where(np.isnan(z), _MISSING, tenths)


def correlation(
    x_N: FloatArray, y_N: FloatArray, name: Literal["pearsonr", "spearmanr", "kendalltau"]
) -> Statistic:
    """Return Pearson's r, Spearman's ρ or Kendall's τ-b; nan where either side is constant.

    Args:
        x_N: rewards of one judge.
        y_N: of the other.
        name: scipy's of the coefficient.
    """
    correlate = getattr(cast("Any", stats), name)

    def statistic(rows: IntArray) -> float:
        x, y = x_N[rows], y_N[rows]
        if not len(rows) or not np.ptp(x) or not np.ptp(y):
            return math.nan
        return float(correlate(x, y).statistic)

    return statistic


def kendall_within(x_N: FloatArray, y_N: FloatArray, groups: Sequence[IntArray]) -> Statistic:
    """Return the mean over tasks of Kendall's τ-b within the task's responses.

        mean_p τ_b(x_p, y_p)

    over tasks in which both judges tell responses apart: whether they would push a policy the same
    way, which agreement on what is an easy task does not show.

    Args:
        x_N: rewards of one judge, nan where missing.
        y_N: of the other.
        groups: the rows of each task.

    Returns:
        The statistic over rows of whole groups.
    """
    tau_N, part_N = np.zeros(len(x_N)), np.zeros(len(x_N))
    for group in groups:
        rows = group[~np.isnan(x_N[group]) & ~np.isnan(y_N[group])]
        tau = correlation(x_N, y_N, "kendalltau")(rows)
        if not math.isnan(tau):
            tau_N[rows], part_N[rows] = tau / len(rows), 1 / len(rows)
    return ratio(tau_N, part_N)


def kappa(a_NM: NDArray[np.intp], b_NM: NDArray[np.intp]) -> Statistic:
    """Return the quadratically weighted κ of two judges' scores in tenths.

    nan where both give the same score to everything.
    """

    def statistic(rows: IntArray) -> float:
        a, b = a_NM[rows].ravel(), b_NM[rows].ravel()
        both = (a != _MISSING) & (b != _MISSING)
        a, b = a[both], b[both]
        if len(np.union1d(a, b)) < 2:  # noqa: PLR2004  # one value cannot disagree
            return math.nan
        labels = np.arange(_TENTHS + 1)
        return float(cast("Any", cohen_kappa_score)(a, b, labels=labels, weights="quadratic"))

    return statistic


def alpha(tenths_JNM: NDArray[np.intp], metric: Metric = "interval") -> Statistic:
    """Return Krippendorff's α of all judges' scores in tenths, by a metric.

    A unit is one criterion of one response that at least two judges scored; nan where all give the
    same score to everything.
    """
    levels = np.arange(_TENTHS + 1)
    counts_NMV = np.stack([(tenths_JNM == level).sum(axis=0) for level in levels], axis=-1)

    def statistic(rows: IntArray) -> float:
        counts_UV = counts_NMV[rows].reshape(-1, len(levels))
        counts_UV = counts_UV[counts_UV.sum(axis=1) > 1]
        if (counts_UV.sum(axis=0) > 0).sum() < 2:  # noqa: PLR2004  # one value cannot disagree
            return math.nan
        return float(
            krippendorff.alpha(
                value_counts=counts_UV, value_domain=levels, level_of_measurement=metric
            )
        )

    return statistic


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
        rows_mean_N, judges_mean_J, mean = x_JN.mean(axis=0), x_JN.mean(axis=1), x_JN.mean()
        msr = k * float(((rows_mean_N - mean) ** 2).sum()) / (n - 1)
        msc = n * float(((judges_mean_J - mean) ** 2).sum()) / (k - 1)
        residual_JN = x_JN - rows_mean_N - judges_mean_J[:, None] + mean
        mse = float((residual_JN**2).sum()) / ((k - 1) * (n - 1))
        total = msr + (k - 1) * mse + k / n * (msc - mse)
        return (msr - mse) / total if total > 0 else math.nan

    return statistic


def effective_judges(rewards_JN: FloatArray) -> Statistic:
    """Return how many uncorrelated judges would spread as these do.

        J_eff = (Σ λ)² / Σ λ²

    λ are the eigenvalues of the judges' correlation matrix, so that Σλ = J and
    J_eff = J² / Σ_ij ρ_ij²: J for uncorrelated judges, 1 for judges that always move together. It
    does not know what is right: judges who all see the truth count as few, too.

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
        return float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())

    return statistic
