"""Confidence intervals of a mean, of a share, of a paired difference and of an average.

The unit that is resampled is the document, or the question where each has its own: samples of one
question are averaged first, since they are not independent of each other.
"""

import math
from collections.abc import Sequence
from itertools import combinations, compress
from typing import Any, Final, Unpack, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy import optimize, stats

from rubric_core.arrays import FloatArray
from rubric_eval.errors import EvalShapeError
from rubric_eval.statistics.bootstrap import IntervalDraws, bootstrap_mean, cluster_sums
from rubric_eval.statistics.student import Student
from rubric_judge.quality.estimates import ClusteredMean, binomial_limits, wilson
from rubric_judge.ui.page.tables import TOO_FEW, TooFew


class Interval(BaseModel):
    """A mean over n questions and its confidence interval."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: float
    ci_low: float | None
    """Lower limit; None where one question, or one document, leaves the spread unknown."""
    ci_high: float | None
    n: int
    no_interval: TooFew | None = Field(
        default_factory=lambda known: TOO_FEW if known.get("ci_low") is None else None,
        repr=False,
    )
    """Reason why there is no interval."""

    def is_above(self, value: float) -> bool:
        """Return whether the whole interval lies above a value; an unknown one never does."""
        return self.ci_low is not None and self.ci_low > value

    def in_percent(self, *, sign: str = "", unknown: str = TOO_FEW) -> str:
        """Return the limits in per cent as text; `sign` is "+" for differences."""
        if self.ci_low is None or self.ci_high is None:
            return unknown
        return f"{100 * self.ci_low:{sign}.1f} to {100 * self.ci_high:{sign}.1f}"

    def is_below(self, value: float) -> bool:
        """Return whether the whole interval lies below a value; an unknown one never does."""
        return self.ci_high is not None and self.ci_high < value


class Difference(Interval):
    """Mean of a − b over the questions that both were judged on."""

    a: str
    b: str


def mean_interval(
    x_N: Sequence[float | None] | FloatArray,
    *,
    clusters_N: Sequence[str] | None = None,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
    least: float = -math.inf,
) -> Interval:
    """Estimate a mean with the wider of its BCa bootstrap interval and Student's, on each side.

        x̄ = Σ x_i / n
        [F̂⁻¹(a₋), F̂⁻¹(a₊)],   a± = Φ(ẑ₀ + (ẑ₀ ± z) / (1 − â·(ẑ₀ ± z)))

    F̂ is the distribution of the mean over `resamples` draws of n values with replacement,
    ẑ₀ = Φ⁻¹(F̂(x̄)) the bias and â the acceleration from the jackknife. z is the quantile of
    Student's t with C − 1 degrees, times √(C / (C − 1)), for C questions or documents: with few of
    them Φ⁻¹((1 + confidence)/2) would miss too often. From two to a dozen documents, or some that
    are alike by chance, even such draws know too little: see `Student`. The limits of a paired test
    are computed in the same way.

    Args:
        x_N: one finite value a question; None and NaN are missing and are left out.
        clusters_N: document of each question: documents are drawn, with all their questions.
        confidence: nominal coverage, in (0, 1).
        resamples: bootstrap draws.
        seed: seed of the draws; the same input gives the same interval.
        least: lower bound of all values, and so of the limits: 0 for counts. For values in [0, 1]
            use `score_interval`.

    Returns:
        The interval over the values present, within [−1, 1] where they are. Values equal within
        rounding give the point [x̄, x̄], since no draw differs from it, but 0 ± t²/(C + t²) where
        all are 0. A single value gives an unknown interval: one question says nothing about the
        spread between questions.

    Raises:
        EvalShapeError: not one axis, no value at all, or an infinite one.

    Reference: Efron, Better bootstrap confidence intervals, JASA 82 (1987); Hesterberg, What
    teachers should know about the bootstrap, The American Statistician 69 (2015), for z.
    """
    values_N, is_present_N = _present(x_N)
    n = int(np.count_nonzero(is_present_N))
    drawn = bootstrap_mean(values_N, clusters_N, resamples=resamples, seed=seed)
    if clusters_N is not None:
        clusters_N = list(compress(clusters_N, is_present_N))
    student = Student.of(values_N[is_present_N], clusters_N)
    limits = student.widen(drawn.expanded_limits(confidence), confidence)
    if limits is None:
        return Interval(mean=drawn.estimate, ci_low=None, ci_high=None, n=n)
    low, high = limits
    return Interval(mean=drawn.estimate, ci_low=max(low, least), ci_high=high, n=n)


def paired_interval(
    a_N: Sequence[float | None] | FloatArray,
    b_N: Sequence[float | None] | FloatArray,
    *,
    clusters_N: Sequence[str] | None = None,
    **draws: Unpack[IntervalDraws],
) -> Interval:
    """Estimate the mean of a − b over the same questions with its BCa bootstrap interval.

        d_i = a_i − b_i,   d̄ = Σ d_i / n

    The pair is resampled as one, so what makes a question easy for both sides cancels.

    Args:
        a_N: one value a question; None and NaN are missing.
        b_N: the other side, in the same order of questions.
        clusters_N: document of each question: documents are drawn, with all their questions.
        draws: confidence, resamples and seed, as for `mean_interval`.

    Returns:
        `mean_interval` of the differences; a question that either side lacks is left out.

    Raises:
        EvalShapeError: different lengths, no complete pair, or an infinite value.
    """
    return mean_interval(differences(a_N, b_N), clusters_N=clusters_N, **draws)


def differences(
    a_N: Sequence[float | None] | FloatArray, b_N: Sequence[float | None] | FloatArray
) -> FloatArray:
    """Return a − b of each question; NaN where a side is missing.

    Raises:
        EvalShapeError: different lengths, or an infinite value.
    """
    first_N = _one_axis(a_N)
    second_N = _one_axis(b_N)
    if first_N.shape != second_N.shape:
        raise EvalShapeError(
            f"a pair needs as many values on both sides, got {first_N.size} and "
            f"{second_N.size}; give both in the same order of questions, None where one is "
            "missing"
        )
    return first_N - second_N


def _one_axis(x_N: Sequence[float | None] | FloatArray) -> FloatArray:
    values_N = np.asarray(x_N, dtype=np.float64)  # None becomes NaN
    if values_N.ndim != 1:
        raise EvalShapeError(
            f"expected one value a question, got shape {values_N.shape!r}; average the "
            "samples of a question first"
        )
    if np.isinf(values_N).any():
        n = int(np.isinf(values_N).sum())
        raise EvalShapeError(
            f"{n} of {values_N.size} values are infinite; give None for a missing one"
        )
    return values_N


def _present(
    x_N: Sequence[float | None] | FloatArray,
) -> tuple[FloatArray, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return values along one axis, and the mask of those that are not missing, at least one."""
    values_N = _one_axis(x_N)
    is_present_N = ~np.isnan(values_N)
    if not is_present_N.any():
        raise EvalShapeError(
            f"all {values_N.size} values are missing; a mean needs at least one question"
        )
    return values_N, is_present_N


