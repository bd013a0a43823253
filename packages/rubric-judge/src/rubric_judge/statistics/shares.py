"""Shares, and means of values in [0, 1], with intervals that never leave [0, 1]."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_judge.statistics.clusters import (
    ClusteredMean,
    cluster_sums,
    without_missing,
)
from rubric_judge.statistics.estimate import Estimate
from rubric_judge.statistics.means import known_values
from rubric_judge.statistics.student import t_quantile
from rubric_judge.statistics.untyped import stats


def normal_quantile(confidence: float) -> float:
    """Return Φ⁻¹((1 + confidence)/2), half the width of an interval in standard errors."""
    norm = stats.norm
    return float(norm.ppf((1 + confidence) / 2))


def score_limits(
    share: float, variance: float, quantile: float, *, least: float
) -> tuple[float, float]:
    """Return Wilson's interval of a mean of values in [0, 1], at the n* that its variance is worth.

        n* = p (1 − p) / Var(p̂),   p within [least, 1 − least]

    It never leaves [0, 1], and reaches farther towards ½, as it must near 0 and 1.

    Args:
        share: p̂, within [0, 1].
        variance: Var(p̂), above 0.
        quantile: quantile of the standardised error; Student's, for an estimated variance.
        least: the value that a mean of 0 counts as.

    Source: Wilson, Probable inference, the law of succession, and statistical inference, JASA 22
        (1927).
    """
    p = min(max(share, least), 1 - least)
    return wilson(share, p * (1 - p) / variance, quantile)


def wilson(share: float, n: float, quantile: float) -> tuple[float, float]:
    """Return the score interval of a share of n independent decisions; see `score_limits`."""
    q2 = quantile**2 / n
    middle = (share + q2 / 2) / (1 + q2)
    half = math.sqrt(share * (1 - share) * q2 + q2**2 / 4) / (1 + q2)
    return min(max(middle - half, 0.0), share), max(min(middle + half, 1.0), share)


def binomial_limits(count: int, n: int, confidence: float) -> tuple[float, float]:
    """Return Wilson's modified interval of a share of n independent decisions, or the exact one.

    Wilson's own lower limit of 1 to 3 decisions is too high for the smallest shares, and his
    interval then holds as few as 83 % of them; there the limit of a Poisson count takes its place,
    and 1 minus that of the others where few decisions do not count. At 95 % it then
    covers every share in at least 90.9 % of samples. With fewer than 8 decisions it would fall to
    87 %: they have Clopper and Pearson's interval, which covers every share as often as it says.

    Args:
        count: decisions that count, at most n.
        n: decisions, at least 1.
        confidence: nominal coverage, in (0, 1).

    Source: Brown, Cai and DasGupta, Interval estimation for a binomial proportion, Statistical
        Science 16 (2001), section 4.1.1; Clopper and Pearson, The use of confidence or fiducial
        limits illustrated in the case of the binomial, Biometrika 26 (1934).
    """
    if n < _FEWEST_FOR_WILSON:
        return binomial_test_limits(count, n, confidence, method="exact")
    chi2 = stats.chi2
    few = 2 if n <= _SMALL_SAMPLE else 3
    low, high = wilson(count / n, n, normal_quantile(confidence))
    if 0 < count <= few:
        low = min(low, float(chi2.ppf(1 - confidence, 2 * count)) / (2 * n))
    if 0 < n - count <= few:
        high = max(high, 1 - float(chi2.ppf(1 - confidence, 2 * (n - count))) / (2 * n))
    return low, high


_FEWEST_FOR_WILSON = 8
"""Decisions below which the interval is exact."""
_SMALL_SAMPLE = 50
"""Decisions up to which the limit of 3 is Wilson's."""


