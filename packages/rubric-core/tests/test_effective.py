from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    RewardError,
    RewardShapeError,
    attainable_levels,
    effective_criteria,
    project,
    reward_noise_variance,
)
from rubric_core.effective import shares

if TYPE_CHECKING:
    from collections.abc import Callable

weights = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12)
BAD_WEIGHTS = [
    [],
    [0.0, 0.0],
    [-1.0, 2.0],
    [math.nan, 1.0],
    [math.inf, 1.0],
    [1e308, 1e308],
]


def test_weights_three_one_one_count_as_25_11ths_criteria() -> None:
    assert effective_criteria([3, 1, 1]) == pytest.approx(25 / 11, rel=1e-15)


@pytest.mark.parametrize("m", [1, 2, 7])
def test_equal_weights_count_fully(m: int) -> None:
    assert effective_criteria([0.3] * m) == pytest.approx(m, rel=1e-14)


def test_one_criterion_with_all_the_weight_counts_as_one() -> None:
    assert effective_criteria([0, 5, 0]) == 1.0


@given(weights)
def test_the_effective_number_is_between_one_and_m(all_weights: list[float]) -> None:
    assert (
        1 - 1e-12 <= effective_criteria(all_weights) <= len(all_weights) * (1 + 1e-12)
    )


@given(weights, st.floats(1e-6, 1e6))
def test_the_effective_number_does_not_change_with_the_scale(
    all_weights: list[float], scale: float
) -> None:
    scaled = [scale * w for w in all_weights]

    assert effective_criteria(scaled) == pytest.approx(
        effective_criteria(all_weights), rel=1e-9
    )


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_extreme_scales_neither_overflow_nor_underflow(scale: float) -> None:
    scaled = [3 * scale, scale, scale]

    assert effective_criteria(scaled) == pytest.approx(25 / 11, rel=1e-12)


def test_noise_is_divided_by_the_effective_number() -> None:
    assert reward_noise_variance([3, 1, 1], 0.04) == pytest.approx(
        0.04 * 11 / 25, rel=1e-14
    )


def test_the_predicted_variance_is_the_measured_one() -> None:
    weights_M = np.array([3.0, 1.0, 1.0, 0.5])
    noise_NM = np.random.default_rng(0).normal(0, 0.2, size=(200_000, 4))

    measured = float(np.var(noise_NM @ (weights_M / weights_M.sum())))

    assert measured == pytest.approx(reward_noise_variance(weights_M, 0.04), rel=0.02)


@pytest.mark.parametrize("tau2", [-1.0, math.nan, math.inf, 10**400])
def test_a_variance_is_finite_and_not_negative(tau2: float) -> None:
    with pytest.raises(RewardError, match="tau2"):
        reward_noise_variance([1.0], tau2)


@pytest.mark.parametrize("all_weights", BAD_WEIGHTS)
def test_weights_without_a_positive_finite_total_are_refused(
    all_weights: list[float],
) -> None:
    with pytest.raises(RewardError, match="finite"):
        effective_criteria(all_weights)
    with pytest.raises(RewardError):
        attainable_levels(all_weights, [[0, 1]] * len(all_weights))


def test_shares_keep_the_shape() -> None:
    np.testing.assert_allclose(
        shares([[3, 1], [0, 2]], axes="PM"), [[0.75, 0.25], [0, 1]]
    )
    with pytest.raises(
        RewardShapeError, match=r"weights_M must have shape \[M\], not \(1, 2\)"
    ):
        shares([[1, 1]])


def test_a_binary_verifier_has_two_levels() -> None:
    assert attainable_levels([1], [[0, 1]]) == 2


def test_levels_multiply_where_no_sums_collide() -> None:
    assert attainable_levels([1, 2, 4], [[0, 1]] * 3) == 8


def test_equal_weights_make_sums_collide() -> None:
    assert attainable_levels([1, 1, 1], [[0, 1]] * 3) == 4
    assert attainable_levels([1, 1, 1], [[0, 0.5, 1]] * 3) == 7


