import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rubric_eval import EvalShapeError, Interval, mean_interval, paired_interval

rewards = st.floats(0, 1, allow_subnormal=False)


def test_mean_of_known_values() -> None:
    interval = mean_interval([0.0, 0.25, 0.5, 1.0])
    assert interval.mean == pytest.approx(0.4375)
    assert interval.n == 4


def test_interval_agrees_with_the_normal_one_for_many_symmetric_values() -> None:
    x_N = np.random.default_rng(1).normal(0.5, 0.1, size=400)
    half = 1.96 * x_N.std(ddof=1) / 20
    interval = mean_interval(x_N)
    assert interval.ci_low == pytest.approx(x_N.mean() - half, abs=1e-3)
    assert interval.ci_high == pytest.approx(x_N.mean() + half, abs=1e-3)


def test_same_seed_gives_the_same_interval() -> None:
    x_N = [0.1, 0.4, 0.35, 0.8, 0.2]
    assert mean_interval(x_N, seed=3) == mean_interval(x_N, seed=3)
    assert mean_interval(x_N, seed=3) != mean_interval(x_N, seed=4)


def test_higher_confidence_is_wider() -> None:
    x_N = np.random.default_rng(0).random(30)
    narrow, wide = (
        mean_interval(x_N, confidence=0.8),
        mean_interval(x_N, confidence=0.99),
    )
    assert narrow.ci_low is not None
    assert wide.ci_low is not None
    assert wide.ci_low < narrow.ci_low


@given(value=rewards, n=st.integers(2, 9))
def test_equal_values_give_their_point(value: float, n: int) -> None:
    reach = stats.t.ppf(0.975, n - 1) ** 2
    reach = (
        0.0 if value > 1e-12 else reach / (n + reach)
    )  # that none differs is no certainty
    limits = {
        "ci_low": pytest.approx(value - reach),
        "ci_high": pytest.approx(value + reach),
    }
    assert (
        mean_interval([value] * n).model_dump()
        == {"mean": value, "n": n, "no_interval": None} | limits
    )


def test_values_equal_within_rounding_give_their_mean() -> None:
    interval = mean_interval([0.1 + 0.2, 0.3, 0.3])
    assert interval.ci_low == interval.ci_high == interval.mean


def test_a_single_value_has_an_unknown_interval_that_proves_nothing() -> None:
    interval = mean_interval([0.7])
    assert interval == Interval(mean=0.7, ci_low=None, ci_high=None, n=1)
    assert not interval.is_above(0.0)
    assert not interval.is_below(1.0)


def test_missing_values_are_left_out_and_not_counted() -> None:
    assert mean_interval([0.2, None, 0.6, float("nan")]) == mean_interval([0.2, 0.6])


@given(x_N=st.lists(rewards, min_size=2, max_size=12))
def test_interval_of_shares_stays_within_what_their_differences_can_be(
    x_N: list[float],
) -> None:
    interval = mean_interval(x_N, resamples=199)
    assert interval.ci_low is not None
    assert interval.ci_high is not None
    assert -1 <= interval.ci_low <= interval.mean <= interval.ci_high <= 1


@pytest.mark.parametrize(
    ("x_N", "message"),
    [
        ([], "all 0 values are missing"),
        ([None, None], "all 2 values are missing"),
        ([0.5, float("inf")], "1 of 2 values are infinite"),
        ([[0.5, 0.5]], r"got shape \(1, 2\)"),
    ],
)
def test_values_without_a_mean_are_refused(
    x_N: list[float | None], message: str
) -> None:
    with pytest.raises(EvalShapeError, match=message):
        mean_interval(x_N)


def test_paired_interval_is_that_of_the_differences() -> None:
    a_N, b_N = np.random.default_rng(2).random((2, 20))
    assert paired_interval(a_N, b_N) == mean_interval(a_N - b_N)


def test_pairing_cancels_how_hard_a_question_is() -> None:
    rng = np.random.default_rng(5)
    hard_N = rng.random(80)
    before_N = hard_N + rng.normal(0, 0.02, 80)
    after_N = hard_N + 0.05 + rng.normal(0, 0.02, 80)
    assert paired_interval(after_N, before_N).is_above(0.03)
    before, after = mean_interval(before_N), mean_interval(after_N)
    assert before.ci_high is not None
    assert not after.is_above(before.ci_high)


def test_swapped_sides_mirror_the_mean() -> None:
    a_N, b_N = [0.2, 0.5, 0.9], [0.1, 0.6, 0.3]
    assert paired_interval(a_N, b_N).mean == pytest.approx(
        -paired_interval(b_N, a_N).mean
    )


def test_a_pair_with_a_missing_side_is_left_out() -> None:
    paired = paired_interval([0.5, None, 0.9, 0.2], [0.1, 0.3, None, 0.1])
    assert paired.n == 2
    assert paired.mean == pytest.approx(0.25)


def test_sides_of_different_length_are_refused() -> None:
    with pytest.raises(EvalShapeError, match="got 2 and 1"):
        paired_interval([0.1, 0.2], [0.1])


def _coverage(simulations: int, *, effect: float = 0.1, n: int = 60) -> float:
    """Share of simulated evaluations whose paired interval holds the planted effect."""
    rng = np.random.default_rng(11)
    covered = 0
    for seed in range(simulations):
        hard_N = rng.beta(2, 3, size=n)
        b_NK = rng.binomial(8, 0.8 * hard_N[:, None], size=(n, 4)) / 8
        # On average `effect` higher, skewed, and of unequal spread: nothing normal about it.
        gain_NK = effect * rng.gamma(2.0, 0.5, size=(n, 4))
        a_NK = rng.binomial(8, 0.8 * hard_N[:, None], size=(n, 4)) / 8 + gain_NK
        paired = paired_interval(
            a_NK.mean(axis=1), b_NK.mean(axis=1), resamples=999, seed=seed
        )
        assert paired.ci_low is not None
        assert paired.ci_high is not None
        covered += paired.ci_low <= effect <= paired.ci_high
    return covered / simulations


def test_intervals_cover_a_planted_effect() -> None:
    assert _coverage(60) >= 0.87  # 0.95 less three standard errors


@pytest.mark.slow
def test_intervals_cover_a_planted_effect_at_the_nominal_rate() -> None:
    assert 0.92 <= _coverage(500) <= 0.98  # three standard errors either side
