import math
from random import Random
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
    group_advantages,
    leave_one_out_baseline,
)
from rubric_core.reward.advantage import Std

STDS: tuple[Std, ...] = get_args(Std)
SUMMING = [std for std in STDS if std != "leave_one_out"]

# Rewards of real rubrics lie on a grid; a spread below it is rounding, tested on its own.
grid = st.integers(0, 1000).map(lambda k: k / 1000)
shapes = st.tuples(st.integers(1, 4), st.integers(2, 9))
batches = shapes.flatmap(lambda shape: hnp.arrays(np.float64, shape, elements=grid))
stds = st.sampled_from(STDS)


@st.composite
def masked_batches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rewards_PG = draw(batches)
    return rewards_PG, draw(hnp.arrays(np.bool_, rewards_PG.shape))


@pytest.mark.parametrize(
    ("std", "expected"),
    [
        ("population", [-1.57762123, -0.676123385, 0.225374462, 2.02837016]),
        ("sample", [-1.36626007, -0.58554003, 0.19518001, 1.75662009]),
        ("none", [-7 / 12, -1 / 4, 1 / 12, 3 / 4]),
    ],
)
def test_worked_advantages_of_four_rewards(std: Std, expected: list[float]) -> None:
    advantages_PG = group_advantages([[0, 0.25, 0.5, 1]], std=std)

    np.testing.assert_allclose(advantages_PG, [expected], rtol=1e-8)


@pytest.mark.parametrize(
    ("std", "one", "others"),
    [("sample", 5.65685393, -0.182479159), ("population", 5.74736933, -0.185399011)],
)
def test_worked_advantages_of_one_success_in_32(
    std: Std, one: float, others: float
) -> None:
    advantages_PG = group_advantages([[1] + [0] * 31], std=std)

    np.testing.assert_allclose(advantages_PG, [[one] + [others] * 31], rtol=1e-8)


@pytest.mark.parametrize("std", STDS)
@pytest.mark.parametrize("reward", [0.1, 0.3, 0.7, 1 / 3, 0.0, 1.0])
def test_equal_rewards_give_exact_zeros(std: Std, reward: float) -> None:
    # np.std([0.1] * 3) is not 0, so that "are they equal?" cannot be asked of it.
    for g in (2, 3, 8, 32, 64):
        assert not group_advantages([[reward] * g], std=std).any()


# Recorded from NeMo-RL (leave-one-out baseline, normalised rewards) in float32 on a CPU.
NEMO_RL = [
    ([0.0, 0.25, 0.5, 1.0], [-1.5275209, -0.499998987, 0.160127863, 2.99998784]),
    ([1.0, 0.0, 0.0, 0.0], [1.0, -0.577349305, -0.577349305, -0.577349305]),
    ([0.1, 0.9], [-0.799999952, 0.799999952]),
    ([1.0] + [0.0] * 7, [1.0] + [-0.377963483] * 7),
    ([1.0] + [0.0] * 31, [1.0] + [-0.179604292] * 31),
    (
        [0.2, 0.4, 0.4, 0.7, 0.9, 0.1, 0.0, 1.0],
        [
            -0.783347487,
            -0.17910473,
            -0.17910473,
            0.703059256,
            1.42373288,
            -1.12853539,
            -1.53194106,
            1.89787376,
        ],
    ),
]


@pytest.mark.parametrize(
    ("rewards", "expected"), NEMO_RL, ids=lambda value: str(value)[:20]
)
def test_leave_one_out_gives_the_numbers_of_nemo_rl(
    rewards: list[float], expected: list[float]
) -> None:
    advantages_PG = group_advantages([rewards], std="leave_one_out")

    np.testing.assert_allclose(advantages_PG, [expected], rtol=2e-6)


def test_leave_one_out_differs_from_nemo_rl_on_equal_rewards_where_float32_is_noise() -> (
    None
):
    # NeMo-RL gave 0.000335825171 for each of them.
    assert not group_advantages([[0.3] * 32], std="leave_one_out").any()


def test_leave_one_out_leaves_an_outlier_among_equals_unscaled() -> None:
    advantages_PG = group_advantages([[0.9, 0.3, 0.3, 0.3]], std="leave_one_out")

    assert advantages_PG[0, 0] == pytest.approx(0.6, rel=1e-14)


