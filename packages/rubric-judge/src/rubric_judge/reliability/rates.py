"""How often a judge is right where a reference says met, and where it says not met."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np
from scipy import stats

from rubric_core.arrays import BoolArray, FloatArray
from rubric_judge.reliability.ratings import IntArray, Statistic, ratio

_HALF: Final = 5
"""In tenths: a judge says met from half of the weight up."""
_FULL: Final = 10


class Confusion(NamedTuple):
    """Verdicts on criteria against the reference's, counted by response."""

    tp_N: FloatArray
    """Met, says either."""
    fp_N: FloatArray
    """Met, says the judge only."""
    fn_N: FloatArray
    """Met, says the reference only."""
    tn_N: FloatArray

    @property
    def tpr(self) -> Statistic:
        """TP / (TP + FN); nan where the reference says met nowhere."""
        return ratio(self.tp_N, self.tp_N + self.fn_N)

    @property
    def tnr(self) -> Statistic:
        """TN / (TN + FP); nan where the reference says not met nowhere."""
        return ratio(self.tn_N, self.tn_N + self.fp_N)

    @property
    def youden_j(self) -> Statistic:
        """J of the drawn rows."""
        return lambda rows: youden(*(float(one[rows].sum()) for one in self))

    def total(self) -> tuple[int, int, int, int]:
        """Return TP, FP, FN and TN over all responses."""
        tp, fp, fn, tn = (round(float(one.sum())) for one in self)
        return tp, fp, fn, tn


def confusions(
    tenths_JNM: IntArray, reference: int, cells: Mapping[str, tuple[Sequence[int], Sequence[int]]]
) -> Iterator[tuple[int, str | None, Confusion]]:
    """Hold every other judge against the reference, on criteria that it finds met or not met.

    These are the criteria that it gives nothing or their whole weight in every response.

    Args:
        tenths_JNM: criterion scores z in tenths, −1 where missing.
        reference: its j.
        cells: for each criterion, the (n, m) that it stands at.

    Returns:
        j, the criterion's id or None for all of them pooled, and the counts.
    """
    labels_NM: dict[str | None, IntArray] = {None: np.full_like(tenths_JNM[reference], -1)}
    for name, (n, m) in cells.items():
        label_C = tenths_JNM[reference, n, m]
        if np.isin(label_C, (-1, 0, _FULL)).all():
            labels_NM[name] = np.full_like(labels_NM[None], -1)
            labels_NM[name][n, m] = labels_NM[None][n, m] = label_C
    for j, judge_NM in enumerate(tenths_JNM):
        if j != reference:
            for name, label_NM in labels_NM.items():
                yield j, name, confusion(label_NM, judge_NM)


def confusion(reference_NM: IntArray, judge_NM: IntArray) -> Confusion:
    """Count a judge's verdicts against a reference's.

    Args:
        reference_NM: scores in tenths, −1 where missing; 5 and above say met.
        judge_NM: likewise; what either has not scored is not counted.

    Returns:
        Counts by response, shape [N] each.
    """
    both_NM = (reference_NM >= 0) & (judge_NM >= 0)
    label_NM, said_NM = reference_NM >= _HALF, judge_NM >= _HALF

    def count(hits_NM: BoolArray) -> FloatArray:
        return (both_NM & hits_NM).sum(axis=1).astype(np.float64)

    return Confusion(
        tp_N=count(label_NM & said_NM),
        fp_N=count(~label_NM & said_NM),
        fn_N=count(label_NM & ~said_NM),
        tn_N=count(~label_NM & ~said_NM),
    )


def youden(tp: float, fp: float, fn: float, tn: float) -> float:
    """Return how much more often a judge says met where that is right than where it is wrong.

        J = TPR − FPR = TP / (TP + FN) − FP / (FP + TN)

    Args:
        tp: met, says either.
        fp: met, says the judge only.
        fn: met, says the reference only.
        tn: not met, says either.

    Returns:
        1 for a judge that is always right, 0 for one that does not look; nan where one class is
        missing. 8 of 10 and 3 of 10: 0.5.

    Source: Youden, Index for rating diagnostic tests, Cancer 3 (1950).
    """
    if not tp + fn or not fp + tn:
        return math.nan
    return tp / (tp + fn) - fp / (fp + tn)


def wilson(hits: int, of: int, confidence: float) -> tuple[float, float]:
    """Return Wilson's score interval of a share of independent trials.

    What the bootstrap cannot give where every trial ended alike: 10 of 10 are 0.72 to 1.

    Source: Wilson, Probable inference, the law of succession, and statistical inference, JASA 22
        (1927).
    """
    low, high = cast("Any", stats).binomtest(hits, of).proportion_ci(confidence, method="wilson")
    return float(low), float(high)


def newcombe(tp: int, fp: int, fn: int, tn: int, confidence: float) -> tuple[float, float]:
    """Return the score interval of J, the difference of two independent shares.

        J − √((p₁ − l₁)² + (u₂ − p₂)²)  to  J + √((u₁ − p₁)² + (p₂ − l₂)²)

    with p₁ = TPR, p₂ = FPR and Wilson's intervals (l, u) of both.

    Source: Newcombe, Interval estimation for the difference between independent proportions,
        Statistics in Medicine 17 (1998), method 10.
    """
    p1, p2 = tp / (tp + fn), fp / (fp + tn)
    (l1, u1), (l2, u2) = wilson(tp, tp + fn, confidence), wilson(fp, fp + tn, confidence)
    return p1 - p2 - math.hypot(p1 - l1, u2 - p2), p1 - p2 + math.hypot(u1 - p1, p2 - l2)
