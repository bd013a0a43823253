"""Rates at which a judge is right where a reference says met, and where it says not met.

A bootstrap interval is a point where every decision is alike, as 1 of 1 is; Wilson's is not.
Decisions of one document that go together count by their effective number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rubric_core.arrays import BoolArray, FloatArray
from rubric_judge.quality.reliability import noise, ratings
from rubric_judge.statistics.clusters import ClusteredMean
from rubric_judge.statistics.estimate import UNKNOWN, Estimate, Unit
from rubric_judge.statistics.shares import binomial_limits, normal_quantile, wilson
from rubric_judge.statistics.student import t_quantile

MET = 0.5
"""Least z that counts as met, for judge and reference alike."""


class Confusion(NamedTuple):
    """Decisions of a judge and a reference, counted by response or by cluster (N of them).

    A judge's replicates count by the share that decides so.
    """

    tp_N: FloatArray
    """Count of decisions that both call met."""
    fp_N: FloatArray
    """Count of decisions that only the judge calls met."""
    fn_N: FloatArray
    """Count of decisions that only the reference calls met."""
    tn_N: FloatArray
    """Count of decisions that both call not met."""

    @property
    def met_N(self) -> FloatArray:
        """Number that the reference calls met, rounded from shares of replicates."""
        return np.rint(self.tp_N + self.fn_N)

    @property
    def not_met_N(self) -> FloatArray:
        """Number that the reference calls not met."""
        return np.rint(self.fp_N + self.tn_N)

    def by_cluster(self, clusters: Sequence[ratings.IntArray]) -> Confusion:
        """Sum over clusters of rows."""
        sums = (
            np.array([counts_N[rows].sum() for rows in clusters]) for counts_N in self
        )
        return Confusion(*sums)

    def times(self, weights_N: FloatArray) -> Confusion:
        """Weigh each row, for `clustered_rates`."""
        return Confusion(*(weights_N * counts_N for counts_N in self))


class Rates(NamedTuple):
    """Rates of a judge's decisions on met and on unmet criteria."""

    tpr: Estimate
    """P(judge says met | reference says met)."""
    fpr: Estimate
    """P(judge says met | reference says not met)."""
    youden_j: Estimate
    """TPR − FPR: 1 for a judge that is always right, 0 for one that does not look."""
    worth: tuple[float, float]
    """Effective numbers of decisions on met, and on unmet criteria."""

    @property
    def tnr(self) -> Estimate:
        """1 − FPR."""
        fpr = self.fpr
        if fpr.value is None or fpr.low is None or fpr.high is None:
            return UNKNOWN
        return Estimate(
            value=1 - fpr.value,
            low=1 - fpr.high,
            high=1 - fpr.low,
            unit=fpr.unit,
        )


def confusion(z_NRM: FloatArray, label_NM: FloatArray) -> Confusion:
    """Count a judge's decisions against a reference's.

    Args:
        z_NRM: the judge's z, nan where missing; at least `MET` says met.
        label_NM: the reference's z, likewise; scores that either lacks are not counted.

    Returns:
        Counts by response, shape [N] each.
    """
    met_NRM = np.where(np.isnan(z_NRM), np.nan, z_NRM >= MET)
    met_NM = noise.retest(np.moveaxis(met_NRM, 1, 2)).mean
    seen_NM = ~np.isnan(met_NM) & ~np.isnan(label_NM)
    met_NM = np.nan_to_num(met_NM)
    is_met_NM = label_NM >= MET

    def count(values_NM: FloatArray, chosen_NM: BoolArray) -> FloatArray:
        return np.where(seen_NM & chosen_NM, values_NM, 0.0).sum(axis=1)

    return Confusion(
        tp_N=count(met_NM, is_met_NM),
        fp_N=count(met_NM, ~is_met_NM),
        fn_N=count(1 - met_NM, is_met_NM),
        tn_N=count(1 - met_NM, ~is_met_NM),
    )


def confusions(
    z_JNM: FloatArray, reference: int, cells: ratings.Cells
) -> Iterator[tuple[int, str | None, Confusion]]:
    """Compare every other judge with the reference, on criteria that it finds met or not met.

    These are the criteria that it gives nothing or their whole weight in every response.

    Args:
        z_JNM: one judgement of each judge; nan where missing.
        reference: position of the reference among the judges.
        cells: for each pool of criteria, the (n, m) that they stand at.

    Returns:
        j, the pool's name or None for all of them pooled, and the counts.
    """
    empty_NM = np.full_like(z_JNM[reference], np.nan)
    labels_NM: dict[str | None, FloatArray] = {None: empty_NM.copy()}
    for pool, (n, m) in cells.items():
        label_C = z_JNM[reference, n, m]
        is_extreme_C = np.isin(label_C, (0, 1))
        if (np.isnan(label_C) | is_extreme_C).all():
            labels_NM[pool.name] = empty_NM.copy()
            labels_NM[pool.name][n, m] = label_C
            labels_NM[None][n, m] = label_C
    for j, z_NM in enumerate(z_JNM):
        if j != reference:
            for name, label_NM in labels_NM.items():
                yield j, name, confusion(z_NM[:, None, :], label_NM)


