"""TPR, FPR and Youden's J of a yes-or-no decision, with intervals, from counts or from documents.

An interval that is drawn by bootstrap is a point where every label agrees; Wilson's is not, and
the labels of a document that go together are counted for what they are worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_core.errors import needing_extra
from rubric_judge.calibration.record import Interval

with needing_extra("rubric-judge", "reliability", by="calibrate"):
    from scipy import stats

UNKNOWN: Final = Interval(value=None)


class Tally(NamedTuple):
    """Decisions on what people call met, or not met, by document, task or response (C of them)."""

    met_C: FloatArray
    """How many the judge calls met; the share of its replicates counts."""
    count_C: FloatArray


class Rates(NamedTuple):
    """How a judge decides on what is met and on what is not."""

    tpr: Interval
    fpr: Interval
    youden_j: Interval
    worth: tuple[float, float]
    """Independent labels that those of what is met, and of what is not, are worth."""


def youden(tp: int, fp: int, fn: int, tn: int, *, confidence: float = 0.95) -> Rates:
    """Return the rates of a confusion matrix whose decisions are independent.

        TPR = tp / (tp + fn),   FPR = fp / (fp + tn),   J = TPR − FPR

    Args:
        tp: met by judge and label.
        fp: met by the judge alone.
        fn: met by the label alone.
        tn: met by neither.
        confidence: nominal coverage, in (0, 1).

    Returns:
        Wilson's intervals of TPR and FPR, Newcombe's of J; without a value where a class has no
        label.

    Source: Newcombe, Interval estimation for the difference between independent proportions,
        Statistics in Medicine 17 (1998), method 10.
    """
    quantile = float(cast("Any", stats).norm.ppf((1 + confidence) / 2))
    yes = _wilson(tp, tp + fn, tp + fn, quantile)
    no = _wilson(fp, fp + tn, fp + tn, quantile)
    return Rates(yes, no, _difference(yes, no, 0.0), (tp + fn, fp + tn))


def clustered_rates(positive: Tally, negative: Tally, *, confidence: float = 0.95) -> Rates:
    """Return the rates where the labels of a cluster go together.

        n* = n / deff,   deff = Var(p̂) / (p̂ (1 − p̂) / n) ≥ 1
        Var(p̂) = C / (C − 1) Σ_c (x_c − p̂ n_c)² / n²

    Wilson's interval with n* in place of n and Student's t of C − 1 degrees of freedom in place of
    the normal quantile; J by the method of variance estimates recovery, with the correlation of
    both rates over the clusters. One label a cluster gives `youden`'s. Where all decisions of a
    class are the same, deff cannot be seen, and n* = C.

    Args:
        positive: decisions on what people call met.
        negative: on what they call not met, of the same clusters.
        confidence: nominal coverage, in (0, 1).

    Source: Rao and Scott, A simple method for the analysis of clustered binary data, Biometrics 48
        (1992), for n*.
    Source: Zou, Toward using confidence intervals to compare correlations, Psychological Methods 12
        (2007), for the difference of two dependent estimates.
    """
    yes, yes_errors_C, yes_worth = _share(positive, confidence)
    no, no_errors_C, no_worth = _share(negative, confidence)
    size = math.sqrt(float((yes_errors_C**2).sum() * (no_errors_C**2).sum()))
    correlation = float((yes_errors_C * no_errors_C).sum()) / size if size else 0.0
    return Rates(yes, no, _difference(yes, no, correlation), (yes_worth, no_worth))


def clustered_mean(sum_C: FloatArray, count_C: FloatArray, *, confidence: float = 0.95) -> Interval:
    """Return Σ sum / Σ count with Student's interval of C − 1 degrees of freedom.

    Args:
        sum_C: of the values of each cluster.
        count_C: how many values it has.
        confidence: nominal coverage, in (0, 1).

    Returns:
        Without an interval where fewer than two clusters have values.

    Source: Cochran, Sampling Techniques (1977), §6.3: the variance of a ratio.
    """
    total = float(count_C.sum())
    if not total:
        return UNKNOWN
    value = float(sum_C.sum()) / total
    half = _quantile(count_C, confidence) * math.sqrt(_variance(sum_C - value * count_C, count_C))
    if math.isnan(half):
        return Interval(value=value)
    return Interval(value=value, low=value - half, high=value + half)


def labels_needed(
    rates: Rates, counts: tuple[int, int], half_width: float, *, confidence: float = 0.95
) -> tuple[int, int]:
    """Return the fewest more labels of what is met and of what is not for a J of this precision.

        v₁ / (n₁ + a₁) + v₀ / (n₀ + a₀) ≤ (h / z)²,   v = p̃ (1 − p̃) deff,   p̃ = (n p̂ + 2) / (n + 4)

    a₁ + a₀ is least where the classes are as √v₁ to √v₀, or where one class has more than that.

    Args:
        rates: what the labels say so far.
        counts: labels of what is met, and of what is not.
        half_width: h, of the interval of J.
        confidence: of it.

    Returns:
        (a₁, a₀). Without a label yet, ½ is taken for both rates: (16, 16) for h = 0.35.
    """
    z = float(cast("Any", stats).norm.ppf((1 + confidence) / 2))
    target = (half_width / z) ** 2
    v1, v0 = (
        _planned_variance(rate, n, worth)
        for rate, n, worth in zip((rates.tpr, rates.fpr), counts, rates.worth, strict=True)
    )
    n1, n0 = counts
    both = math.sqrt(v1 * v0)
    best1, best0 = (v1 + both) / target, (v0 + both) / target
    if n1 > best1:
        best0 = v0 / (target - v1 / n1)
    elif n0 > best0:
        best1 = v1 / (target - v0 / n0)
    more1, more0 = (max(math.ceil(round(best - n, 6)), 0) for best, n in ((best1, n1), (best0, n0)))
    return more1, more0


def tally(
    met_N: FloatArray, chosen_N: FloatArray, clusters: Sequence[np.ndarray[Any, Any]]
) -> Tally:
    """Sum decisions over clusters of rows.

    Args:
        met_N: decisions in [0, 1].
        chosen_N: how many decisions of a class the row holds.
        clusters: the rows of each.
    """
    sums = [(float(met_N[rows].sum()), float(chosen_N[rows].sum())) for rows in clusters]
    met_C, count_C = np.array(sums).reshape(-1, 2).T
    return Tally(met_C, count_C)


def _planned_variance(rate: Interval, n: int, worth: float) -> float:
    p = ((rate.value or 0.0) * n + 2) / (n + 4)
    return p * (1 - p) * (n / worth if worth else 1.0)


def _share(decided: Tally, confidence: float) -> tuple[Interval, FloatArray, float]:
    """Return a rate, what each cluster adds to its error, and what its labels are worth."""
    n = float(decided.count_C.sum())
    if not n:
        return UNKNOWN, np.zeros(len(decided.count_C)), 0.0
    p = float(decided.met_C.sum()) / n
    errors_C = decided.met_C - p * decided.count_C
    clusters = int((decided.count_C > 0).sum())
    if clusters == n:
        quantile = float(cast("Any", stats).norm.ppf((1 + confidence) / 2))
        return _wilson(p * n, n, n, quantile), errors_C / n, n
    variance = _variance(errors_C, decided.count_C)
    is_seen = 0 < p < 1 and variance > 0  # nan with a single cluster
    worth = min(n, max(p * (1 - p) / variance, 1.0)) if is_seen else float(clusters)
    quantile = _quantile(decided.count_C, confidence)
    if math.isnan(quantile):  # the labels of one document are worth one label
        quantile = float(cast("Any", stats).norm.ppf((1 + confidence) / 2))
    return _wilson(p * n, n, worth, quantile), errors_C / n, worth


def _variance(errors_C: FloatArray, count_C: FloatArray) -> float:
    clusters, n = int((count_C > 0).sum()), float(count_C.sum())
    if clusters < 2:  # noqa: PLR2004  # a spread needs two
        return math.nan
    return clusters / (clusters - 1) * float((errors_C**2).sum()) / n**2


def _quantile(count_C: FloatArray, confidence: float) -> float:
    df = int((count_C > 0).sum()) - 1
    return float(cast("Any", stats).t.ppf((1 + confidence) / 2, df)) if df > 0 else math.nan


def _wilson(right: float, n: float, worth: float, quantile: float) -> Interval:
    """Return right / n with the score interval of `worth` independent decisions.

    Source: Wilson, Probable inference, JASA 22 (1927).
    """
    if not n:
        return UNKNOWN
    p, q2 = right / n, quantile**2 / worth
    middle = (p + q2 / 2) / (1 + q2)
    half = math.sqrt(p * (1 - p) * q2 + q2**2 / 4) / (1 + q2)
    return Interval(
        value=p, low=min(max(middle - half, 0.0), p), high=max(min(middle + half, 1.0), p)
    )


def _difference(one: Interval, other: Interval, correlation: float) -> Interval:
    if one.value is None or other.value is None:
        return UNKNOWN
    below, above = one.value - (one.low or 0.0), (one.high or 0.0) - one.value
    other_below, other_above = other.value - (other.low or 0.0), (other.high or 0.0) - other.value

    def half(a: float, b: float) -> float:
        return math.sqrt(max(a * a + b * b - 2 * correlation * a * b, 0.0))

    value = one.value - other.value
    return Interval(
        value=value,
        low=max(value - half(below, other_above), -1.0),
        high=min(value + half(above, other_below), 1.0),
    )
