from __future__ import annotations

import math
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_judge.errors import SampleShapeError
from rubric_judge.statistics.drift import DriftTest

STAKES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 0.95)
unit = st.floats(-1.0, 1.0)
values = st.lists(unit, min_size=1, max_size=6)


def evidence(
    start: list[float], *looks: list[float], tolerance: float = 0.1
) -> DriftTest:
    test = DriftTest(tolerance=tolerance)
    test.add_start(start)
    for look in looks:
        test.add_look(look)
    return test


def by_hand(start: list[float], looks: list[list[float]], tolerance: float) -> float:
    """Compute log E_t as the docstring has it, over the ends of the cells."""
    ends = np.linspace(-1.0, 1.0, 401)
    least = math.inf
    for lower, upper in pairwise(ends.tolist()):
        below = np.mean(
            [
                math.prod(1 - f + f * (1 - x) / (1 - lower) for x in start)
                for f in STAKES
            ]
        )
        limit = min(upper + tolerance, 1.0)
        shares = [0.5 / (s * (s + 1)) + 0.5 / 1000 for s in range(1, len(looks) + 1)]
        above = 1 - sum(shares)
        for first, share in enumerate(shares):
            after = [x for look in looks[first:] for x in look]
            products = [
                math.prod(1 - f + f * (x + 1) / (limit + 1) for x in after)
                for f in STAKES
            ]
            above += share * np.mean(products)
        least = min(least, below * above)
    return math.log(least)


def test_evidence_of_a_worked_example() -> None:
    looks = [[0.1], [0.4, 0.5], [0.3]]

    found = evidence([0.0, 0.1, -0.2], *looks).log_evidence

    assert found == pytest.approx(by_hand([0.0, 0.1, -0.2], looks, 0.1), abs=1e-9)


def test_there_is_no_evidence_before_the_first_look() -> None:
    assert DriftTest(tolerance=0.0).log_evidence == 0.0
    assert evidence([0.3, 0.5]).log_evidence <= 0.0


@given(
    low=st.floats(0.0, 0.9), shift=st.floats(0.0, 1.0), tolerance=st.floats(0.0, 0.3)
)
@settings(max_examples=60, deadline=None)
def test_evidence_has_no_expected_gain_where_nothing_rises_beyond_the_tolerance(
    low: float, shift: float, tolerance: float
) -> None:
    """Two values at the start and one at each of three looks, each −1 or 1, enumerated."""
    start_share = low
    later_share = min(low + shift * tolerance / 2, 1.0)  # a mean of 2p − 1
    expected = 0.0
    for outcome in product((-1.0, 1.0), repeat=5):
        shares = [start_share] * 2 + [later_share] * 3
        chance = math.prod(
            share if value > 0 else 1 - share
            for share, value in zip(shares, outcome, strict=True)
        )
        test = evidence(
            list(outcome[:2]), *([x] for x in outcome[2:]), tolerance=tolerance
        )
        expected += chance * math.exp(test.log_evidence)

    assert expected <= 1 + 1e-9


@given(population=st.lists(unit, min_size=4, max_size=4))
@settings(max_examples=40, deadline=None)
def test_values_of_a_look_may_be_drawn_without_replacement(
    population: list[float],
) -> None:
    """Three of four answers, in the mean of all orders, against their own mean."""
    start = [float(np.mean(population))] * 4
    draws = list(permutations(population, 3))

    expected = np.mean(
        [
            math.exp(evidence(start, list(draw), tolerance=0.0).log_evidence)
            for draw in draws
        ]
    )

    assert expected <= 1 + 1e-9


@given(start=values, look=values, more=st.floats(0.01, 1.0))
@settings(deadline=None)
def test_higher_values_later_are_never_less_evidence(
    start: list[float], look: list[float], more: float
) -> None:
    raised = [*look[:-1], min(look[-1] + more, 1.0)]

    assert (
        evidence(start, raised).log_evidence
        >= evidence(start, look).log_evidence - 1e-12
    )


