from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rubric_eval import paired_interval
from rubric_eval.statistics import accuracy_test, mcnemar_p, reward_test
from rubric_judge.statistics.paired import (
    McNemarTest,
    SignFlipTest,
    mcnemar_detectable,
    mcnemar_power,
)

signs = st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=2, max_size=60)
thirds = st.lists(st.integers(-3, 3), min_size=2, max_size=40)
levels = st.sampled_from([0.2, 0.05, 0.0125, 0.01])


def _leaves_0_out(limits: tuple[float, float] | None) -> bool:
    return limits is not None and (limits[0] > 0 or limits[1] < 0)


@settings(deadline=None, max_examples=60)
@given(d_N=signs, alpha=levels)
def test_mcnemars_limits_and_p_value_decide_alike(
    d_N: list[float], alpha: float
) -> None:
    test = accuracy_test(np.array(d_N))
    assert isinstance(test, McNemarTest)
    assert test.p_value == mcnemar_p(d_N.count(1.0), d_N.count(-1.0))
    low, high = test.limits(1 - alpha)
    assert low <= test.mean <= high
    assert _leaves_0_out((low, high)) == (test.p_value < 1 - (1 - alpha))


@settings(deadline=None, max_examples=60)
@given(d_N=thirds, alpha=levels)
def test_sign_flips_limits_and_p_value_decide_alike(
    d_N: list[int], alpha: float
) -> None:
    test = accuracy_test(np.array(d_N) / 3, answers=3, resamples=499)
    assert isinstance(test, SignFlipTest)
    assert _leaves_0_out(test.limits(1 - alpha)) == (test.p_value < 1 - (1 - alpha))
    assert test.p_value >= test.flips.p_value


@settings(deadline=None, max_examples=60)
@given(
    d_N=st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=1, max_size=30),
    alpha=levels,
    documents=st.integers(1, 30),
)
def test_rewards_limits_and_p_value_decide_alike(
    d_N: list[float], alpha: float, documents: int
) -> None:
    names = [f"d{number % documents}" for number in range(len(d_N))]
    test = reward_test(np.array(d_N), names, resamples=499)
    if abs(test.p_value - alpha) > 1e-9:
        assert _leaves_0_out(test.limits(1 - alpha)) == (test.p_value < 1 - (1 - alpha))


def test_rewards_of_many_questions_have_the_paired_interval() -> None:
    a_N, b_N = np.random.default_rng(3).random((2, 1000))
    wanted = paired_interval(a_N, b_N)
    test = reward_test(a_N - b_N)
    assert test.limits(0.95) == pytest.approx((wanted.ci_low, wanted.ci_high), abs=1e-3)
    assert (test.mean, test.n, test.clusters) == (
        pytest.approx(wanted.mean),
        1000,
        1000,
    )


def test_rewards_of_one_model_are_found_to_differ_no_more_often_than_the_level_allows() -> (
    None
):
    sizes_N = np.random.default_rng(0).gamma(2.0, 0.1, size=9)
    # Of two runs of one model each sign is chance: these are all of its outcomes, half of them
    # mirrored. The bootstrap alone finds 7.4 % of them.
    found = [
        reward_test(sizes_N * np.array([1.0, *signs]), resamples=999).p_value < 0.05
        for signs in product((-1.0, 1.0), repeat=8)
    ]
    assert 0 < np.mean(found) <= 0.05


def test_no_difference_above_1_is_detectable() -> None:
    d_N = np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    assert reward_test(d_N).detectable(alpha=0.05, power=0.8) is None
    assert (
        accuracy_test(d_N, ["a", "a", "b", "c", "d", "e"]).detectable(
            alpha=0.05, power=0.8
        )
        is None
    )


def test_the_rounding_of_two_means_is_no_difference() -> None:
    d_N = np.array([0.1 + 0.2 - 0.3, 0.0, 1e-17, 0.0])
    assert reward_test(d_N).p_value == 1.0
    assert reward_test(d_N).limits(0.95) == reward_test(np.zeros(4)).limits(0.95)