def test_leave_one_out_takes_siblings_that_differ_by_a_rounding_as_equal() -> None:
    advantages_PG = group_advantages([[1.0, 0.3, 0.1 + 0.2]], std="leave_one_out")

    assert advantages_PG[0, 0] == pytest.approx(0.7)


@given(batches)
def test_a_baseline_is_the_mean_of_the_others(rewards_PG: np.ndarray) -> None:
    baseline_PG = leave_one_out_baseline(rewards_PG)

    for p, g in np.ndindex(rewards_PG.shape):
        others = np.delete(rewards_PG[p], g)
        assert baseline_PG[p, g] == pytest.approx(others.mean(), abs=1e-12)


@given(batches, st.sampled_from(["sample", "population"]))
def test_the_advantage_is_g_over_g_minus_1_times_plain_grpo(
    rewards_PG: np.ndarray, std: Std
) -> None:
    g = rewards_PG.shape[1]
    ddof = 1 if std == "sample" else 0
    spread_P = np.ptp(rewards_PG, axis=1)
    with np.errstate(invalid="ignore"):
        centred_PG = rewards_PG - rewards_PG.mean(axis=1, keepdims=True)
        plain_PG = centred_PG / (
            rewards_PG.std(axis=1, ddof=ddof, keepdims=True) + 1e-8
        )
    plain_PG[spread_P == 0] = 0.0

    np.testing.assert_allclose(
        group_advantages(rewards_PG, std=std),
        g / (g - 1) * plain_PG,
        rtol=1e-9,
        atol=1e-12,
    )


@given(batches)
def test_population_and_sample_differ_by_a_known_factor(rewards_PG: np.ndarray) -> None:
    g = rewards_PG.shape[1]

    np.testing.assert_allclose(
        group_advantages(rewards_PG, std="population", delta=0.0),
        math.sqrt(g / (g - 1)) * group_advantages(rewards_PG, std="sample", delta=0.0),
        rtol=1e-12,
    )