def test_false_alarms_of_runs_that_stay_at_the_tolerance_are_at_most_alpha() -> None:
    """400 runs that are looked at after every step and stop at the first alarm."""
    draw = np.random.default_rng(7)
    alarms = 0
    for _ in range(400):
        test = DriftTest(tolerance=0.05)
        test.add_start(draw.choice([-0.4, 0.4], size=40))
        for _ in range(30):
            test.add_look(draw.choice([-0.4, 0.4], size=4, p=[0.4375, 0.5625]))
            if test.log_evidence >= math.log(5):  # α = .2
                alarms += 1
                break

    assert alarms / 400 <= 0.2 + 3 * math.sqrt(0.2 * 0.8 / 400)


def test_a_late_rise_is_found_though_all_before_was_quiet() -> None:
    draw = np.random.default_rng(3)
    test = DriftTest(tolerance=0.05)
    test.add_start(draw.normal(0.1, 0.15, size=64).clip(-1, 1))
    for _ in range(300):
        test.add_look(draw.normal(0.1, 0.15, size=16).clip(-1, 1))
    assert test.log_evidence < 0
    assert test.drift_low(0.05) is None

    looks = 0
    while test.log_evidence < math.log(20):
        test.add_look(draw.normal(0.4, 0.15, size=16).clip(-1, 1))
        looks += 1

    assert looks < 10
    assert test.onset() in range(298, 303)
    rise = test.drift_low(0.05)
    assert rise is not None
    assert 0.05 <= rise <= 0.3


def test_the_rise_that_is_sure_is_the_largest_tolerance_that_is_rejected() -> None:
    start, look = [0.0] * 60, [0.5] * 60
    rise = evidence(start, look).drift_low(0.05)

    assert rise is not None
    wanted = math.log(20)
    assert evidence(start, look, tolerance=rise).log_evidence >= wanted
    assert evidence(start, look, tolerance=rise + 0.005).log_evidence < wanted


def test_a_tolerance_is_rounded_up() -> None:
    looks = [[0.5] * 9]
    assert (
        evidence([0.0] * 9, *looks, tolerance=0.0501).log_evidence
        == evidence([0.0] * 9, *looks, tolerance=0.055).log_evidence
    )


def test_bounds_of_ones_own_make_more_of_the_same_values() -> None:
    """A gap that cannot be negative is told from a gap of nearly 0 by few values."""
    found: list[float] = []
    for low, high in ((-1.0, 1.0), (0.0, 0.5)):
        test = DriftTest(tolerance=0.05, low=low, high=high)
        test.add_start([0.01] * 20)
        test.add_look([0.2] * 5)
        found.append(test.log_evidence)
    assert found[1] > found[0] + 1


def test_a_look_without_a_value_is_none() -> None:
    assert (
        evidence([0.1] * 9, [0.4], [], [0.5]).log_evidence
        == evidence([0.1] * 9, [0.4], [0.5]).log_evidence
    )
    assert evidence([], []).onset() is None
    assert evidence([]).start_mean is None


def test_extreme_values_are_evidence_and_not_an_error() -> None:
    assert evidence([-1.0] * 20, [1.0] * 20).log_evidence > 10
    assert math.isfinite(evidence([1.0] * 20, [-1.0] * 20).log_evidence)
    assert evidence([-1.0] * 3, [1.0] * 3, tolerance=0.0).onset() == 0


@pytest.mark.parametrize("wrong", [1.01, -1.2, math.nan, math.inf])
def test_a_value_out_of_the_bounds_is_refused(wrong: float) -> None:
    test = DriftTest(tolerance=0.1)
    with pytest.raises(SampleShapeError, match=r"in \[-1.0, 1.0\], got .* 1 out of"):
        test.add_start([0.0, wrong])
    with pytest.raises(SampleShapeError, match="1 out of the bounds"):
        test.add_look([wrong])


def test_the_start_is_over_with_the_first_look() -> None:
    test = evidence([0.1], [0.2])
    with pytest.raises(SampleShapeError, match="before all later looks"):
        test.add_start([0.1])


def test_bounds_and_tolerance_must_fit_together() -> None:
    with pytest.raises(ValueError, match=r"low=1.0 and high=0.0"):
        DriftTest(tolerance=0.1, low=1.0, high=0.0)
    with pytest.raises(ValueError, match=r"tolerance=-0.1"):
        DriftTest(tolerance=-0.1)
