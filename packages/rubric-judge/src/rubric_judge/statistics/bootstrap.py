"""The bootstrap of a mean over questions, resampled by document, with its BCa limits and p-value.

SciPy draws the samples; limits at every level and the p-value are computed here, from the same
draws, so that they cannot contradict each other.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, Unpack, cast

import numpy as np
import numpy.typing as npt

from rubric_core.arrays import FloatArray
from rubric_judge.errors import SampleShapeError
from rubric_judge.statistics.clusters import cluster_sums, without_missing
from rubric_judge.statistics.student import t_quantile
from rubric_judge.statistics.untyped import stats


class Draws(TypedDict, total=False):
    """Settings of the draws of a bootstrap or of sign flips; by default 9999 from seed 0."""

    resamples: int
    seed: int


class IntervalDraws(Draws, total=False):
    """Settings of the interval of a mean or a correlation."""

    confidence: float


_DRAWN_AT_ONCE = 4_000_000
"""Number of clusters drawn in one batch, to bound the memory; it does not change the draws."""
_ADDED_UP = 256
"""Most clusters whose values are added up. With so few, a draw may well hold each of them once, and
must then equal their sum exactly, from which a product differs by rounding."""


def drawn_sums(
    of_clusters_VC: FloatArray, *, resamples: int = 9999, seed: int = 0
) -> FloatArray:
    """Sum V values over clusters that are drawn with replacement, as many as there are.

    SciPy draws the clusters. The sum over many clusters is the product of the values with the
    counts of the draws, which takes a fraction of the time of adding up.

    Args:
        of_clusters_VC: V values of each of C clusters.
        resamples: R draws.
        seed: seed of the draws.

    Returns:
        Shape [V, R], the sums of each draw, in the order drawn.
    """
    clusters = of_clusters_VC.shape[1]

    def sums(chosen_RC: npt.NDArray[np.intp], axis: int = -1) -> FloatArray:
        if clusters <= _ADDED_UP:
            return of_clusters_VC[:, chosen_RC].sum(axis=axis)
        drawn = len(chosen_RC)
        places = chosen_RC + clusters * np.arange(drawn)[:, None]
        counts = np.bincount(places.ravel(), minlength=drawn * clusters)
        counts_RC = counts.reshape(drawn, clusters)
        return of_clusters_VC @ counts_RC.T.astype(np.float64)

    result = stats.bootstrap(
        (np.arange(clusters),),
        sums,
        vectorized=True,
        n_resamples=resamples,
        batch=max(_DRAWN_AT_ONCE // clusters, 1),
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return np.asarray(result.bootstrap_distribution, dtype=np.float64)


_MOST_UNDEFINED = 0.1
"""Largest share of draws without a value, such as a correlation of equal numbers."""


def drawn_limits(
    statistic: Callable[[npt.NDArray[np.intp]], float],
    units: int,
    *,
    confidence: float,
    resamples: int,
    seed: int,
) -> tuple[float, float] | None:
    """Return the BCa limits of any statistic of units that are drawn with replacement.

    Where the jackknife has no value, they are the quantiles of the draws.

    Args:
        statistic: the statistic of the units that were drawn; nan where it has no value.
        units: number of units, such as documents.
        confidence: nominal coverage, in (0, 1).
        resamples: number of draws.
        seed: seed of the draws.

    Returns:
        The limits; None where more than a tenth of the draws have no value.

    Source: Efron, Better bootstrap confidence intervals, JASA 82 (1987).
    """
    with warnings.catch_warnings():
        # Equal draws, or a jackknife without a value: handled below.
        warnings.simplefilter("ignore")
        result = stats.bootstrap(
            (np.arange(units),),
            statistic,
            n_resamples=resamples,
            confidence_level=confidence,
            vectorized=False,
            method="BCa",
            rng=np.random.default_rng(seed),
        )
    draws = cast("FloatArray", result.bootstrap_distribution)
    defined = draws[~np.isnan(draws)]
    if len(defined) < (1 - _MOST_UNDEFINED) * len(draws):
        return None
    low, high = (float(end) for end in result.confidence_interval)
    if math.isnan(low) or math.isnan(high):
        outside = (1 - confidence) / 2
        ends = np.quantile(defined, (outside, 1 - outside))
        low, high = (float(end) for end in ends)
    return low, high


DRAWS_AT_ONCE = 500
"""Number of draws in memory at once: ten thousand draws of five thousand would be 400 MB."""

_ROUNDING = 1e-12
"""Relative spread below which values count as equal."""


@dataclass(frozen=True)
class Bootstrap:
    """Draws of a mean, and the corrections of their quantiles.

        Q(Φ(ẑ₀ + (ẑ₀ + z) / (1 − â·(ẑ₀ + z)))),   z = Φ⁻¹(tail)

    Q is the quantile function of the draws, ẑ₀ = Φ⁻¹ of the share of them below the estimate, and
    â the acceleration: skewness of the jackknife, Σ u³ / (6 (Σ u²)^1.5).

    Reference: Efron, Better bootstrap confidence intervals, JASA 82 (1987).
    """

    estimate: float
    draws: FloatArray
    """Sorted draws; empty where a single cluster leaves the spread unknown."""

    bias_z: float
    acceleration: float
    clusters: int
    lowest: float
    """Lowest of the values; no limit lies below it."""

    highest: float
    """Highest of the values; no limit lies above it."""

    @property
    def is_constant(self) -> bool:
        """Whether all values are equal within rounding, so that no draw differs."""
        scale = max(1.0, abs(self.lowest), abs(self.highest))
        return self.highest - self.lowest <= _ROUNDING * scale

    def limits(self, confidence: float) -> tuple[float, float] | None:
        """Return BCa limits; the estimate twice for equal values, None for a single cluster."""
        if self.clusters == 1:
            return None
        if self.is_constant:
            return self.estimate, self.estimate
        tail = max((1 - confidence) / 2, 0.5 / self.draws.size)
        shares = [self._share(tail), self._share(1 - tail)]
        low, high = np.quantile(self.draws, shares)
        # Quantiles are interpolated, which can overshoot the largest draw by one rounding.
        return max(float(low), self.lowest), min(float(high), self.highest)

    def expanded_limits(self, confidence: float) -> tuple[float, float] | None:
        """Return BCa limits at the confidence that makes up for few clusters C.

            tail = Φ(−t · √(C / (C − 1))),   t the quantile of Student's t with C − 1 degrees

        Draws spread less than their source by (C − 1)/C, and their quantiles take that spread as
        known: with 10 documents, 95 % limits would miss twice too often.

        Reference: Hesterberg, What teachers should know about the bootstrap, The American
        Statistician 69 (2015).
        """
        if self.clusters == 1:
            return None
        t = t_quantile(confidence, self.clusters - 1)
        tail = _normal_cdf(-t * math.sqrt(self.clusters / (self.clusters - 1)))
        return self.limits(1 - 2 * tail)

    def quantile(self, share: float) -> float:
        """Return a quantile of the draws, without correction."""
        return float(np.quantile(self.draws, share))

    def p_value(self) -> float:
        """Return the smallest 1 − confidence at which the expanded limits leave out 0, two-sided.

        Returns:
            At least the value for 2 / (draws + 1), since no fewer draws than none can lie beyond 0;
            and at least 2^(1 − clusters), the chance that so few clusters have one sign.
        """
        if self.clusters == 1 or (self.is_constant and self.estimate == 0):
            return 1.0
        by_chance = 2.0 ** (1 - self.clusters)
        if self.is_constant:
            return by_chance
        # The largest tails whose lower limit is not above 0, and whose upper limit is not below 0.
        tails = self._tail_to_0("right"), 1 - self._tail_to_0("left")
        tail = max(min(*tails, 0.5), 1 / (self.draws.size + 1))
        t = -_normal_quantile(tail) * math.sqrt((self.clusters - 1) / self.clusters)
        return max(2 * float(stats.t.sf(t, self.clusters - 1)), by_chance)

    def _share(self, tail: float) -> float:
        """Return the share of the draws below the limit that leaves out `tail`."""
        shifted = self.bias_z + _normal_quantile(tail)
        moved = shifted / max(1 - self.acceleration * shifted, _ROUNDING)
        return _normal_cdf(self.bias_z + moved)

    def _tail(self, share: float) -> float:
        """Return the tail of a share, the inverse of `_share`."""
        half = 0.5 / self.draws.size
        moved = _normal_quantile(min(max(share, half), 1 - half)) - self.bias_z
        shifted = moved / max(1 + self.acceleration * moved, _ROUNDING)
        return _normal_cdf(shifted - self.bias_z)

    def _tail_to_0(self, side: Literal["left", "right"]) -> float:
        """Return the tail whose limit is 0; draws equal to 0 count as below it for "right"."""
        last = self.draws.size - 1
        at = int(np.searchsorted(self.draws, 0.0, side=side))
        if not 0 < at <= last:
            return float(at > last)
        before = self.draws[at - 1]
        after = self.draws[at]
        return self._tail((at - 1 - before / (after - before)) / last)


def bootstrap_mean(
    values_N: FloatArray,
    clusters_N: Sequence[str] | None = None,
    **draws: Unpack[Draws],
) -> Bootstrap:
    """Draw means of values whose clusters are drawn with replacement.

        x̄* = Σ_c S_c / Σ_c n_c   over as many clusters as there are, S_c the sum of the n_c values

    With one value in every cluster this is the plain bootstrap, draw by draw.

    Args:
        values_N: at least one finite value; NaN is missing.
        clusters_N: cluster of each value, such as its document; None if each has its own.
        draws: number and seed of the draws.

    Returns:
        The draws, sorted, and their corrections.

    Raises:
        SampleShapeError: clusters of another number than values.
    """
    if clusters_N is not None and len(clusters_N) != values_N.size:
        raise SampleShapeError(
            f"got {values_N.size} values and {len(clusters_N)} clusters; give one for each value"
        )
    values_N, clusters_N = without_missing(values_N, clusters_N)
    sums_C, counts_C = cluster_sums(values_N, clusters_N)
    estimate = float(values_N.mean())
    lowest = float(values_N.min())
    highest = float(values_N.max())
    result = Bootstrap(estimate, np.empty(0), 0.0, 0.0, sums_C.size, lowest, highest)
    if result.clusters == 1 or result.is_constant:
        # The mean of equal values is their value, not their rounded sum over N.
        return replace(result, estimate=lowest if lowest == highest else estimate)
    sums_R, counts_R = drawn_sums(np.stack([sums_C, counts_C]), **draws)
    means_R = np.sort(sums_R / counts_R)
    count_below = np.sum(means_R < estimate) + np.sum(means_R <= estimate)
    below = float(count_below / (2 * means_R.size))
    half = 0.5 / means_R.size
    return replace(
        result,
        draws=means_R,
        bias_z=_normal_quantile(min(max(below, half), 1 - half)),
        acceleration=_acceleration(sums_C, counts_C),
    )


def _acceleration(sums_C: FloatArray, counts_C: FloatArray) -> float:
    without_C = (sums_C.sum() - sums_C) / (counts_C.sum() - counts_C)
    u_C = without_C.mean() - without_C
    spread = float(np.sum(u_C**2))
    if spread <= 0:
        return 0.0
    return float(np.sum(u_C**3)) / (6 * spread**1.5)


def _normal_quantile(share: float) -> float:
    return float(stats.norm.ppf(share))


def _normal_cdf(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))