@given(batches)
def test_without_a_std_the_advantage_is_the_deviation(rewards_PG: np.ndarray) -> None:
    deviation_PG = rewards_PG - leave_one_out_baseline(rewards_PG)

    np.testing.assert_allclose(
        group_advantages(rewards_PG, std="none"), deviation_PG, rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("std", ["sample", "leave_one_out"])
@given(a=grid, b=grid)
def test_two_responses_are_antisymmetric(std: Std, a: float, b: float) -> None:
    first, second = group_advantages([[a, b]], std=std)[0]

    assert first == pytest.approx(-second, rel=1e-12)


@given(batches, st.sampled_from(SUMMING))
def test_advantages_of_a_group_sum_to_zero(rewards_PG: np.ndarray, std: Std) -> None:
    np.testing.assert_allclose(
        group_advantages(rewards_PG, std=std).sum(axis=1), 0, atol=1e-9
    )


@given(batches, stds, st.randoms(use_true_random=False))
def test_the_order_within_a_group_does_not_matter(
    rewards_PG: np.ndarray, std: Std, random: Random
) -> None:
    order = list(range(rewards_PG.shape[1]))
    random.shuffle(order)

    np.testing.assert_allclose(
        group_advantages(rewards_PG[:, order], std=std),
        group_advantages(rewards_PG, std=std)[:, order],
        rtol=1e-9,
        atol=1e-12,
    )


@given(batches, stds, st.integers(-8, 8))
def test_a_constant_added_to_all_rewards_changes_nothing(
    rewards_PG: np.ndarray, std: Std, shift: int
) -> None:
    # Steps of 1/1024 and whole shifts are exact in binary, so that no rounding becomes a spread.
    rewards_PG = np.round(rewards_PG * 1024) / 1024

    np.testing.assert_allclose(
        group_advantages(rewards_PG + shift, std=std),
        group_advantages(rewards_PG, std=std),
        rtol=1e-9,
        atol=1e-12,
    )


@given(batches, st.sampled_from(["sample", "population"]), st.floats(1e-3, 1e3))
def test_a_factor_on_all_rewards_changes_nothing_without_delta(
    rewards_PG: np.ndarray, std: Std, factor: float
) -> None:
    # A power of two is an exact factor.
    exact = 2.0 ** round(math.log2(factor))

    np.testing.assert_allclose(
        group_advantages(exact * rewards_PG, std=std, delta=0.0),
        group_advantages(rewards_PG, std=std, delta=0.0),
        rtol=1e-9,
    )


@given(batches, stds)
def test_groups_do_not_see_each_other(rewards_PG: np.ndarray, std: Std) -> None:
    alone = [group_advantages(row[None, :], std=std)[0] for row in rewards_PG]

    np.testing.assert_array_equal(
        group_advantages(rewards_PG, std=std), np.stack(alone)
    )


@given(batches, stds)
def test_a_better_response_has_no_smaller_advantage(
    rewards_PG: np.ndarray, std: Std
) -> None:
    advantages_PG = group_advantages(rewards_PG, std=std)

    assert (advantages_PG[rewards_PG > leave_one_out_baseline(rewards_PG)] >= 0).all()
    assert (advantages_PG[rewards_PG < leave_one_out_baseline(rewards_PG)] <= 0).all()


@given(masked_batches(), stds)
def test_masking_a_member_is_removing_it(
    masked: tuple[np.ndarray, np.ndarray], std: Std
) -> None:
    rewards_PG, valid_PG = masked
    advantages_PG = group_advantages(rewards_PG, std=std, valid_PG=valid_PG)

    assert not advantages_PG[~valid_PG].any()
    for rewards_G, valid_G, advantages_G in zip(
        rewards_PG, valid_PG, advantages_PG, strict=True
    ):
        kept = rewards_G[valid_G]
        if len(kept) < 2:
            assert not advantages_G.any()
        else:
            expected = group_advantages(kept[None, :], std=std)[0]
            np.testing.assert_allclose(
                advantages_G[valid_G], expected, rtol=1e-9, atol=1e-12
            )


@given(masked_batches(), stds, st.sampled_from([math.nan, math.inf, 1e9, -3.0]))
def test_a_masked_reward_is_never_read(
    masked: tuple[np.ndarray, np.ndarray], std: Std, junk: float
) -> None:
    rewards_PG, valid_PG = masked
    spoiled_PG = np.where(valid_PG, rewards_PG, junk)

    np.testing.assert_array_equal(
        group_advantages(spoiled_PG, std=std, valid_PG=valid_PG),
        group_advantages(rewards_PG, std=std, valid_PG=valid_PG),
    )
    np.testing.assert_array_equal(
        leave_one_out_baseline(spoiled_PG, valid_PG=valid_PG),
        leave_one_out_baseline(rewards_PG, valid_PG=valid_PG),
    )


def test_a_baseline_that_does_not_exist_is_nan() -> None:
    baseline_PG = leave_one_out_baseline(
        [[0.2, 0.4, 0.9], [0.2, 0.4, 0.9]],
        valid_PG=[[True, False, True], [False, True, False]],
    )

    np.testing.assert_allclose(baseline_PG[0], [0.9, np.nan, 0.2])
    assert np.isnan(baseline_PG[1]).all()


def test_masked_equal_groups_give_zeros_too() -> None:
    advantages_PG = group_advantages([[0.7, 0.7, 0.1]], valid_PG=[[True, True, False]])

    assert not advantages_PG.any()


@pytest.mark.parametrize("std", STDS)
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=8),
    st.randoms(use_true_random=False),
)
def test_sums_of_the_same_scores_in_another_order_are_equal(
    std: Std, tenths: list[int], random: Random
) -> None:
    def reward() -> float:
        return sum(random.sample(scores, len(scores))) / total

    scores = [one / 10 for one in tenths]
    total = math.fsum(scores) * 1.5

    assert not group_advantages(
        [[reward() for _ in range(16)]], std=std, delta=0.0
    ).any()


def test_the_weights_that_rounding_tells_apart_have_no_advantage() -> None:
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    assert not group_advantages([[0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1]], delta=0.0).any()
    # A difference that no order of a sum makes is one, however small.
    assert group_advantages([[0.6, 0.6 + 1e-12]], delta=0.0).all()


def test_float32_and_integer_rewards_are_computed_in_float64() -> None:
    assert group_advantages(np.eye(3, dtype=np.float32)).dtype == np.float64
    assert group_advantages(np.eye(3, dtype=np.int64)).dtype == np.float64


def test_the_rewards_are_not_changed() -> None:
    rewards_PG = np.array([[0.0, 1.0, np.nan]])
    group_advantages(rewards_PG, valid_PG=[[True, True, False]])

    np.testing.assert_array_equal(rewards_PG, [[0.0, 1.0, np.nan]])


