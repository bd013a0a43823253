import math
from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import ArrayLike

from rubric_core import (
    RewardError,
    RewardShapeError,
    criterion_attribution,
    decoupled_advantages,
    group_advantages,
    project,
)
from rubric_core.reward.advantage import Std

STDS: tuple[Std, ...] = get_args(Std)
grid = st.integers(0, 20).map(lambda k: k / 20)


@st.composite
def judged(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores z_PGM on a grid, weights_PM of whole numbers with some zeros, and a mask."""
    p, g, m = draw(st.tuples(st.integers(1, 3), st.integers(2, 6), st.integers(1, 5)))
    z_PGM = draw(hnp.arrays(np.float64, (p, g, m), elements=grid))
    weights_PM = draw(hnp.arrays(np.int64, (p, m), elements=st.integers(0, 5)))
    weights_PM[:, 0] += 1
    return z_PGM, weights_PM.astype(np.float64), draw(hnp.arrays(np.bool_, (p, g)))


def projected(z_PGM: np.ndarray, weights_PM: np.ndarray) -> np.ndarray:
    return np.array(
        [
            [project(z_M, w_M) for z_M in z_GM]
            for z_GM, w_M in zip(z_PGM, weights_PM, strict=True)
        ]
    )


def test_worked_attribution_of_two_criteria() -> None:
    # Weights 3 and 1; the first response has all of the first criterion, the second of the second.
    z_PGM = [[[1.0, 0.0], [0.0, 1.0]]]

    contributions_PGM = criterion_attribution(z_PGM, [[3, 1]], std="none")

    np.testing.assert_allclose(contributions_PGM, [[[0.75, -0.25], [-0.75, 0.25]]])
    np.testing.assert_allclose(contributions_PGM.sum(axis=2), [[0.5, -0.5]])


@pytest.mark.parametrize("std", STDS)
@given(batch=judged())
def test_contributions_sum_to_the_advantage(
    std: Std, batch: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> None:
    z_PGM, weights_PM, valid_PG = batch
    contributions_PGM = criterion_attribution(
        z_PGM, weights_PM, std=std, valid_PG=valid_PG
    )
    rewards_PG = projected(z_PGM, weights_PM)

    # A group whose rewards agree but for rounding has advantages of at most 1e-7, attributed to
    # nothing.
    np.testing.assert_allclose(
        contributions_PGM.sum(axis=2),
        group_advantages(rewards_PG, std=std, valid_PG=valid_PG),
        rtol=1e-7,
        atol=2e-7,
    )


@given(judged())
def test_a_criterion_on_which_all_agree_drives_nothing(
    batch: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    z_PGM, weights_PM, _ = batch
    z_PGM[:, :, 0] = 0.5

    contributions_PGM = criterion_attribution(z_PGM, weights_PM, std="none")

    np.testing.assert_allclose(contributions_PGM[:, :, 0], 0.0, atol=1e-15)


@given(judged())
def test_one_criterion_reduces_to_the_advantage(
    batch: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    z_PGM = batch[0][:, :, :1]
    weights_PM = np.full((len(z_PGM), 1), 7.0)

    np.testing.assert_allclose(
        criterion_attribution(z_PGM, weights_PM)[:, :, 0],
        group_advantages(z_PGM[:, :, 0]),
        rtol=1e-9,
        atol=1e-12,
    )


def test_masked_responses_and_criteria_without_weight_get_nothing() -> None:
    z_PGM = [[[1.0, np.nan], [0.0, np.nan], [np.nan, 7.0]]]

    contributions_PGM = criterion_attribution(
        z_PGM, [[2, 0]], valid_PG=[[True, True, False]]
    )

    assert not contributions_PGM[0, 2].any()
    assert not contributions_PGM[0, :, 1].any()
    np.testing.assert_allclose(
        contributions_PGM[0, :2, 0], [math.sqrt(2), -math.sqrt(2)]
    )


def test_criteria_that_cancel_each_other_are_not_blown_up() -> None:
    # 7/14 and 2/14 + 3/14 + 2/14 differ by a rounding; dividing by δ would attribute 5·10⁷.
    alpha_M = np.array([7.0, 2.0, 3.0, 2.0]) / 14
    z_GM = np.array([[1.0, 0, 0, 0], [0, 1.0, 1.0, 1.0]])
    assert len({float(reward) for reward in (alpha_M * z_GM).sum(axis=1)}) == 2

    assert not criterion_attribution([z_GM], [[7, 2, 3, 2]]).any()


def test_scores_that_differ_by_a_rounding_are_equal_when_decoupled() -> None:
    advantages_PG = decoupled_advantages(
        [[[0.3, 1.0], [0.1 + 0.2, 0.0]]], [[9, 1]], delta=0.0
    )

    np.testing.assert_allclose(advantages_PG, [[math.sqrt(0.5), -math.sqrt(0.5)]])


@pytest.mark.parametrize("std", STDS)
def test_equal_rewards_attribute_nothing(std: Std) -> None:
    assert not criterion_attribution(
        [[[1.0, 0.0], [0.0, 1.0]]], [[1, 1]], std=std
    ).any()


def test_decoupling_counts_a_narrow_criterion_as_much_as_a_wide_one() -> None:
    # The second criterion spreads a tenth as far, so the joint form is nearly the first alone.
    z_PGM = np.array([[[1.0, 0.5], [1.0, 0.6], [0.0, 0.5], [0.0, 0.6]]])
    joint_PG = group_advantages(projected(z_PGM, np.array([[1.0, 1.0]])))
    decoupled_PG = decoupled_advantages(z_PGM, [[1, 1]], delta=0.0)

    assert joint_PG[0, 0] == pytest.approx(joint_PG[0, 1], rel=0.25)
    np.testing.assert_allclose(decoupled_PG[0, [0, 3]], 0.0, atol=1e-12)
    np.testing.assert_allclose(decoupled_PG[0, 1], -decoupled_PG[0, 2])


def test_worked_decoupled_advantages() -> None:
    # Per criterion ±1/√2, weighted 3/4 and 1/4: ±(3 ± 1)/(4√2); the batch's std divides it.
    z_PGM = [[[1.0, 1.0], [0.0, 0.0]], [[0.5, 0.0], [0.0, 0.5]]]

    advantages_PG = decoupled_advantages(z_PGM, [[3, 1], [3, 1]], delta=0.0)

    raw = np.array([[1.0, -1.0], [0.5, -0.5]]) / math.sqrt(2)
    np.testing.assert_allclose(advantages_PG, raw / raw.std(ddof=1), rtol=1e-12)


@given(judged())
def test_decoupled_advantages_are_white_and_sum_to_zero(
    batch: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    z_PGM, weights_PM, valid_PG = batch
    advantages_PG = decoupled_advantages(z_PGM, weights_PM, valid_PG=valid_PG)

    assert not advantages_PG[~valid_PG].any()
    np.testing.assert_allclose(advantages_PG.sum(axis=1), 0, atol=1e-6)
    if np.abs(advantages_PG).max() > 1e-6:
        assert advantages_PG[valid_PG].std(ddof=1) == pytest.approx(1.0, abs=1e-4)


def test_criteria_that_cancel_after_normalising_leave_nothing_to_whiten() -> None:
    advantages_PG = decoupled_advantages([[[0.1, 0.0], [0.0, 0.05]]], [[1, 1]])

    np.testing.assert_allclose(advantages_PG, 0, atol=1e-6)


@given(judged())
def test_one_criterion_and_one_group_reduce_decoupling_to_whitened_grpo(
    batch: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    z_PGM = batch[0][:1, :, :1]
    g = z_PGM.shape[1]

    np.testing.assert_allclose(
        decoupled_advantages(z_PGM, [[2.0]], delta=0.0),
        (g - 1) / g * group_advantages(z_PGM[:, :, 0], delta=0.0),
        rtol=1e-9,
        atol=1e-12,
    )


def test_decoupling_removes_masked_responses() -> None:
    z_PGM = np.array([[[1.0, 0.2], [0.0, 0.4], [np.nan, 9.0], [0.5, 0.6]]])
    valid_PG = [[True, True, False, True]]

    masked_PG = decoupled_advantages(z_PGM, [[2, 1]], valid_PG=valid_PG)

    np.testing.assert_allclose(
        masked_PG[:, [0, 1, 3]],
        decoupled_advantages(z_PGM[:, [0, 1, 3]], [[2, 1]]),
        rtol=1e-12,
    )


@pytest.mark.parametrize("score", [0.1, 0.3, 0.7])
def test_decoupling_finds_no_signal_in_equal_scores(score: float) -> None:
    assert not decoupled_advantages(np.full((2, 32, 3), score), [[3, 1, 1]] * 2).any()


@pytest.mark.parametrize("function", [criterion_attribution, decoupled_advantages])
@pytest.mark.parametrize(
    ("z", "weights", "error", "problem"),
    [
        ([[0.1, 0.2]], [[1]], RewardShapeError, r"z_PGM must have shape \[P, G, M\]"),
        (
            [[[0.1], [0.2]]],
            [1],
            RewardShapeError,
            r"weights_PM must have shape \[P, M\]",
        ),
        ([[[0.1], [0.2]]], [[1, 1]], RewardShapeError, "weights_PM has"),
        ([[[0.1], [0.2]]], [[1], [1]], RewardShapeError, "weights_PM has"),
        ([[[0.1]]], [[1]], RewardShapeError, "at least two responses"),
        (
            [[[0.1], [np.inf]]],
            [[1]],
            RewardError,
            r"z_PGM\[0, 1, 0\] is inf, not finite",
        ),
        ([[[0.1], [np.nan]]], [[1]], RewardError, r"z_PGM\[0, 1, 0\] is nan"),
        ([[[0.1], [0.2]]], [[0]], RewardError, "positive and finite"),
    ],
)
def test_what_does_not_fit_is_refused(
    function: Callable[..., object],
    z: ArrayLike,
    weights: ArrayLike,
    error: type[RewardError],
    problem: str,
) -> None:
    with pytest.raises(error, match=problem):
        function(z, weights)


@pytest.mark.parametrize("function", [criterion_attribution, decoupled_advantages])
@pytest.mark.parametrize("delta", [-1.0, math.nan, math.inf])
def test_delta_is_finite_and_not_negative(
    function: Callable[..., object], delta: float
) -> None:
    with pytest.raises(RewardError, match="delta"):
        function([[[0.1], [0.2]]], [[1]], delta=delta)
