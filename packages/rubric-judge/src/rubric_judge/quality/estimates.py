"""Estimates: a number with its interval, and the mean of clustered values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from pydantic import Field

from rubric_core.arrays import FloatArray
from rubric_judge.ui.page.tables import TOO_FEW, Part, TooFew, or_dash

Unit = Literal["document", "task", "response"]


class Estimate(Part):
    """A number and its interval; None if the data give no number."""

    value: float | None
    low: float | None = None
    high: float | None = None
    unit: Unit | None = None
    """The unit that the interval takes for independent; None without an interval."""
    no_interval: TooFew | None = Field(
        default_factory=lambda known: (
            TOO_FEW
            if known.get("value") is not None and known.get("low") is None
            else None
        )
    )
    """Why a value has no interval."""

    def text(self, form: str = ".2f") -> str:
        """Write the estimate for people, with a true minus sign; None is a dash."""
        value = or_dash(self.value, form)
        if self.low is not None and self.high is not None and self.low < self.high:
            value = f"{value} [{self.low:{form}}, {self.high:{form}}]"
        elif self.no_interval:
            value = f"{value} [{self.no_interval}]"
        return value.replace("-", "−")

    def __format__(self, form: str) -> str:
        return self.text(form or ".2f")


UNKNOWN: Final = Estimate(value=None)


@dataclass(frozen=True, slots=True)
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
    It needs scipy.

    Args:
        count: decisions that count, at most n.
        n: decisions, at least 1.
        confidence: nominal coverage, in (0, 1).

    Source: Brown, Cai and DasGupta, Interval estimation for a binomial proportion, Statistical
        Science 16 (2001), section 4.1.1; Clopper and Pearson, The use of confidence or fiducial
        limits illustrated in the case of the binomial, Biometrika 26 (1934).
    """
    from scipy import stats

    if n < _FEWEST_FOR_WILSON:
        exact = (
            cast("Any", stats)
            .binomtest(count, n)
            .proportion_ci(confidence, method="exact")
        )
        return float(exact.low), float(exact.high)
    chi2 = cast("Any", stats).chi2
    norm = cast("Any", stats).norm  # no type stubs
    few = 2 if n <= _SMALL_SAMPLE else 3
    low, high = wilson(count / n, n, float(norm.ppf((1 + confidence) / 2)))
    if 0 < count <= few:
        low = min(low, float(chi2.ppf(1 - confidence, 2 * count)) / (2 * n))
    if 0 < n - count <= few:
        high = max(high, 1 - float(chi2.ppf(1 - confidence, 2 * (n - count))) / (2 * n))
    return low, high


_FEWEST_FOR_WILSON: Final = 8
"""Decisions below which the interval is exact."""
_SMALL_SAMPLE: Final = 50
"""Decisions up to which the limit of 3 is Wilson's."""
