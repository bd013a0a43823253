import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import group_advantages
from rubric_core.reward.attribution import decoupled_advantages
from rubric_train_openrlhf.step.rewards import (
    informative_criteria,
    informative_groups,
)

grid = st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0])
groups = st.lists(grid, min_size=4, max_size=4)


def test_a_group_is_informative_by_its_spread_over_valid_members() -> None:
    rewards_PG = np.array(
        [[0.1, 0.1, 0.1], [0.1, 0.2, 0.1], [0.1, 0.2, np.nan], [0.5, np.nan, np.nan]]
    )
    valid_PG = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 0], [1, 0, 0]], dtype=bool)

    assert informative_groups(rewards_PG, valid_PG).tolist() == [
        False,
        False,
        True,
        False,
    ]


def test_a_group_without_a_valid_member_is_not_informative() -> None:
    assert not informative_groups(
        np.full((1, 2), np.nan), np.zeros((1, 2), dtype=bool)
    ).any()


@pytest.mark.parametrize("reward", [0.1, 0.3, 0.7])
def test_rounding_does_not_make_an_equal_group_informative(reward: float) -> None:
    rewards_PG = np.full((1, 32), reward)

    assert not informative_groups(rewards_PG, np.ones((1, 32), dtype=bool)).any()


def test_rewards_that_differ_by_the_order_of_a_sum_are_no_spread() -> None:
    # Criteria of weight .1, .2 and .3 met one after the other, and the other way round.
    rewards_PG = np.array([[0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1], [0.6, 0.6 + 1e-12]])
    assert rewards_PG[0, 0] != rewards_PG[0, 1]

    valid_PG = np.ones((2, 2), dtype=bool)

    assert informative_groups(rewards_PG, valid_PG).tolist() == [False, True]


def test_a_penalty_that_cancels_the_reward_leaves_no_spread() -> None:
    rewards_PG = np.array([[0.1 + 0.2 - 0.3, 0.0]])
    assert rewards_PG[0, 0] > 0

    assert not informative_groups(rewards_PG, np.ones((1, 2), dtype=bool)).any()


@given(st.lists(groups, min_size=1, max_size=4))
def test_informative_groups_are_those_with_an_advantage(
    rewards: list[list[float]],
) -> None:
    rewards_PG = np.array(rewards)
    informative_P = informative_groups(
        rewards_PG, np.ones(rewards_PG.shape, dtype=bool)
    )

    assert (informative_P == (group_advantages(rewards_PG) != 0).any(axis=1)).all()


def test_a_group_of_equal_rewards_is_informative_where_a_criterion_differs() -> None:
    z_PGM = np.array(
        [
            [[0, 1, 1], [1, 0, 0], [0.5, 1, 0]],
            [[1, 0, 0.2], [1, 0, 0.4], [1, 0, 0.6]],
            [[1, 0.3, np.nan], [1, 0.3, np.nan], [0, np.nan, np.nan]],
        ]
    )
    weights_PM = np.array([[0.5, 0.25, 0.25], [0.5, 0.5, 0], [0.5, 0.5, 0]])
    valid_PG = np.array([[True, True, True], [True, True, True], [True, True, False]])
    rewards_PG = np.nansum(z_PGM * weights_PM[:, None], axis=2)

    informative_P = informative_criteria(z_PGM, weights_PM, valid_PG)

    assert informative_P.tolist() == [True, False, False]
    assert not informative_groups(rewards_PG, valid_PG).any()
    advantages_PG = decoupled_advantages(z_PGM, weights_PM, valid_PG=valid_PG)
    assert (informative_P == (advantages_PG != 0).any(axis=1)).all()