def wilson_interval(right: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Estimate a share of n with Wilson's modified interval, which has a width even at 0 and n.

    Args:
        right: number of items that count, at most n.
        n: number of items, at least 1.
        confidence: nominal coverage, in (0, 1).

    Reference: see `rubric_judge.quality.estimates.binomial_limits`.
    """
    low, high = binomial_limits(right, n, confidence)
    return Interval(mean=right / n, ci_low=low, ci_high=high, n=n)


def mcnemar_p(won: int, lost: int) -> float:
    """Return the p-value of McNemar's exact test: won ~ Binomial(won + lost, ½), two-sided."""
    if won + lost == 0:
        return 1.0
    return float(cast("Any", stats).binomtest(won, won + lost).pvalue)


def discordant_limits(
    won: int, lost: int, n: int, *, confidence: float
) -> tuple[float, float]:
    """Return limits of (won − lost) / n that agree with McNemar's exact test at every level.

    These are Clopper and Pearson's limits of won / (won + lost), with the observed number of items
    that differ. They leave out 0 exactly where the test rejects, but are too narrow for a large
    difference because the number of items that differ is taken as known.
    """
    differ = won + lost
    if differ == 0:
        return 0.0, 0.0
    test = cast("Any", stats).binomtest(won, differ)
    share = test.proportion_ci(confidence, method="exact")
    low = (2 * float(share.low) - 1) * differ / n
    high = (2 * float(share.high) - 1) * differ / n
    return low, high


def score_limits(
    won: int, lost: int, n: int, *, confidence: float
) -> tuple[float, float]:
    """Return Tango's score limits of the difference of two paired proportions.

        z(δ) = (won − lost − nδ) / √(n (2q̃ + δ(1 − δ))) = ±Φ⁻¹((1 + confidence)/2)

    q̃ is the maximum-likelihood share of lost items if the difference is δ. At δ = 0 this is
    McNemar's statistic. The limits hold the difference at the nominal rate also where few items
    differ.

    Reference: Tango, Equivalence test and confidence interval for the difference in proportions
    for the paired-sample design, Statistics in Medicine 17 (1998).
    """
    z = float(cast("Any", stats).norm.ppf((1 + confidence) / 2))
    estimate = (won - lost) / n
    if won == lost == 0:  # the equation holds at 0 too, where nothing spreads
        half = z**2 / (n + z**2)
        return -half, half

    def excess(delta: float, side: float) -> float:
        return won - lost - n * delta - side * z * _score_spread(won, lost, n, delta)

    solve = cast("Any", optimize).brentq
    low = -1.0 if lost == n else float(solve(excess, -1.0, estimate, args=(1.0,)))
    high = 1.0 if won == n else float(solve(excess, estimate, 1.0, args=(-1.0,)))
    return low, high


def _score_spread(won: int, lost: int, n: int, delta: float) -> float:
    linear = -(won + lost) + (2 * n - won + lost) * delta
    constant = -lost * delta * (1 - delta)
    lost_share = (math.sqrt(max(linear**2 - 8 * n * constant, 0.0)) - linear) / (4 * n)
    lost_share = min(max(lost_share, 0.0, -delta), 1.0)
    return math.sqrt(max(n * (2 * lost_share + delta * (1 - delta)), 0.0))


def score_interval(
    means_N: Sequence[float | None] | FloatArray,
    *,
    clusters_N: Sequence[str],
    is_accuracy: bool = False,
    answers: int = 1,
    confidence: float = 0.95,
) -> Interval:
    """Estimate a mean of values in [0, 1] with Wilson's interval, at an effective sample size.

        n* = x̄ (1 − x̄) / Var(x̄),   Var over documents, t of C* − 1 degrees of freedom

    n* is the number of independent answers with the same spread as that between documents, and
    Student's t has the degrees of freedom of documents of such sizes (Satterthwaite). An accuracy
    with one answer to each item, each with its own document, has `wilson_interval`. A variance
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
        EvalShapeError: no value at all, or one that is not in [0, 1].

    Reference: Wilson, JASA 22 (1927); Rao and Scott, A simple method for the analysis of clustered
    binary data, Biometrics 48 (1992), for n*; Korn and Graubard, Confidence intervals for
    proportions with small expected number of positive counts estimated from survey data, Survey
    Methodology 24 (1998), for the least variance.
    """
    values_N, is_present_N = _present(means_N)
    present_N = values_N[is_present_N]
    if is_accuracy and len(set(clusters_N)) == values_N.size and answers == 1:
        return wilson_interval(
            int(present_N.sum()), present_N.size, confidence=confidence
        )
    sums_C, counts_C = cluster_sums(present_N, list(compress(clusters_N, is_present_N)))
    clustered_mean = ClusteredMean.of(sums_C, counts_C)
    # The mean of equal values is their value, not their rounded sum over N.
    mean = float(present_N.mean() if np.ptp(present_N) else present_N[0])
    if clustered_mean.clusters == 1:
        return Interval(mean=mean, ci_low=None, ci_high=None, n=present_N.size)
    t = cast("Any", stats).t
    quantile = float(t.ppf((1 + confidence) / 2, clustered_mean.freedom))
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
    return Interval(mean=mean, ci_low=low, ci_high=high, n=present_N.size)


_ROUNDING: Final = 1e-12
"""Largest difference of equal values from their mean."""


def mean_of_intervals(
    parts: Sequence[Interval], *, correlations_BB: FloatArray
) -> Interval:
    """Average B estimates, each counting alike, and propagate the uncertainty of each.

        x̄ = Σ_b x_b / B
        L = x̄ − √(Σ_ij ρ_ij (x_i − l_i)(x_j − l_j)) / B
        U = x̄ + √(Σ_ij ρ_ij (u_i − x_i)(u_j − x_j)) / B

    Each side of an interval stands for the standard error of its part on that side (the method of
    variance estimates recovery, MOVER). This keeps the information in a part's own interval: two
    parts of 8 items on which nothing differs are 0 ± 32 points each, and together 0 ± 23, where a
    bootstrap of the items would draw nothing but zeros. For large samples it is the interval from
    the standard error √(Σ_b se_b²) / B.

    Args:
        parts: estimates with limits at one confidence, which is that of the result.
        correlations_BB: ρ of the estimates, 1 on the diagonal; 0 where they are independent.

    Returns:
        The interval, over B parts; unknown if that of a part is.

    Reference: Zou and Donner, Construction of confidence limits about effect measures: a general
    approach, Statistics in Medicine 27 (2008).
    """
    means_B = np.array([part.mean for part in parts])
    lows_B = np.array([part.ci_low for part in parts], dtype=np.float64)
    highs_B = np.array([part.ci_high for part in parts], dtype=np.float64)
    mean = float(means_B.mean())
    if np.isnan(lows_B).any() or np.isnan(highs_B).any():
        return Interval(mean=mean, ci_low=None, ci_high=None, n=len(parts))
    low = mean - _mean_half(np.abs(lows_B - means_B), correlations_BB)
    high = mean + _mean_half(np.abs(highs_B - means_B), correlations_BB)
    return Interval(mean=mean, ci_low=low, ci_high=high, n=len(parts))


def _mean_half(halves_B: FloatArray, correlations_BB: FloatArray) -> float:
    """Return the half width of a mean on one side, from those of its parts."""
    square = max(float(halves_B @ correlations_BB @ halves_B), 0.0)
    return math.sqrt(square) / halves_B.size


def shared_correlations(
    samples: Sequence[tuple[FloatArray, Sequence[str]]],
) -> FloatArray:
    """Correlate the means of samples that share clusters, as GPQA Diamond's items are Main's.

        ρ_ij = Σ_c u_ic u_jc / √(Σ_c u_ic² Σ_c u_jc²),   u_ic = Σ_{n ∈ c} (x_n − x̄_i)

    u is the amount by which cluster c moves the mean. Where a sample has no spread, the shared
    clusters are taken to agree: u_ic is then the number of values of c. A correlation below 0
    counts as 0: a few shared items are no reason to trust an average more than independent ones.

    Args:
        samples: values and clusters of each sample; the names of clusters are common to all.

    Returns:
        Shape [B, B]; 1 on the diagonal.
    """
    names: set[str] = set()
    for _, clusters_N in samples:
        names.update(clusters_N)
    places = {name: place for place, name in enumerate(sorted(names))}
    moves_BC = np.zeros((len(samples), len(names)))
    counts_BC = np.zeros((len(samples), len(names)))
    for index, (values_N, clusters_N) in enumerate(samples):
        places_N = np.array([places[name] for name in clusters_N])
        np.add.at(moves_BC[index], places_N, values_N - values_N.mean())
        np.add.at(counts_BC[index], places_N, 1.0)
    moves_BC[np.abs(moves_BC) < _ROUNDING] = 0.0
    correlations_BB = np.eye(len(samples))
    for i, j in combinations(range(len(samples)), 2):
        a_C = moves_BC[i]
        b_C = moves_BC[j]
        if not (a_C.any() and b_C.any()):
            a_C = counts_BC[i]
            b_C = counts_BC[j]
        cosine = float(a_C @ b_C) / math.sqrt(float(a_C @ a_C) * float(b_C @ b_C))
        correlations_BB[i, j] = max(cosine, 0.0)
        correlations_BB[j, i] = max(cosine, 0.0)
    return correlations_BB
