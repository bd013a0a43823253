"""Credit by turn, against loops that follow the definition criterion by criterion."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rubric_core import (
    Criterion,
    JudgeResult,
    Reason,
    RewardError,
    RewardShapeError,
    Rubric,
    UnavailableRewardError,
    criterion_attribution,
    group_advantages,
    normalized_reward,
    project,
)
from rubric_core.reward.turns import (
    named_turns,
    rewards_at_ends,
    token_advantages,
    turn_advantages,
    turn_rewards,
)

grid = st.integers(0, 20).map(lambda k: k / 20)


@st.composite
def judged(draw: st.DrawFn) -> tuple[np.ndarray, ...]:
    """z_PGM, weights_PM, the turn that each criterion names, and how many there are."""
    p, g, m = draw(st.tuples(st.integers(1, 3), st.integers(2, 5), st.integers(1, 6)))
    z_PGM = draw(hnp.arrays(np.float64, (p, g, m), elements=grid))
    weights_PM = draw(hnp.arrays(np.float64, (p, m), elements=st.integers(1, 5)))
    turns_PM = draw(hnp.arrays(np.int64, (p, m), elements=st.integers(0, 4)))
    counts_PG = draw(hnp.arrays(np.int64, (p, g), elements=st.integers(1, 4)))
    return z_PGM, weights_PM, turns_PM, counts_PG


def _advantages(z_PGM: np.ndarray, weights_PM: np.ndarray) -> np.ndarray:
    rewards = [
        [project(z_M, w_M) for z_M in z_GM]
        for z_GM, w_M in zip(z_PGM, weights_PM, strict=True)
    ]
    return group_advantages(rewards)


@given(judged())
def test_each_criterion_counts_for_the_turn_that_it_names(
    case: tuple[np.ndarray, ...],
) -> None:
    z_PGM, weights_PM, turns_PM, counts_PG = case
    parts = criterion_attribution(z_PGM, weights_PM)

    credit = turn_advantages(_advantages(z_PGM, weights_PM), parts, turns_PM, counts_PG)

    for p, g in np.ndindex(counts_PG.shape):
        turns = int(counts_PG[p, g])
        for k in range(credit.shape[2]):
            named = [
                float(parts[p, g, j])
                for j, turn in enumerate(turns_PM[p])
                if turn in (0, k) or turn > turns
            ]
            expected = math.fsum(named) if k <= turns else 0.0
            assert credit[p, g, k] == pytest.approx(expected, abs=1e-9)


@given(judged())
def test_where_no_turn_is_named_each_has_the_advantage_exactly(
    case: tuple[np.ndarray, ...],
) -> None:
    z_PGM, weights_PM, turns_PM, counts_PG = case
    advantages = _advantages(z_PGM, weights_PM)
    parts = criterion_attribution(z_PGM, weights_PM)

    credit = turn_advantages(advantages, parts, np.zeros_like(turns_PM), counts_PG)
    alone = turn_advantages(advantages, parts, turns_PM, np.ones_like(counts_PG))

    for p, g in np.ndindex(counts_PG.shape):
        turns = int(counts_PG[p, g])
        assert set(credit[p, g, : turns + 1]) == {advantages[p, g]}
    # A trajectory of one turn has the advantage of a response, whatever the criteria name.
    assert np.array_equal(alone[:, :, 1], advantages)


def test_worked_credit_of_two_turns() -> None:
    # One criterion of each turn and one of the whole; the first response is better in turn 2.
    parts = [[[0.0, 2.0, 1.0], [0.0, -2.0, -1.0]]]

    credit = turn_advantages([[3.0, -3.0]], parts, [[1, 2, 0]], [[2, 2]])

    assert credit.tolist() == [[[1.0, 1.0, 3.0], [-1.0, -1.0, -3.0]]]


def test_a_turn_that_was_not_taken_is_the_credit_of_all_turns() -> None:
    parts = [[[2.0], [-2.0]]]

    credit = turn_advantages([[2.0, -2.0]], parts, [[2]], [[2, 1]])

    assert credit.tolist() == [[[0.0, 0.0, 2.0], [-2.0, -2.0, 0.0]]]


@given(
    st.lists(st.floats(-5, 5), min_size=1, max_size=5),
    st.lists(st.integers(-1, 4), max_size=30),
)
def test_a_token_has_the_advantage_of_its_turn(
    credit: list[float], turns: list[int]
) -> None:
    turns = [turn for turn in turns if turn < len(credit)]

    tokens = token_advantages(credit, np.array(turns, dtype=np.int64))

    assert tokens.tolist() == [credit[turn] if turn >= 0 else 0.0 for turn in turns]


def test_shapes_and_turns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RewardShapeError, match="turns_PM"):
        turn_advantages([[1.0, 1.0]], [[[1.0], [1.0]]], [[1, 2]], [[1, 1]])
    with pytest.raises(RewardError, match="turns_PM must hold integers from 0 up"):
        turn_advantages([[1.0, 1.0]], [[[1.0], [1.0]]], [[0.5]], [[1, 1]])
    with pytest.raises(RewardError, match="turns -1 to 3, and credit_K is of 1"):
        token_advantages([0.0, 1.0], [3, -1])
    with pytest.raises(RewardShapeError, match="turn_T must be integers"):
        token_advantages([0.0, 1.0], [0.5])


RUBRIC = Rubric(
    criteria=(
        Criterion(id="first", weight=2, judges="turn_1"),
        Criterion(id="second", weight=1, judges="turn_2"),
        Criterion(id="whole", weight=1),
    )
)


def test_rewards_by_turn_add_up_to_the_reward() -> None:
    scores = {"first": 2.0, "second": 0.5, "whole": 1.0}
    result = JudgeResult.scored(RUBRIC, scores, judge="j")

    assert named_turns(RUBRIC) == (1, 2, 0)
    assert turn_rewards(result, RUBRIC, 3) == [0.5, 0.125, 0.25]
    assert turn_rewards(result, RUBRIC, 2) == [0.5, 0.375]
    assert turn_rewards(result, RUBRIC, 1) == [normalized_reward(result, RUBRIC)]
    with pytest.raises(RewardError, match="turns must be 1 or more"):
        turn_rewards(result, RUBRIC, 0)
    late = JudgeResult.unavailable(Reason.TIMEOUT)
    with pytest.raises(UnavailableRewardError):
        turn_rewards(late, RUBRIC, 2)


def test_an_invalid_judgement_is_0_in_each_turn() -> None:
    result = JudgeResult.invalid(Reason.NOT_JSON)

    assert turn_rewards(result, RUBRIC, 2) == [0.0, 0.0]


@given(st.lists(st.booleans(), max_size=40))
def test_the_reward_of_a_turn_stands_at_its_last_token(mask: list[bool]) -> None:
    runs = "".join("1" if own else "0" for own in mask).split("0")
    lengths = [len(run) for run in runs if run]
    rewards = [float(n + 1) for n in range(len(lengths))]

    tokens = rewards_at_ends(rewards, [int(own) for own in mask])

    assert [reward for reward in tokens if reward] == rewards
    seen = 0
    for place, own in enumerate(mask):
        seen += own
        if tokens[place]:
            assert own
            assert seen == sum(lengths[: int(tokens[place])])


def test_another_number_of_turns_than_of_rewards_is_refused() -> None:
    with pytest.raises(
        RewardError, match="2 runs of the policy's tokens, and there are 1"
    ):
        rewards_at_ends([1.0], [1, 0, 1])
