import numpy as np
import pytest

from rubric_eval.statistics import mean_interval, reward_test, score_interval, wilson_interval

NAMES = [f"q{number}" for number in range(20)]


def test_one_answer_an_item_has_wilsons_interval() -> None:
    right = [1.0] * 5 + [0.0] * 14 + [None]
    found = score_interval(right, clusters_N=NAMES, is_accuracy=True, answers=1)
    assert found == wilson_interval(5, 19)


def test_nothing_right_over_several_seeds_is_no_certainty() -> None:
    found = score_interval([0.0] * 20, clusters_N=NAMES, is_accuracy=True, answers=3)
    assert found == wilson_interval(0, 20)


def test_rewards_have_the_limits_of_a_test_of_them() -> None:
    x_N = np.random.default_rng(0).random(20)
    documents = [f"d{number // 2}" for number in range(20)]
    found = score_interval(x_N, clusters_N=documents, is_accuracy=False, answers=1)
    assert found == mean_interval(x_N, clusters_N=documents)
    limits = reward_test(x_N, documents).limits(0.95)
    assert (found.ci_low, found.ci_high) == pytest.approx(limits, abs=1e-4)


def test_a_mean_over_few_documents_is_covered_at_the_nominal_rate() -> None:
    rng = np.random.default_rng(4)
    found = [mean_interval(rng.random(10), resamples=999) for _ in range(400)]
    covered = [
        one.ci_low is not None and one.ci_high is not None and one.ci_low <= 0.5 <= one.ci_high
        for one in found
    ]
    assert np.mean(covered) >= 0.94  # limits that are not expanded cover 0.925 of these
