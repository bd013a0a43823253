"""The bootstrap of a mean over questions, resampled by document, with its BCa limits and p-value.

SciPy draws; what is made of the draws stands here, so that limits at every level and the p-value
come from the same ones and cannot contradict each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from scipy import stats

from rubric_eval.errors import EvalShapeError
from rubric_eval.statistics.resampling import drawn_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

FloatArray: TypeAlias = npt.NDArray[np.float64]

DRAWS_AT_ONCE: Final = 500
"""Of a large set of questions: ten thousand draws of five thousand would be 400 MB."""

_ROUNDING: Final = 1e-12
"""Relative spread below which values count as equal."""


@dataclass(frozen=True)
class Bootstrap:
    """Draws of a mean, and what corrects their quantiles.

        Q(Φ(ẑ₀ + (ẑ₀ + z) / (1 − â·(ẑ₀ + z)))),   z = Φ⁻¹(tail)

    Q is the quantile function of the draws, ẑ₀ = Φ⁻¹ of the share of them below the estimate, and
    â the acceleration: skewness of the jackknife, Σ u³ / (6 (Σ u²)^1.5).

    Reference: Efron, Better bootstrap confidence intervals, JASA 82 (1987).
    """

    estimate: float
    draws: FloatArray
    """Sorted; empty where a single cluster leaves the spread unknown."""

    bias_z: float
    acceleration: float
    clusters: int
    lowest: float
    """Of the values: no limit lies beyond them."""

    highest: float

    @property
    def is_constant(self) -> bool:
        """Whether all values are equal within rounding, so that no draw differs."""
        return self.highest - self.lowest <= _ROUNDING * max(
            1.0, abs(self.lowest), abs(self.highest)
        )

    def limits(self, confidence: float) -> tuple[float, float] | None:
        """BCa limits; the estimate twice if all values are equal, None for a single cluster."""
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
        """BCa limits at the confidence that makes up for few clusters C.

            tail = Φ(−t · √(C / (C − 1))),   t the quantile of Student's t with C − 1 degrees

        Draws spread less than their source by (C − 1)/C, and their quantiles take that spread as
        known: with 10 documents, 95 % limits would miss twice too often.

        Reference: Hesterberg, What teachers should know about the bootstrap, The American
        Statistician 69 (2015).
        """
        if self.clusters == 1:
            return None
        t = cast("Any", stats).t.isf((1 - confidence) / 2, self.clusters - 1)
        tail = _normal_cdf(-float(t) * math.sqrt(self.clusters / (self.clusters - 1)))
        return self.limits(1 - 2 * tail)

    def quantile(self, share: float) -> float:
        """Quantile of the draws, without correction."""
        return float(np.quantile(self.draws, share))

    def p_value(self) -> float:
        """Smallest 1 − confidence at which the expanded limits leave out 0, two-sided.

        Returns:
            At least what 2 / (draws + 1) gives, since no fewer draws can lie beyond 0 than none;
            and at least 2^(1 − clusters), what so few of one sign have by chance.
        """
        if self.clusters == 1 or (self.is_constant and self.estimate == 0):
            return 1.0
        by_chance = 2.0 ** (1 - self.clusters)
        if self.is_constant:
            return by_chance
        tail = max(min(self._tail_below(), self._tail_above(), 0.5), 1 / (self.draws.size + 1))
        t = -_normal_quantile(tail) * math.sqrt((self.clusters - 1) / self.clusters)
        return max(2 * float(cast("Any", stats).t.sf(t, self.clusters - 1)), by_chance)

    def _share(self, tail: float) -> float:
        """Of the draws below the limit that leaves out `tail`."""
        shifted = self.bias_z + _normal_quantile(tail)
        moved = shifted / max(1 - self.acceleration * shifted, _ROUNDING)
        return _normal_cdf(self.bias_z + moved)

    def _tail(self, share: float) -> float:
        """Undo `_share`."""
        half = 0.5 / self.draws.size
        moved = _normal_quantile(min(max(share, half), 1 - half)) - self.bias_z
        shifted = moved / max(1 + self.acceleration * moved, _ROUNDING)
        return _normal_cdf(shifted - self.bias_z)

    def _tail_below(self) -> float:
        """Largest tail whose lower limit is not above 0."""
        last = self.draws.size - 1
        at = int(np.searchsorted(self.draws, 0.0, side="right"))  # draws ≤ 0
        if at == 0:
            return 0.0
        if at > last:
            return 1.0
        before, after = self.draws[at - 1], self.draws[at]
        return self._tail((at - 1 - before / (after - before)) / last)

    def _tail_above(self) -> float:
        """Largest tail whose upper limit is not below 0."""
        last = self.draws.size - 1
        at = int(np.searchsorted(self.draws, 0.0, side="left"))  # draws < 0
        if at > last:
            return 0.0
        if at == 0:
            return 1.0
        before, after = self.draws[at - 1], self.draws[at]
        return 1 - self._tail((at - 1 - before / (after - before)) / last)


def bootstrap_mean(
    values_N: FloatArray,
    clusters_N: Sequence[str] | None = None,
    *,
    resamples: int = 9999,
    seed: int = 0,
) -> Bootstrap:
    """Draw means of values whose clusters are drawn with replacement.

        x̄* = Σ_c S_c / Σ_c n_c   over as many clusters as there are, S_c the sum of the n_c values

    With one value in every cluster this is the plain bootstrap, draw by draw.

    Args:
        values_N: at least one finite value.
        clusters_N: what each value belongs to, such as its document; its own where None.
        resamples: draws.
        seed: of the draws.

    Returns:
        The draws, sorted, and their corrections.

    Raises:
        EvalShapeError: clusters of another number than values.
    """
    if clusters_N is not None and len(clusters_N) != values_N.size:
        raise EvalShapeError(
            f"got {values_N.size} values and {len(clusters_N)} clusters; give one for each value"
        )
    sums_C, counts_C = cluster_sums(values_N, clusters_N)
    estimate = float(values_N.mean())
    lowest, highest = float(values_N.min()), float(values_N.max())
    result = Bootstrap(estimate, np.empty(0), 0.0, 0.0, sums_C.size, lowest, highest)
    if result.clusters == 1 or result.is_constant:
        # Of equal values the mean is one of them, and not what their sum rounds to.
        exact = lowest if lowest == highest else estimate
        return Bootstrap(exact, result.draws, 0.0, 0.0, result.clusters, lowest, highest)
    draws = np.sort(_draws(sums_C, counts_C, resamples=resamples, seed=seed))
    below = (np.sum(draws < estimate) + np.sum(draws <= estimate)) / (2 * draws.size)
    half = 0.5 / draws.size
    return Bootstrap(
        estimate,
        draws,
        _normal_quantile(min(max(float(below), half), 1 - half)),
        _acceleration(sums_C, counts_C),
        sums_C.size,
        lowest,
        highest,
    )


def cluster_sums(
    values_N: FloatArray, clusters_N: Sequence[str] | None
) -> tuple[FloatArray, FloatArray]:
    """Return the sum of each cluster's values, and how many they are.

    Args:
        values_N: values.
        clusters_N: what each belongs to; its own where None.
    """
    if clusters_N is None or len(set(clusters_N)) == values_N.size:
        return values_N, np.ones_like(values_N)
    _, of_N = np.unique(np.asarray(clusters_N), return_inverse=True)
    return (
        np.bincount(of_N, weights=values_N).astype(np.float64),
        np.bincount(of_N).astype(np.float64),
    )


def _draws(sums_C: FloatArray, counts_C: FloatArray, *, resamples: int, seed: int) -> FloatArray:
    sums_R, counts_R = drawn_sums(np.stack([sums_C, counts_C]), resamples=resamples, seed=seed)
    return sums_R / counts_R


def _acceleration(sums_C: FloatArray, counts_C: FloatArray) -> float:
    without_C = (sums_C.sum() - sums_C) / (counts_C.sum() - counts_C)
    u_C = without_C.mean() - without_C
    spread = float(np.sum(u_C**2))
    return float(np.sum(u_C**3)) / (6 * spread**1.5) if spread > 0 else 0.0


def _normal_quantile(share: float) -> float:
    return float(cast("Any", stats).norm.ppf(share))


def _normal_cdf(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))
