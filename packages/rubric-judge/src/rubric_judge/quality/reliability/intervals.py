"""Bootstrap and Student intervals for estimates from the rows of a study, by cluster."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_judge.quality.reliability.rates import Confusion, Rates, clustered_rates
from rubric_judge.quality.reliability.ratings import IntArray, Statistic
from rubric_judge.statistics.bootstrap import drawn_limits
from rubric_judge.statistics.clusters import ClusteredMean
from rubric_judge.statistics.estimate import UNKNOWN, Estimate, Unit
from rubric_judge.statistics.student import t_quantile

_FEWEST = 8
"""Fewest units for an interval; fewer tell too little of their spread."""


@dataclass(frozen=True)
class Intervals:
    """Settings of intervals, and the document and task of each row."""

    documents_N: Sequence[str]
    tasks_N: Sequence[str]
    resamples: int
    confidence: float
    seed: int
    weights_N: FloatArray | None = None
    """Weight of each row in rates and biases, the greatest 1; None where all are equal."""

    def estimate(
        self,
        statistic: Statistic,
        rows: IntArray | None = None,
        *,
        of_groups: bool = False,
    ) -> Estimate:
        """Return a statistic with its BCa bootstrap interval.

        Args:
            statistic: the statistic of the rows.
            rows: the rows to use; all when left out.
            of_groups: whether it needs every response of a task, so that no single response can
                be drawn.

        Returns:
            The value; with an interval where there are at least eight documents to draw from. Of
            two to seven there is none: their spread is unknown, and tasks or responses in their
            place would be taken for independent. Where all is of one document it is about that
            document, and draws tasks, or else responses.

        Source: Efron, Better bootstrap confidence intervals, JASA 82 (1987).
        """
        rows = np.arange(len(self.tasks_N)) if rows is None else rows
        value = statistic(rows)
        if math.isnan(value):
            return Estimate(value=None)
        unit, clusters = self._clusters(rows)
        if len(clusters) < _FEWEST or (of_groups and unit == "response"):
            return Estimate(value=value)

        def of_draw(draw: IntArray) -> float:
            return statistic(np.concatenate([clusters[int(i)] for i in draw]))

        limits = drawn_limits(
            of_draw,
            len(clusters),
            confidence=self.confidence,
            resamples=self.resamples,
            seed=self.seed,
        )
        if limits is None:
            return Estimate(value)
        low, high = limits
        return Estimate(value, low, high, unit=unit)

    def rates(self, decided: Confusion) -> Rates:
        """Return TPR, FPR and J of counts by row, where documents are clusters; or tasks."""
        unit, clusters = self._clusters(np.flatnonzero(sum(decided) > 0))
        by_cluster = decided.by_cluster(clusters)
        weighed = None
        if self.weights_N is not None:
            weighed = decided.times(self.weights_N).by_cluster(clusters)
        return clustered_rates(
            by_cluster, weighed, confidence=self.confidence, unit=unit
        )

    def bias(self, difference_N: FloatArray, rows: IntArray) -> Estimate:
        """Return the mean of some rows of judge − label in z or rewards, which is in [−1, 1].

        With Student's interval, of the degrees of freedom that clusters of such sizes are worth; a
        variance below that of independent rows counts as theirs. Where no judgement differs from
        its label, the limits are those of C* clusters of which none differs, ± t² / (C* + t²).
        """
        unit, clusters = self._clusters(rows)
        weights_N = self.weights_N
        if weights_N is None:
            weights_N = np.ones(len(difference_N))
        weighted_N = weights_N * difference_N
        sums_C = np.array([weighted_N[cluster].sum() for cluster in clusters])
        sizes_C = np.array([weights_N[cluster].sum() for cluster in clusters])
        mean = ClusteredMean.of(sums_C, sizes_C)
        if not mean.clusters:
            return UNKNOWN
        if math.isnan(mean.variance):
            return Estimate(value=mean.mean)
        quantile = t_quantile(self.confidence, mean.freedom)
        independent = ClusteredMean.of(weighted_N[rows], weights_N[rows])
        half = quantile * math.sqrt(max(mean.variance, independent.variance))
        if not difference_N[rows].any():
            half = quantile**2 / (mean.equal_clusters + quantile**2)
        low = max(mean.mean - half, -1.0)
        high = min(mean.mean + half, 1.0)
        return Estimate(value=mean.mean, low=low, high=high, unit=unit)

    def _clusters(self, rows: IntArray) -> tuple[Unit, list[IntArray]]:
        """Return the independent unit, and the rows of each: documents, where there are two.

        Within one document the units are tasks, or responses where these are too few.
        """
        labels: dict[Unit, tuple[Sequence[str], int]] = {
            "document": (self.documents_N, 2),
            "task": (self.tasks_N, _FEWEST),
        }
        for unit, (labels_N, fewest) in labels.items():
            _, places = np.unique([labels_N[row] for row in rows], return_inverse=True)
            if int(places.max(initial=-1)) + 1 >= fewest:
                order = np.argsort(places, kind="stable")
                ends = np.cumsum(np.bincount(places))[:-1]
                return unit, np.split(rows[order], ends)
        return "response", [rows[i : i + 1] for i in range(len(rows))]