def test_several_answers_or_items_of_one_document_are_flipped_together() -> None:
    d_N = np.array([1.0] * 12)
    alone = accuracy_test(d_N)
    by_document = accuracy_test(d_N, ["a"] * 4 + ["b"] * 4 + ["c"] * 4)
    assert (alone.name, by_document.name) == (
        "exact McNemar",
        "cluster sign-flip permutation",
    )
    assert alone.p_value == 2 / 4096
    assert by_document.p_value == pytest.approx(2 / 8)
    assert by_document.limits(0.95) == McNemarTest(won=3, lost=0, n=3).limits(0.95)


def test_a_test_in_one_document_finds_nothing() -> None:
    test = accuracy_test(np.ones(5), ["a"] * 5)
    assert (test.p_value, test.limits(0.95)) == (1.0, None)
    assert test.detectable(alpha=0.05, power=0.8) is None
    assert reward_test(np.array([0.5])).detectable(alpha=0.05, power=0.8) is None


def test_power_of_mcnemar_is_that_of_all_outcomes() -> None:
    n, delta, differ, alpha = 12, 0.4, 0.6, 0.05
    won_share, lost_share = (differ + delta) / 2, (differ - delta) / 2
    wanted = sum(
        stats.multinomial.pmf(
            [won, lost, n - won - lost], n, [won_share, lost_share, 1 - differ]
        )
        for won in range(n + 1)
        for lost in range(n + 1 - won)
        if mcnemar_p(won, lost) < alpha
    )
    assert mcnemar_power(n, delta, differ, alpha=alpha) == pytest.approx(wanted)


@pytest.mark.parametrize(("n", "wanted"), [(1319, 0.034), (5000, 0.022), (198, 0.126)])
def test_detectable_difference_of_the_papers_benchmarks(n: int, wanted: float) -> None:
    # Of a normal approximation with 20 to 40 per cent of the items that differ.
    found = [mcnemar_detectable(n, differ) for differ in (0.2, 0.4)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0] - 0.01 < wanted < found[1] + 0.01


@pytest.mark.parametrize("alpha", [0.05, 0.0125])
def test_a_detectable_difference_has_its_power(alpha: float) -> None:
    delta = mcnemar_detectable(400, 0.2, alpha=alpha)
    assert delta is not None
    assert mcnemar_power(400, delta, 0.2, alpha=alpha) == pytest.approx(0.8, abs=0.01)


def test_five_items_cannot_show_anything() -> None:
    assert mcnemar_detectable(5, 1.0) is None
    assert mcnemar_detectable(6, 1.0) == pytest.approx(1.0, abs=0.1)
    assert mcnemar_power(10, 0.0, 0.0, alpha=0.05) == 0.0


def test_a_smaller_level_needs_a_larger_difference() -> None:
    d_N = np.random.default_rng(0).normal(0.0, 0.2, size=100)
    reward = reward_test(d_N)
    wide, narrow = (reward.detectable(alpha=alpha, power=0.8) for alpha in (0.01, 0.05))
    assert wide is not None
    assert narrow is not None
    assert wide > narrow
    assert narrow == pytest.approx(2.8 * d_N.std() / 10, rel=0.1)


def test_nothing_is_detectable_where_the_flips_that_decide_can_show_nothing() -> None:
    d_N = np.array([0.01, 0.02, -0.01, 0.0, 0.015, 0.005, -0.005])
    rewards = reward_test(d_N)
    seeds = accuracy_test(np.rint(d_N * 100) / 4, answers=4)
    for test in (rewards, seeds):
        # Of seven clusters all have one sign by chance in 2 of 128 outcomes.
        assert test.detectable(alpha=0.0125, power=0.8) is None
        assert test.detectable(alpha=0.05, power=0.8) is not None


def test_the_detectable_difference_of_few_clusters_is_at_least_what_both_parts_need() -> (
    None
):
    d_N = np.random.default_rng(5).normal(0.0, 0.1, size=8)
    test = reward_test(d_N)
    detectable = test.detectable(alpha=0.05, power=0.5)
    assert detectable is not None
    moved = d_N - d_N.mean()
    assert reward_test(moved + detectable).p_value < 0.05
    assert reward_test(moved + 0.8 * detectable).p_value >= 0.05
    # The flips decide: the bootstrap alone would find less.
    low, _ = test.drawn.expanded_limits(0.95) or (0.0, 0.0)
    assert max(test.flips.critical(0.05)) > d_N.mean() - low
