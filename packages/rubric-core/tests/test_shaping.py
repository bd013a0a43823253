import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    RewardError,
    RewardShapeError,
    length_penalty,
    truncation_penalty,
)


def test_worked_length_penalties() -> None:
    # The limits of the DAPO paper: 16384 tokens and a buffer of 4096 before 20480.
    lengths = [0, 16384, 17408, 18432, 20480, 25000]

    np.testing.assert_array_equal(
        length_penalty(lengths, max_length=20480, buffer=4096),
        [0, 0, -0.25, -0.5, -1, -1],
    )


def test_a_buffer_of_the_whole_limit_penalises_every_token() -> None:
    np.testing.assert_array_equal(
        length_penalty([[0, 5], [10, 20]], max_length=10, buffer=10),
        [[0, -0.5], [-1, -1]],
    )


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_longer_response_is_never_penalised_less(a: int, b: int) -> None:
    shorter, longer = length_penalty(sorted((a, b)), max_length=4096, buffer=512)

    assert -1 <= longer <= shorter <= 0


@pytest.mark.parametrize(
    ("max_length", "buffer"), [(10, 0), (10, 11), (10, -1), (0, 0)]
)
def test_the_buffer_lies_within_the_limit(max_length: int, buffer: int) -> None:
    with pytest.raises(RewardError, match="buffer"):
        length_penalty([1], max_length=max_length, buffer=buffer)


@pytest.mark.parametrize("length", [-1, math.nan])
def test_a_length_is_not_negative(length: float) -> None:
    with pytest.raises(RewardError, match="lengths"):
        length_penalty([length], max_length=10, buffer=5)


def test_a_truncated_response_keeps_a_share_of_its_reward() -> None:
    shaped = truncation_penalty(
        [[0.8, 0.8, 0.0]], [[True, False, False]], alpha_stop=0.25
    )

    np.testing.assert_array_equal(shaped, [[0.8, 0.2, 0.0]])


def test_a_masked_reward_stays_masked() -> None:
    shaped = truncation_penalty([0.5, np.nan], [False, False], alpha_stop=0.0)

    np.testing.assert_array_equal(shaped, [0.0, np.nan])


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans())),
    st.floats(0, 1, exclude_max=True),
)
def test_truncation_never_raises_a_reward(
    pairs: list[tuple[float, bool]], alpha: float
) -> None:
    rewards = [reward for reward, _ in pairs]
    shaped = truncation_penalty(
        rewards, [ended for _, ended in pairs], alpha_stop=alpha
    )

    assert ((shaped >= 0) & (shaped <= rewards)).all()


@pytest.mark.parametrize("alpha_stop", [-0.1, 1.0, math.nan])
def test_the_share_is_below_one(alpha_stop: float) -> None:
    with pytest.raises(RewardError, match="alpha_stop"):
        truncation_penalty([1.0], [True], alpha_stop=alpha_stop)


def test_a_negative_reward_cannot_be_shared() -> None:
    with pytest.raises(RewardError, match=r"smallest is -0\.5"):
        truncation_penalty([1.0, -0.5], [True, True], alpha_stop=0.5)


def test_each_reward_needs_its_ending() -> None:
    with pytest.raises(RewardShapeError, match=r"\(2,\), ended has \(1,\)"):
        truncation_penalty([1.0, 0.5], [True], alpha_stop=0.5)


@pytest.mark.parametrize(
    "lengths",
    [None, "ten", ["1"], [[1], [1, 2]], [math.nan], [10**400], [1j], [True]],
)
def test_lengths_are_numbers(lengths: object) -> None:
    with pytest.raises(RewardError, match="lengths must"):
        length_penalty(lengths, max_length=8, buffer=2)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("max_length", "buffer"),
    [
        (None, 2),
        (8, "2"),
        (math.inf, 2),
        (10**400, 2),
        (8, np.array([1, 2])),
        (8, Decimal("sNaN")),
    ],
)
def test_limits_are_numbers(max_length: object, buffer: object) -> None:
    with pytest.raises(RewardError, match="must be finite"):
        length_penalty([1], max_length=max_length, buffer=buffer)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("reward", [math.inf, None, "1", True, 10**400])
def test_a_reward_that_is_no_finite_number_is_not_shared(reward: object) -> None:
    with pytest.raises(RewardError, match="rewards"):
        truncation_penalty([reward], [False], alpha_stop=0.0)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "ended", [["False"], [math.nan], [0.0], [None], [[True], [True, False]]]
)
def test_endings_are_booleans(ended: object) -> None:
    with pytest.raises(RewardError, match="ended"):
        truncation_penalty([1.0], ended, alpha_stop=0.5)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("wrong", [float("inf"), float("nan"), -1.0])
def test_a_length_that_is_no_number_of_tokens_is_refused(wrong: float) -> None:
    with pytest.raises(RewardError, match=f"from 0 up, one is {wrong}"):
        length_penalty([1.0, wrong], max_length=10, buffer=2)
