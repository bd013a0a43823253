"""Bootstrap intervals that draw documents: responses to one document are not independent."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rubric_judge.reliability.report import Estimate, Unit

if TYPE_CHECKING:
    from rubric_core.groups import FloatArray


IntArray: TypeAlias = NDArray[np.intp]
Statistic: TypeAlias = Callable[[IntArray], float]
"""From the rows (responses) that were drawn to a number; nan where they do not give one."""

_FEWEST: Final = 8
"""Fewer units than this say too little of the spread between units."""
_MOST_UNDEFINED: Final = 0.1
"""Share of draws that may be without a value, such as a correlation of equal numbers."""


def ratio(numerator_N: FloatArray, denominator_N: FloatArray) -> Statistic:
    """Return the statistic Σ numerator / Σ denominator over the drawn rows; nan for 0 / 0."""

    def statistic(rows: IntArray) -> float:
        below = float(denominator_N[rows].sum())
        return float(numerator_N[rows].sum()) / below if below else math.nan

    return statistic


@dataclass(frozen=True)
class Resampling:
    """How intervals are made, and what the rows belong to."""

    documents_N: Sequence[str]
    tasks_N: Sequence[str]
    resamples: int
    confidence: float
    seed: int

    def estimate(
        self, statistic: Statistic, rows: IntArray | None = None, *, of_groups: bool = False
    ) -> Estimate:
        """Return a statistic with its BCa bootstrap interval.

        Args:
            statistic: what to estimate.
            rows: the rows that it is about; all when left out.
            of_groups: whether it needs every response of a task, so that no single response can
                be drawn.

        Returns:
            The value; with an interval where it has at least eight documents, or else tasks, or
            else responses to draw from.

        Source: Efron, Better bootstrap confidence intervals, JASA 82 (1987).
        """
        rows = np.arange(len(self.tasks_N)) if rows is None else rows
        value = statistic(rows)
        if math.isnan(value):
            return Estimate(value=None)
        unit, clusters = self._clusters(rows, of_groups=of_groups)
        if unit is None:
            return Estimate(value=value)
        low, high = self._interval(
            lambda draw: statistic(np.concatenate([clusters[int(i)] for i in draw])), len(clusters)
        )
        if low is None or high is None:
            return Estimate(value=value)
        return Estimate(value=value, low=low, high=high, resampled=unit)

    def _clusters(self, rows: IntArray, *, of_groups: bool) -> tuple[Unit | None, list[IntArray]]:
        labels: dict[Unit, Sequence[str]] = {"document": self.documents_N, "task": self.tasks_N}
        for unit, labels_N in labels.items():
            _, places = np.unique([labels_N[row] for row in rows], return_inverse=True)
            if int(places.max(initial=-1)) + 1 >= _FEWEST:
                order = np.argsort(places, kind="stable")
                ends = np.cumsum(np.bincount(places))[:-1]
                return unit, np.split(rows[order], ends)
        if of_groups or len(rows) < _FEWEST:
            return None, []
        return "response", [rows[i : i + 1] for i in range(len(rows))]

    def _interval(
        self, statistic: Callable[[IntArray], float], units: int
    ) -> tuple[float | None, float | None]:
        with warnings.catch_warnings():
            # Equal draws, or a jackknife without a value: handled below.
            warnings.simplefilter("ignore")
            found = cast("Any", stats).bootstrap(
                (np.arange(units),),
                statistic,
                n_resamples=self.resamples,
                confidence_level=self.confidence,
                vectorized=False,
                method="BCa",
                rng=np.random.default_rng(self.seed),
            )
        draws = cast("FloatArray", found.bootstrap_distribution)
        defined = draws[~np.isnan(draws)]
        if len(defined) < (1 - _MOST_UNDEFINED) * len(draws):
            return None, None
        low, high = (float(end) for end in found.confidence_interval)
        if math.isnan(low) or math.isnan(high):
            outside = (1 - self.confidence) / 2
            low, high = (float(end) for end in np.quantile(defined, (outside, 1 - outside)))
        return low, high
