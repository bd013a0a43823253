"""Intervals of few documents, and of documents that are alike by chance."""

import numpy as np
import pytest

from rubric_judge.statistics.means import mean_estimate, paired_difference
from rubric_judge.statistics.paired import reward_test
from rubric_judge.statistics.shares import bounded_mean
from rubric_judge.statistics.student import Student


def test_students_interval_of_few_questions_is_the_textbooks() -> None:
    found = Student.of(np.array([0.1, 0.2, 0.3]))
    assert found.limits(0.95) == pytest.approx(
        (-0.0484, 0.4484), abs=1e-3
    )  # t = 4.303, se = .0577
    assert found.p_value() == pytest.approx(0.0742, abs=1e-3)


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_few_paired_questions_hold_the_truth(count: int) -> None:
    rng = np.random.default_rng(count)
    held = [
        low <= 0.2 <= high
        for _ in range(2000)
        for low, high in [
            Student.of(0.2 + 0.1 * rng.standard_normal(count)).limits(0.95) or (1, 0)
        ]
    ]
    assert np.mean(held) >= 0.93
    one = rng.random(count)
    found = paired_difference(one, np.zeros(count), resamples=99)
    low, high = Student.of(one).limits(0.95) or (0.0, 0.0)
    assert found.low is not None and found.high is not None  # noqa: PT018
    assert found.low <= low and found.high >= high  # noqa: PT018


def test_documents_that_are_alike_by_chance_are_no_certainty() -> None:
    values, documents = (
        np.array([0.0, 0.4, 0.4, 0.0, 0.2, 0.2]),
        ["a", "a", "b", "b", "c", "c"],
    )
    found = mean_estimate(values, clusters_N=documents, resamples=99)
    assert found.low is not None and found.low < 0.1  # noqa: PT018
    test = reward_test(values, documents, resamples=99)
    limits = test.limits(0.95)
    assert limits is not None
    assert (limits[0] > 0) == (test.p_value < 0.05)


def test_nothing_that_differs_is_no_certainty_that_nothing_would() -> None:
    found = mean_estimate(np.zeros(12))
    t2 = 2.201**2
    assert (found.low, found.high) == pytest.approx(
        (-t2 / (12 + t2), t2 / (12 + t2)), abs=1e-3
    )
    assert reward_test(np.zeros(12), resamples=99).p_value == 1


def test_a_single_document_is_too_few_to_say() -> None:
    found = mean_estimate(np.array([0.1, 0.3]), clusters_N=["a", "a"])
    assert (found.low, found.no_interval) == (None, "too few to say")
    assert f"{found:.1f}" == "0.2 [too few to say]"
    assert mean_estimate(np.array([0.1, 0.3])).no_interval is None


def test_rare_rewards_in_few_documents_hold_the_truth() -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([1, 4, 8] * 3)
    documents = [str(one) for one in np.repeat(np.arange(9), sizes)]
    held: list[bool] = []
    for _ in range(400):
        level = np.repeat(
            rng.beta(0.05 * 7 / 3, 0.95 * 7 / 3, 9), sizes
        )  # intraclass .3
        rewards = rng.binomial(5, level) / 5
        found = bounded_mean(
            rewards, clusters_N=documents, is_accuracy=False, answers=1
        )
        assert found.low is not None and found.high is not None  # noqa: PT018
        held.append(found.low <= 0.05 <= found.high)
    assert np.mean(held) >= 0.93
