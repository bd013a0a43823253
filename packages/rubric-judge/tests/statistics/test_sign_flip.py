from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rubric_judge.errors import SampleShapeError
from rubric_judge.statistics.mcnemar import mcnemar_p
from rubric_judge.statistics.sign_flip import SignFlips, sign_flip_p


@given(won=st.integers(0, 400), lost=st.integers(0, 400))
def test_one_answer_to_each_item_is_mcnemars_exact_test(won: int, lost: int) -> None:
    sums_C = np.array([1.0] * won + [-1.0] * lost + [0.0] * 3)
    assert sign_flip_p(sums_C, unit=1.0) == pytest.approx(
        mcnemar_p(won, lost), rel=1e-9
    )


@given(steps=st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_the_count_is_that_of_all_flips(steps: list[int]) -> None:
    sums_C = np.array(steps) / 4
    flipped = [
        abs(np.dot(signs, steps)) for signs in product((-1, 1), repeat=len(steps))
    ]
    wanted = np.mean([value >= abs(sum(steps)) for value in flipped])
    assert sign_flip_p(sums_C, unit=0.25) == pytest.approx(wanted)


@settings(deadline=None, max_examples=15)
@given(
    steps=st.lists(st.integers(-3, 3), min_size=3, max_size=10), seed=st.integers(0, 9)
)
def test_scipys_permutation_test_agrees(steps: list[int], seed: int) -> None:
    sums_C = np.array(
        steps, dtype=np.float64
    )  # whole: thirds may add up to 0 and a rounding
    wanted = stats.permutation_test(
        (sums_C, np.zeros_like(sums_C)),
        lambda a, b, axis: np.sum(a - b, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=9999,
        rng=np.random.default_rng(seed),
    ).pvalue
    assert sign_flip_p(sums_C / 3, unit=1 / 3) == pytest.approx(wanted)


def test_differences_that_cannot_be_counted_are_drawn() -> None:
    rng = np.random.default_rng(0)
    steps = rng.integers(-3, 5, size=60)
    counted = sign_flip_p(steps / 3, unit=1 / 3)
    drawn = sign_flip_p(steps / 3 + 1e-6 * rng.random(60), unit=1 / 3, resamples=20_000)
    assert drawn == pytest.approx(counted, abs=0.02)
    assert sign_flip_p(steps / 3 + 1e-6, unit=1 / 3) == sign_flip_p(
        steps / 3 + 1e-6, unit=1 / 3
    )


def test_the_wins_of_a_large_benchmark_are_counted() -> None:
    steps = np.random.default_rng(1).integers(-4, 6, size=5000)
    assert 0 < sign_flip_p(steps / 5, unit=1 / 5) < 1e-10


def test_answers_that_go_together_by_document_count_as_one() -> None:
    alone = sign_flip_p(np.ones(12), unit=1.0)
    together = sign_flip_p(np.full(3, 4.0), unit=1.0)
    assert (alone, together) == pytest.approx((2 / 4096, 2 / 8))


@settings(deadline=None, max_examples=40)
@given(
    values=st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=2, max_size=9),
    alpha=st.sampled_from([0.2, 0.05, 0.02]),
)
def test_means_beyond_the_critical_one_are_found_and_others_are_not(
    values: list[float], alpha: float
) -> None:
    sums_C = np.array(values)
    counts_C = np.arange(1.0, len(values) + 1)
    up, down = SignFlips(sums_C, counts_C, unit=None).critical(alpha)
    centred_C = sums_C - counts_C * sums_C.sum() / counts_C.sum()
    for sign, critical in ((1, up), (-1, down)):
        for mean, is_found in (
            (0.99 * critical - 0.01, False),
            (1.01 * critical + 0.01, True),
        ):
            if np.isfinite(mean) and mean > 0:
                p = sign_flip_p(centred_C + sign * mean * counts_C, unit=None)
                assert (p < alpha) == is_found


def test_so_few_clusters_that_no_flips_show_anything_have_no_critical_mean() -> None:
    sums_C = np.array([0.1, 0.2, 0.0, 0.3, 0.1])
    flips = SignFlips(sums_C, np.ones(5), unit=None)
    assert flips.critical(0.05) == (np.inf, np.inf)  # 2 of 32 is more
    assert np.isfinite(flips.critical(0.1)).all()


@pytest.mark.parametrize("missing", [np.nan, np.inf])
@pytest.mark.parametrize("unit", [None, 1.0])
def test_a_sum_that_is_no_number_is_refused(missing: float, unit: float | None) -> None:
    with pytest.raises(SampleShapeError, match="1 of 3 sums are no finite numbers"):
        sign_flip_p(np.array([1.0, missing, 1.0]), unit=unit)