def test_decimals_collide_as_decimals() -> None:
    # In binary floating point 0.1 + 0.2 and 0.3 would be two levels.
    assert attainable_levels([1, 1], [[0, 0.1, 0.3], [0, 0.2]]) == 5
    assert 0.1 + 0.2 != 0.3


@pytest.mark.parametrize("weight", [10**400, Fraction(10**400), True])
def test_weights_that_no_float_holds_are_refused(weight: Fraction) -> None:
    with pytest.raises(RewardError, match="weight"):
        attainable_levels([weight], [[0, 1]])


def test_fractions_are_exact() -> None:
    third = Fraction(1, 3)

    assert attainable_levels([1, 1], [[0, third, 2 * third], [0, third]]) == 4


def test_a_criterion_without_weight_adds_no_level() -> None:
    assert attainable_levels([1, 0], [[0, 1], [0, 0.5, 1]]) == 2


grids = st.lists(
    st.lists(st.integers(0, 10), min_size=1, max_size=4), min_size=1, max_size=4
)


@given(grids, st.data())
def test_the_count_is_that_of_all_sums(
    steps: list[list[int]], data: st.DataObject
) -> None:
    whole = data.draw(
        st.lists(st.integers(1, 9), min_size=len(steps), max_size=len(steps))
    )
    sums = {
        sum(w * z for w, z in zip(whole, zs, strict=True)) for zs in product(*steps)
    }

    levels = attainable_levels(whole, [[z / 10 for z in grid] for grid in steps])

    assert levels == len(sums) <= math.prod(len(set(grid)) for grid in steps)


@pytest.mark.parametrize("bad", [[[0, 1]], [[0, 1], []], [[0, 1]] * 3])
def test_each_weight_needs_one_grid(bad: list[list[float]]) -> None:
    with pytest.raises(
        RewardShapeError, match="2 weights need as many non-empty grids"
    ):
        attainable_levels([1, 1], bad)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_grid_values_are_normalised_scores(value: float) -> None:
    with pytest.raises(RewardError, match="grid values"):
        attainable_levels([1], [[0, value]])


@pytest.mark.parametrize("tau2", [None, "0.1", [1.0]])
def test_a_variance_is_a_number(tau2: object) -> None:
    with pytest.raises(RewardError, match="tau2"):
        reward_noise_variance([1.0, 2.0], tau2)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("weights", "grids"),
    [
        (["1"], [[0, 1]]),
        ([None], [[0]]),
        ([1.0], [["1"]]),
        ([1.0], [[None]]),
        ([1.0], ["01"]),
    ],
)
def test_levels_are_counted_of_numbers(weights: object, grids: object) -> None:
    with pytest.raises(RewardError, match="must be real numbers"):
        attainable_levels(weights, grids)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        (
            lambda: shares([1.0] * 2_000 + [-1.0]),
            "weights_M[2000] is -1.0, not ≥ 0 and finite",
        ),
        (lambda: shares([1.0, np.nan]), "weights_M[1] is nan, not ≥ 0 and finite"),
        (
            lambda: shares([0.0] * 2_000),
            "the total of weights_M is 0.0, not positive and finite",
        ),
        (
            lambda: shares([1e308] * 9),
            "the total of weights_M is inf, not positive and finite",
        ),
        (
            lambda: shares([[1.0, 1.0], [0.0, 0.0]], axes="PM"),
            "the total of weights_PM[1] is 0.0, not positive and finite",
        ),
        (
            lambda: project([0.5] * 2_000 + [1.5], [1.0] * 2_001),
            "z_M[2000] is 1.5, not in [0, 1]",
        ),
        (
            lambda: attainable_levels([1.0], [[0.0] * 2_000 + [1.5]]),
            "grid values must be in [0, 1], not 1.5",
        ),
    ],
)
def test_an_error_names_the_value_that_is_wrong_and_no_other(
    refused: Callable[[], object], told: str
) -> None:
    with pytest.raises(RewardError) as caught:
        refused()
    assert str(caught.value) == told
