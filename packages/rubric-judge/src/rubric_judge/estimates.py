"""A number with its interval, and the mean of values that come in clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from rubric_core.arrays import FloatArray
from rubric_judge.page.tables import Part, or_dash

Unit = Literal["document", "task", "response"]


class Estimate(Part):
    """A number and its interval; None where the data cannot say, which is no number."""

    value: float | None
    low: float | None = None
    high: float | None = None
    unit: Unit | None = None
    """What the interval takes for independent; None without one."""

    def text(self, form: str = ".2f") -> str:
        """Write it for people, with a true minus sign; a dash where there is none."""
        value = or_dash(self.value, form)
        if self.low is not None and self.high is not None and self.low < self.high:
            value = f"{value} [{self.low:{form}}, {self.high:{form}}]"
        return value.replace("-", "−")

    def __format__(self, form: str) -> str:
        return self.text(form or ".2f")


UNKNOWN: Final = Estimate(value=None)


@dataclass(frozen=True, slots=True)
class ClusteredMean:
    """A mean of values of which those of a cluster go together.

        x̄ = Σ_c x_c / n,   e_c = (x_c − x̄ n_c) / n,   Var(x̄) = C / (C − 1) Σ_c e_c²

    x_c and n_c are the sum and the number of a cluster's values, C the clusters that have any.

    Source: Cochran, Sampling Techniques (1977), §6.3: the variance of a ratio.
    """

    mean: float
    """nan without a value."""
    errors_C: FloatArray
    """What each cluster adds to the error of the mean."""
    clusters: int

    @classmethod
    def of(cls, sum_C: FloatArray, count_C: FloatArray) -> ClusteredMean:
        """Return it from the sum and the number of the values of each cluster."""
        n, clusters = float(count_C.sum()), int((count_C > 0).sum())
        if not n:
            return cls(math.nan, 0 * count_C, 0)
        mean = float(sum_C.sum()) / n
        return cls(mean, (sum_C - mean * count_C) / n, clusters)

    @property
    def variance(self) -> float:
        """Of the mean, where clusters are drawn; nan for fewer than two."""
        if self.clusters < 2:  # noqa: PLR2004  # a spread needs two
            return math.nan
        return self.clusters / (self.clusters - 1) * float((self.errors_C**2).sum())

    def times(self, factor: float) -> ClusteredMean:
        """Return the mean of values that are all multiplied."""
        return ClusteredMean(factor * self.mean, factor * self.errors_C, self.clusters)
