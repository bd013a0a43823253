"""Student's interval of a mean over documents, which few or alike documents do not narrow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_judge.statistics.clusters import (
    ClusteredMean,
    cluster_sums,
    without_missing,
)
from rubric_judge.statistics.untyped import stats

_ROUNDING = 1e-12
"""Largest difference of values that count as equal."""


def t_quantile(confidence: float, freedom: float) -> float:
    """Return how many standard errors a two-sided interval reaches to either side.

    Args:
        confidence: in (0, 1).
        freedom: degrees of freedom of the standard error.
    """
    return float(stats.t.isf((1 - confidence) / 2, freedom))


@dataclass(frozen=True)
class Student:
    """The mean of differences of shares, its error, and the degrees of freedom of that.

        x̄ ± t se,   se² = max(Var(x̄) over documents, s² / N)

    t has the C* − 1 degrees that documents of such sizes have (Satterthwaite). Few documents with
    means that are alike by chance are no evidence of a design better than independent draws. Where
    no value differs from 0, the limits are those of C documents of which none differs.

    Reference: Korn and Graubard, Survey Methodology 24 (1998), for the least variance; Tango,
    Statistics in Medicine 17 (1998), for ±t² / (C + t²) where nothing differs.
    """

    mean: float
    error: float
    """Standard error; 0 where all values are equal, nan for a single document."""
    freedom: float
    clusters: int
    farthest: float
    """Largest distance of a limit from 0: 1, or the largest value."""

    @classmethod
    def of(
        cls, values_N: FloatArray, clusters_N: Sequence[str] | None = None
    ) -> Student:
        """Return the mean of the values that are not missing; each has a document."""
        values_N, clusters_N = without_missing(values_N, clusters_N)
        sums_C, counts_C = cluster_sums(values_N, clusters_N)
        mean = ClusteredMean.of(sums_C, counts_C)
        independent = ClusteredMean.of(values_N, np.ones_like(values_N)).variance
        is_constant = float(np.ptp(values_N)) <= _ROUNDING
        error = math.sqrt(max(mean.variance, independent))
        if is_constant:
            error = 0.0
        if mean.clusters == 1:
            error = math.nan
        return cls(
            mean=float(values_N[0]) if is_constant else mean.mean,
            error=error,
            freedom=mean.freedom,
            clusters=mean.clusters,
            farthest=max(1.0, float(np.abs(values_N).max())),
        )

    def limits(self, confidence: float) -> tuple[float, float] | None:
        """Return the limits at a confidence; None for a single document."""
        if self.clusters == 1:
            return None
        t = t_quantile(confidence, self.freedom)
        half = t * self.error
        if not self.error and abs(self.mean) <= _ROUNDING:
            half = t**2 / (self.clusters + t**2)
        low = max(self.mean - half, -self.farthest)
        high = min(self.mean + half, self.farthest)
        return low, high

    def p_value(self) -> float:
        """Return the smallest 1 − confidence at which the limits leave out 0."""
        if self.clusters == 1 or abs(self.mean) <= _ROUNDING:
            return 1.0
        if not self.error:
            return 0.0
        ratio = abs(self.mean) / self.error
        return 2 * float(stats.t.sf(ratio, self.freedom))

    def widen(
        self, limits: tuple[float, float] | None, confidence: float
    ) -> tuple[float, float] | None:
        """Return the wider of two intervals on each side; unknown where either is."""
        own = self.limits(confidence)
        if own is None or limits is None:
            return None
        low = min(own[0], limits[0])
        high = max(own[1], limits[1])
        return low, high
