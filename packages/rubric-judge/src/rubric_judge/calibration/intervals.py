"""Estimates from the rows of a study, with the intervals that its documents give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_judge.calibration import rates
from rubric_judge.calibration.pairing import MET
from rubric_judge.calibration.record import Interval
from rubric_judge.reliability.noise import retest
from rubric_judge.reliability.ratings import IntArray, Resampling, Statistic


@dataclass(frozen=True)
class Intervals:
    """Makes intervals that know which rows are of one document, or else of one task."""

    resampling: Resampling

    def rates(self, z_NRM: FloatArray, label_NM: FloatArray) -> rates.Rates:
        """Return TPR, FPR and J of a judge's z, replicates averaged, against labels' z."""
        met_NRM = np.where(np.isnan(z_NRM), np.nan, z_NRM >= MET)
        met_NM = retest(np.moveaxis(met_NRM, 1, 2)).mean
        seen_NM = ~np.isnan(met_NM) & ~np.isnan(label_NM)
        clusters = self._clusters(np.flatnonzero(seen_NM.any(axis=1)))
        positive, negative = (
            rates.tally(
                np.where(chosen_NM, met_NM, 0.0).sum(axis=1),
                chosen_NM.sum(axis=1, dtype=np.float64),
                clusters,
            )
            for chosen_NM in (seen_NM & (label_NM >= MET), seen_NM & (label_NM < MET))
        )
        return rates.clustered_rates(positive, negative, confidence=self.resampling.confidence)

    def bias(self, difference_N: FloatArray, rows: IntArray) -> Interval:
        """Return the mean of some rows of judge − label in z or rewards, which is in [−1, 1]."""
        summed = rates.tally(difference_N, np.ones(len(difference_N)), self._clusters(rows))
        found = rates.clustered_mean(*summed, confidence=self.resampling.confidence)
        if found.low is None or found.high is None:
            return found
        return Interval(value=found.value, low=max(found.low, -1.0), high=min(found.high, 1.0))

    def estimate(
        self, statistic: Statistic, rows: IntArray | None = None, *, of_groups: bool = False
    ) -> Interval:
        """Return any statistic with its bootstrap interval; see `Resampling.estimate`."""
        if rows is not None and not len(rows):
            return rates.UNKNOWN
        found = self.resampling.estimate(statistic, rows, of_groups=of_groups)
        return Interval(value=found.value, low=found.low, high=found.high)

    def _clusters(self, rows: IntArray) -> list[IntArray]:
        unit, clusters = self.resampling.clusters(rows)
        return clusters if unit else [rows[i : i + 1] for i in range(len(rows))]
