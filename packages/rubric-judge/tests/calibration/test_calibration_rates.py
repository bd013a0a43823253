"""Rates and their intervals: published numbers, reductions to simpler cases, and properties."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rubric_judge.calibration.rates import (
    Tally,
    clustered_mean,
    clustered_rates,
    labels_needed,
    tally,
    youden,
)

counts = st.integers(0, 60)


def test_newcombes_example() -> None:
    """56/70 against 48/80, method 10: 0.0524 to 0.3339 (Newcombe 1998, table II)."""
    found = youden(tp=56, fn=14, fp=48, tn=32).youden_j

    assert found.value == pytest.approx(0.2)
    assert (round(found.low or 0, 4), round(found.high or 0, 4)) == (0.0524, 0.3339)


@given(counts, counts, counts, counts)
def test_rates_are_shares_in_wilsons_intervals(tp: int, fp: int, fn: int, tn: int) -> None:
    found = youden(tp, fp, fn, tn)

    for rate, right, n in ((found.tpr, tp, tp + fn), (found.fpr, fp, fp + tn)):
        if not n:
            assert rate.value is None
            assert found.youden_j.value is None
            continue
        wilson = cast("Any", stats).binomtest(right, n).proportion_ci(0.95, method="wilson")
        assert rate.value == right / n
        assert (rate.low, rate.high) == pytest.approx((wilson.low, wilson.high), abs=1e-12)
    j = found.youden_j
    if j.value is not None and j.low is not None and j.high is not None:
        assert -1 <= j.low <= j.value <= j.high <= 1


@given(counts, counts, counts, counts)
def test_one_label_a_document_gives_the_same_as_counts(tp: int, fp: int, fn: int, tn: int) -> None:
    met = np.array([1.0] * tp + [0.0] * fn + [1.0] * fp + [0.0] * tn)
    is_met = np.array([1.0] * (tp + fn) + [0.0] * (fp + tn))
    found = clustered_rates(Tally(met * is_met, is_met), Tally(met * (1 - is_met), 1 - is_met))
    expected = youden(tp, fp, fn, tn)

    for one, other in zip(found[:3], expected[:3], strict=True):
        assert (one.value is None) == (other.value is None)
        if one.value is not None:
            assert (one.value, one.low, one.high) == pytest.approx(
                (other.value, other.low, other.high)
            )
    assert found.worth == expected.worth


def test_labels_said_five_times_are_worth_as_many_as_their_documents() -> None:
    decided = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0])
    once = clustered_rates(Tally(decided, np.ones(10)), Tally(1 - decided, np.ones(10)))
    five = clustered_rates(
        Tally(5 * decided, 5 * np.ones(10)), Tally(5 - 5 * decided, 5 * np.ones(10))
    )

    assert once.worth == (10, 10)
    assert five.worth[0] == pytest.approx(9)  # the sample variance takes one degree of freedom
    assert five.tpr.value == once.tpr.value
    assert (five.tpr.low or 0) < (once.tpr.low or 0)


def test_decisions_that_are_all_alike_still_have_an_interval() -> None:
    found = clustered_rates(
        Tally(np.full(6, 4.0), np.full(6, 4.0)), Tally(np.zeros(6), np.full(6, 4.0))
    )

    assert (found.tpr.value, found.fpr.value, found.youden_j.value) == (1.0, 0.0, 1.0)
    assert 0 < (found.youden_j.low or 0) < 0.8
    assert found.worth == (6, 6)  # and no more than there are documents


def test_a_single_document_is_worth_one_label() -> None:
    found = clustered_rates(
        Tally(np.array([30.0]), np.array([40.0])), Tally(np.array([1.0]), np.array([40.0]))
    )

    assert found.worth == (1, 1)
    assert (found.youden_j.low or 0) < 0


def test_rates_that_rise_together_leave_their_difference_sharper() -> None:
    met = np.array([3.0, 0.0, 4.0, 1.0, 4.0, 0.0, 2.0, 4.0, 1.0, 3.0])
    together = clustered_rates(Tally(met, np.full(10, 4.0)), Tally(met, np.full(10, 4.0)))
    apart = clustered_rates(Tally(met, np.full(10, 4.0)), Tally(met[::-1], np.full(10, 4.0)))

    assert (together.youden_j.low, together.youden_j.high) == pytest.approx((0, 0), abs=0.15)
    assert (apart.youden_j.high or 0) > 3 * (together.youden_j.high or 0)


def test_a_mean_has_students_interval() -> None:
    found = clustered_mean(np.array([0.1, 0.3, 0.2]), np.ones(3))

    half = 4.302653 * 0.1 / np.sqrt(3)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.2 - half, 0.2 + half))


def test_what_is_not_there_is_no_number() -> None:
    assert clustered_mean(np.zeros(3), np.zeros(3)).value is None
    alone = clustered_mean(np.array([0.5]), np.array([2.0]))
    assert (alone.value, alone.low) == (0.25, None)
    empty = tally(np.zeros(0), np.zeros(0), [])
    assert clustered_rates(empty, empty).youden_j.value is None


@given(counts, counts, counts, counts, st.floats(0.05, 0.5))
def test_the_plan_is_just_enough(tp: int, fp: int, fn: int, tn: int, half_width: float) -> None:
    n1, n0 = tp + fn, fp + tn
    more1, more0 = labels_needed(youden(tp, fp, fn, tn), (n1, n0), half_width)

    p1, p0 = (tp + 2) / (n1 + 4), (fp + 2) / (n0 + 4)

    def half(a1: int, a0: int) -> float:
        if not n1 + a1 or not n0 + a0:
            return np.inf
        variance = p1 * (1 - p1) / (n1 + a1) + p0 * (1 - p0) / (n0 + a0)
        return float(1.959964 * np.sqrt(variance))

    assert half(more1, more0) <= half_width + 1e-6
    total = more1 + more0
    # Rounding up both classes costs at most one label more than the least total.
    fewer = [half(a, total - 2 - a) for a in range(max(total - 1, 0))]
    assert min(fewer, default=np.inf) > half_width


def test_a_plan_without_any_label() -> None:
    assert labels_needed(youden(0, 0, 0, 0), (0, 0), 0.35) == (16, 16)
    assert labels_needed(youden(40, 0, 10, 0), (50, 0), 0.35)[0] == 0