def test_an_empty_batch_has_no_advantages() -> None:
    assert group_advantages(np.zeros((0, 4))).shape == (0, 4)


@pytest.mark.parametrize(
    ("rewards", "problem"),
    [
        ([0.1, 0.2], r"shape \[P, G\], not \(2,\)"),
        ([[[0.1, 0.2]]], r"shape \[P, G\], not \(1, 1, 2\)"),
        ([[0.1, 0.2], [0.3]], "differ in length"),
        ([[0.1], [0.2]], "at least two responses, G = 1"),
        ([[], []], "at least two responses, G = 0"),
    ],
)
def test_rewards_must_come_in_groups(rewards: ArrayLike, problem: str) -> None:
    with pytest.raises(RewardShapeError, match=problem):
        group_advantages(rewards)
    with pytest.raises(RewardShapeError, match=problem):
        leave_one_out_baseline(rewards)


@pytest.mark.parametrize(
    ("rewards", "problem"),
    [
        ([[0.1, math.nan]], r"rewards_PG\[0, 1\] is nan: mask it"),
        ([[0.1, 0.2], [math.inf, 0.1]], r"rewards_PG\[1, 0\] is inf"),
        ([["0.1", "0.2"]], "real numbers"),
        ([[None, 0.2]], "real numbers"),
        ([[True, False]], "real numbers"),
        ([[1j, 0.2]], "real numbers"),
    ],
)
def test_rewards_must_be_finite_numbers(rewards: ArrayLike, problem: str) -> None:
    with pytest.raises(RewardError, match=problem):
        group_advantages(rewards)


@pytest.mark.parametrize(
    ("valid", "error"),
    [
        ([[True, True, True]], RewardShapeError),
        ([True, True], RewardShapeError),
        ([[1, 0]], RewardError),
        ([[1.0, 0.0]], RewardError),
    ],
)
def test_a_mask_is_boolean_and_has_the_shape_of_the_rewards(
    valid: ArrayLike, error: type[RewardError]
) -> None:
    with pytest.raises(error, match="valid_PG"):
        group_advantages([[0.1, 0.2]], valid_PG=valid)


@pytest.mark.parametrize("delta", [-1e-8, math.nan, math.inf])
@pytest.mark.parametrize("std", STDS)
def test_delta_is_finite_and_not_negative(std: Std, delta: float) -> None:
    with pytest.raises(RewardError, match="delta"):
        group_advantages([[0.1, 0.2]], std=std, delta=delta)


def test_an_unknown_std_is_refused() -> None:
    with pytest.raises(RewardError, match="'batch'"):
        group_advantages([[0.1, 0.2]], std="batch")  # pyright: ignore[reportArgumentType]


def test_delta_is_added_to_the_std() -> None:
    assert group_advantages([[0, 1]], std="population", delta=0.5)[0, 1] == 1.0


@pytest.mark.parametrize("std", ["sample", "population", "leave_one_out", "none"])
@pytest.mark.parametrize(
    "rewards", [[1e308, -1e308], [1e200, 0.0, -1e200], [-1.1e100, 0.0]]
)
def test_rewards_whose_squares_are_not_finite_are_refused(
    std: Std, rewards: list[float]
) -> None:
    with pytest.raises(RewardError, match="scale the rewards"):
        group_advantages([rewards], std=std)
    with pytest.raises(RewardError, match="scale the rewards"):
        leave_one_out_baseline([rewards])


@pytest.mark.parametrize("std", ["sample", "population", "leave_one_out", "none"])
def test_the_largest_rewards_have_finite_advantages(std: Std) -> None:
    advantages = group_advantages([[1e100, 0.0, -1e100, 1e-300]], std=std)
    assert np.isfinite(advantages).all()


@pytest.mark.parametrize("delta", [None, "1", -1.0, math.inf, math.nan])
def test_a_delta_is_a_finite_number(delta: object) -> None:
    with pytest.raises(RewardError, match="delta must be finite"):
        group_advantages([[0.0, 1.0]], delta=delta)  # pyright: ignore[reportArgumentType]


def test_a_masked_array_is_refused_since_its_mask_would_be_lost() -> None:
    rewards = np.ma.masked_array([[0.0, 1.0, 9.0]], mask=[[False, False, True]])

    with pytest.raises(RewardError, match="rewards_PG must not be a masked array"):
        group_advantages(rewards)
