"""The mean of values that come in clusters of dependent values, such as documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from rubric_core.arrays import FloatArray


@dataclass(frozen=True)
class ClusteredMean:
    """A mean of values that come in clusters of dependent values.

        x̄ = Σ_c x_c / n,   e_c = (x_c − x̄ n_c) / n,   Var(x̄) = C / (C − 1) Σ_c e_c²

    x_c and n_c are the sum and number of a cluster's values, C is the number of nonempty clusters.

    Source: Cochran, Sampling Techniques (1977), §6.3: the variance of a ratio.
    """

    mean: float
    """The mean; nan without a value."""
    errors_C: FloatArray
    """Contribution of each cluster to the error of the mean."""
    clusters: int
    equal_clusters: float = math.nan
    """Number of clusters of equal size that they are worth."""

    @classmethod
    def of(cls, sum_C: FloatArray, count_C: FloatArray) -> ClusteredMean:
        """Return the mean from the sum and the number of each cluster's values."""
        n = float(count_C.sum())
        clusters = int((count_C > 0).sum())
        if not n:
            return cls(math.nan, 0 * count_C, 0)
        mean = float(sum_C.sum()) / n
        squares_C = (count_C / n) ** 2
        equal = min(float(squares_C.sum() ** 2 / (squares_C**2).sum()), float(clusters))
        return cls(mean, (sum_C - mean * count_C) / n, clusters, equal)

    @property
    def variance(self) -> float:
        """Variance of the mean over draws of clusters; nan for fewer than two clusters."""
        if self.clusters < 2:  # noqa: PLR2004  # a spread needs two
            return math.nan
        return self.clusters / (self.clusters - 1) * float((self.errors_C**2).sum())

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance, if the values of a cluster are dependent.

            C* = (Σ_c n_c²)² / Σ_c n_c⁴ ≤ C,   df = C* − 1

        They are C − 1 for clusters of equal size, 1 if two hold nearly all values; at least 1.

        Source: Satterthwaite, An approximate distribution of estimates of variance components,
            Biometrics Bulletin 2 (1946), for Var_c ∝ n_c².
        """
        return max(self.equal_clusters - 1, 1.0)

    def trusted(self, worth: float) -> float:
        """Return an upper bound on how many independent values in [0, 1] these are worth.

            n* ≤ C* max(1, C* min(x̄, 1 − x̄))

        Near 0 or 1 few documents differ from the rest, and if none of them was drawn, the spread
        between documents looks like nothing. C* min(x̄, 1 − x̄) is their expected number: a
        variance that was observed on E documents is trusted up to a factor of E.

        Args:
            worth: n* = x̄ (1 − x̄) / Var(x̄), of clusters that hold several values.
        """
        rare = self.equal_clusters * min(self.mean, 1 - self.mean)
        return min(worth, self.equal_clusters * max(rare, 1.0))

    def times(self, factor: float) -> ClusteredMean:
        """Return the mean of the values multiplied by a factor."""
        return replace(self, mean=factor * self.mean, errors_C=factor * self.errors_C)


def without_missing(
    values_N: FloatArray, clusters_N: Sequence[str] | None
) -> tuple[FloatArray, Sequence[str] | None]:
    """Return the values that are not NaN, and their clusters."""
    is_present_N = ~np.isnan(values_N)
    if clusters_N is not None:
        clusters_N = list(compress(clusters_N, is_present_N))
    return values_N[is_present_N], clusters_N


def cluster_sums(
    values_N: FloatArray, clusters_N: Sequence[str] | None
) -> tuple[FloatArray, FloatArray]:
    """Return the sum and the number of each cluster's values.

    Args:
        values_N: values.
        clusters_N: cluster of each value; None if each has its own.
    """
    if clusters_N is None or len(set(clusters_N)) == values_N.size:
        return values_N, np.ones_like(values_N)
    _, places_N = np.unique(np.asarray(clusters_N), return_inverse=True)
    sums_C = np.bincount(places_N, weights=values_N)
    counts_C = np.bincount(places_N)
    return sums_C.astype(np.float64), counts_C.astype(np.float64)