def youden(tp: int, fp: int, fn: int, tn: int, *, confidence: float = 0.95) -> Rates:
    """Return the rates of a confusion matrix whose decisions are independent.

        TPR = TP / (TP + FN),   FPR = FP / (FP + TN),   J = TPR − FPR

    Args:
        tp: number that both call met.
        fp: number that only the judge calls met.
        fn: number that only the reference calls met.
        tn: number that both call not met.
        confidence: nominal coverage, in (0, 1).

    Returns:
        Wilson's intervals of TPR and FPR, Newcombe's of J; without a value where a class is
        missing. 8 of 10 and 3 of 10: J = 0.5.

    Source: Youden, Index for rating diagnostic tests, Cancer 3 (1950).
    Source: Newcombe, Interval estimation for the difference between independent proportions,
        Statistics in Medicine 17 (1998), method 10.
    """
    one_each = Confusion(*np.repeat(np.eye(4), (tp, fp, fn, tn), axis=1))
    return clustered_rates(one_each, confidence=confidence)


def clustered_rates(
    decided: Confusion,
    weighed: Confusion | None = None,
    *,
    confidence: float = 0.95,
    unit: Unit | None = None,
) -> Rates:
    """Return the rates where the decisions of a cluster go together.

        n* = n / deff,   deff = Var(p̂) / (p̂ (1 − p̂) / n) ≥ 1

    Wilson's interval with n* in place of n and Student's t in place of the normal quantile, with
    C* − 1 degrees of freedom for clusters that are worth C* of one size (Satterthwaite); J by the
    method of variance estimates recovery, with the correlation of both rates over the clusters. One
    decision a cluster gives `youden`'s; n* has a bound near 0 and 1 (`ClusteredMean.trusted`).
    Where all decisions of a class are the same, deff cannot be seen, and n* = C*.

    Of decisions that weigh w, p̂ is Hájek's Σ w x / Σ w, and deff holds what the weights cost. Where
    all of a class are the same, one that is not may have the greatest weight of any in the sample:
    n* = C* w̄ / max w, to which deff goes as p̂ goes to 0 or 1.

    Args:
        decided: counts by cluster.
        weighed: the same with each decision weighted, the greatest weight 1; None
            where all weights are equal.
        confidence: nominal coverage, in (0, 1).
        unit: unit of the clusters.

    Source: Rao and Scott, A simple method for the analysis of clustered binary data, Biometrics 48
        (1992), for n*.
    Source: Zou, Toward using confidence intervals to compare correlations, Psychological Methods 12
        (2007), for the difference of two dependent estimates.
    """
    tp_C = decided.tp_N
    met_C = decided.met_N
    fp_C = decided.fp_N
    not_met_C = decided.not_met_N
    if weighed is not None:
        tp_C, fp_C, fn_C, tn_C = weighed
        met_C = tp_C + fn_C
        not_met_C = fp_C + tn_C
    yes = ClusteredMean.of(tp_C, met_C)
    no = ClusteredMean.of(fp_C, not_met_C)
    met = float(decided.met_N.sum()), float(met_C.sum())
    not_met = float(decided.not_met_N.sum()), float(not_met_C.sum())
    tpr, yes_worth = _share(yes, met, confidence, unit)
    fpr, no_worth = _share(no, not_met, confidence, unit)
    squares = (yes.errors_C**2).sum() * (no.errors_C**2).sum()
    size = math.sqrt(float(squares))
    correlation = 0.0
    if size:
        correlation = float((yes.errors_C * no.errors_C).sum()) / size
    return Rates(
        tpr=tpr,
        fpr=fpr,
        youden_j=_difference(tpr, fpr, correlation),
        worth=(yes_worth, no_worth),
    )


def _share(
    decided: ClusteredMean,
    total: tuple[float, float],
    confidence: float,
    unit: Unit | None,
) -> tuple[Estimate, float]:
    """Return a rate, and the effective number of its decisions, from their (number, weight)."""
    n, weight = total
    if not n:
        return UNKNOWN, 0.0
    p = decided.mean
    variance = decided.variance
    clusters = decided.clusters
    worth = decided.equal_clusters * weight / n
    if clusters == n == weight:  # independent
        low, high = binomial_limits(round(p * n), round(n), confidence)
        return Estimate(value=p, low=low, high=high, unit=unit), worth
    if clusters == 1:  # one document is one decision
        quantile = normal_quantile(confidence)
    else:
        quantile = t_quantile(confidence, decided.freedom)
        if 0 < p < 1 and variance > 0:
            worth = max(p * (1 - p) / variance, 1.0)
            # A draw by the score can beat deff = 1.
            if n == weight:
                worth = min(n, worth)
            if clusters < n:
                worth = decided.trusted(worth)
    low, high = wilson(p, worth, quantile)
    return Estimate(value=p, low=low, high=high, unit=unit), worth


def _difference(first: Estimate, second: Estimate, correlation: float) -> Estimate:
    """Return first − second; see `clustered_rates`."""
    if first.value is None or second.value is None:
        return UNKNOWN
    below = first.value - (first.low or 0.0)
    above = (first.high or 0.0) - first.value
    second_below = second.value - (second.low or 0.0)
    second_above = (second.high or 0.0) - second.value

    def half(a: float, b: float) -> float:
        square = a * a + b * b - 2 * correlation * a * b
        return math.sqrt(max(square, 0.0))

    value = first.value - second.value
    return Estimate(
        value=value,
        low=max(value - half(below, second_above), -1.0),
        high=min(value + half(above, second_below), 1.0),
        unit=first.unit,
    )