def binomial_test_limits(
    count: int, n: int, confidence: float, *, method: Literal["exact", "wilson"]
) -> tuple[float, float]:
    """Return Clopper and Pearson's exact interval, or Wilson's own, of a share, by SciPy.

    Args:
        count: decisions that count, at most n.
        n: decisions, at least 1.
        confidence: nominal coverage, in (0, 1).
        method: the interval.
    """
    test = stats.binomtest(count, n)
    interval = test.proportion_ci(confidence, method=method)
    return float(interval.low), float(interval.high)


def share_estimate(right: int, n: int, *, confidence: float = 0.95) -> Estimate:
    """Estimate a share of n with Wilson's modified interval, which has a width even at 0 and n.

    Args:
        right: number of items that count, at most n.
        n: number of items, at least 1.
        confidence: nominal coverage, in (0, 1).

    Reference: see `binomial_limits`.
    """
    low, high = binomial_limits(right, n, confidence)
    return Estimate(right / n, low, high, n)


def bounded_mean(
    means_N: Sequence[float | None] | FloatArray,
    *,
    clusters_N: Sequence[str],
    is_accuracy: bool = False,
    answers: int = 1,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate a mean of values in [0, 1] with Wilson's interval, at an effective sample size.

        n* = x̄ (1 − x̄) / Var(x̄),   Var over documents, t of C* − 1 degrees of freedom

    n* is the number of independent answers with the same spread as that between documents, and
    Student's t has the degrees of freedom of documents of such sizes (Satterthwaite). An accuracy
    with one answer to each item, each with its own document, has `share_estimate`. A variance
    below that of independent questions, s² / N, counts as s² / N: few documents whose means are
    alike by chance are no evidence of a design better than independent draws. Where documents hold
    several questions, n* has a bound near 0 and 1 (`ClusteredMean.trusted`). The BCa bootstrap
    of a mean, which differences have, is a point where all values are equal, and misses too often
    where few questions have a reward. Where nothing spreads, n* = C*.

    Args:
        means_N: mean over the answers to each question; None and NaN are missing.
        clusters_N: document of each question.
        is_accuracy: whether an answer is right or wrong, and no reward.
        answers: K, the number of answers to each question; it counts for an accuracy alone.
        confidence: nominal coverage, in (0, 1).

    Returns:
        The interval; unknown for a single question or document, which says nothing of the spread.

    Raises:
        SampleShapeError: no value at all, or one that is not in [0, 1].

    Reference: Wilson, JASA 22 (1927); Rao and Scott, A simple method for the analysis of clustered
    binary data, Biometrics 48 (1992), for n*; Korn and Graubard, Confidence intervals for
    proportions with small expected number of positive counts estimated from survey data, Survey
    Methodology 24 (1998), for the least variance.
    """
    values_N = known_values(means_N)
    present_N, documents_N = without_missing(values_N, clusters_N)
    if is_accuracy and len(set(clusters_N)) == values_N.size and answers == 1:
        return share_estimate(
            int(present_N.sum()), present_N.size, confidence=confidence
        )
    sums_C, counts_C = cluster_sums(present_N, documents_N)
    clustered_mean = ClusteredMean.of(sums_C, counts_C)
    # The mean of equal values is their value, not their rounded sum over N.
    mean = float(present_N.mean() if np.ptp(present_N) else present_N[0])
    if clustered_mean.clusters == 1:
        return Estimate(mean, n=present_N.size)
    quantile = t_quantile(confidence, clustered_mean.freedom)
    if np.ptp(present_N) <= _ROUNDING:
        low, high = wilson(mean, clustered_mean.equal_clusters, quantile)
    else:
        least = 0.5 / clustered_mean.equal_clusters
        independent = ClusteredMean.of(present_N, np.ones_like(present_N))
        variance = max(clustered_mean.variance, independent.variance)
        p = min(max(mean, least), 1 - least)
        effective_n = p * (1 - p) / variance
        if clustered_mean.clusters < present_N.size:
            effective_n = clustered_mean.trusted(effective_n)
        low, high = wilson(mean, effective_n, quantile)
    return Estimate(mean, low, high, present_N.size)


_ROUNDING = 1e-12
"""Largest difference of equal values from their mean."""
