import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rubric_judge.statistics.correlation import (
    _correlated,
    rank_correlation,
    within_correlation,
)
from rubric_judge.statistics.estimate import Estimate

whole = st.lists(st.integers(0, 9), min_size=3, max_size=30)


@settings(deadline=None)
@given(x_N=whole, seed=st.integers(0, 99))
def test_rho_is_scipys_spearman(x_N: list[int], seed: int) -> None:
    y_N = np.random.default_rng(seed).integers(0, 9, size=len(x_N)).astype(float)
    documents = [f"d{at % 4}" for at in range(len(x_N))]
    found = rank_correlation([float(x) for x in x_N], list(y_N), documents)
    if len(set(x_N)) == 1 or len(set(y_N)) == 1:
        assert found is None
    else:
        assert found is not None
        assert found.number == pytest.approx(stats.spearmanr(x_N, y_N).statistic)
        assert found.n == len(x_N)


def test_the_interval_is_near_that_of_fisher_for_many_documents() -> None:
    rng = np.random.default_rng(0)
    x_N = rng.normal(size=800)
    y_N = 0.5 * x_N + rng.normal(size=800)
    found = rank_correlation(list(x_N), list(y_N), [str(at) for at in range(800)])
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    half = 1.96 * np.sqrt(1 + found.number**2 / 2) / np.sqrt(797)
    assert np.arctanh(found.low) == pytest.approx(
        np.arctanh(found.number) - half, abs=0.02
    )
    assert np.arctanh(found.high) == pytest.approx(
        np.arctanh(found.number) + half, abs=0.02
    )


def test_few_documents_have_no_interval() -> None:
    found = rank_correlation([1.0, 2.0, 3.0], [1.0, 3.0, 2.0], ["a", "b", "b"])
    assert found is not None
    assert (found.number, found.low, found.high) == (0.5, None, None)


def test_what_makes_a_question_long_to_answer_falls_out() -> None:
    rng = np.random.default_rng(1)
    questions = [f"q{at // 4}" for at in range(200)]
    # Questions with long answers get high rewards; within a question longer answers get less.
    hard_N = np.repeat(rng.uniform(0, 10, 50), 4)
    own_N = rng.uniform(0, 1, 200)
    length_N, reward_N = hard_N + own_N, hard_N - own_N
    over_all = rank_correlation(list(reward_N), list(length_N), questions)
    within = within_correlation(list(reward_N), list(length_N), questions, questions)
    assert over_all is not None
    assert within is not None
    assert over_all.number > 0.9
    assert within.number == pytest.approx(-1.0)


def test_one_answer_a_question_says_nothing_within() -> None:
    assert within_correlation([1.0, 2.0], [1.0, 2.0], ["a", "b"], ["a", "b"]) is None
    equal = within_correlation([1.0, 1.0], [1.0, 2.0], ["a", "a"], ["a", "a"])
    assert equal is None


@settings(deadline=None, max_examples=50)
@given(
    answers=st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 3), st.integers(0, 3)),
        min_size=2,
        max_size=40,
    )
)
def test_ranks_within_questions_are_those_of_each_question_by_itself(
    answers: list[tuple[int, int, int]],
) -> None:
    questions = [f"q{question}" for question, _, _ in answers]
    documents = [f"d{question % 6}" for question, _, _ in answers]
    x_N, y_N = ([float(answer[at]) for answer in answers] for at in (1, 2))
    found = within_correlation(x_N, y_N, questions, documents)
    assert found == _plainly_within(x_N, y_N, questions, documents)


def _plainly_within(
    x_N: list[float], y_N: list[float], questions: list[str], documents: list[str]
) -> Estimate | None:
    """One call of SciPy for each question, and its ranks correlated over all answers."""
    members = [
        [at for at, of in enumerate(questions) if of == one]
        for one in dict.fromkeys(questions)
    ]
    several = [at_K for at_K in members if len(at_K) > 1]
    if not several:
        return None
    ranks = [
        [stats.rankdata([of[at] for at in at_K]) for at_K in several]
        for of in (x_N, y_N)
    ]
    a_N, b_N = (np.concatenate([one - one.mean() for one in found]) for found in ranks)
    order = [documents[at] for at_K in several for at in at_K]
    return _correlated(a_N, b_N, order, seed=0)


def test_an_interval_needs_draws_that_vary() -> None:
    """One document of six differs: a third of the draws lack it, and have no correlation at all."""
    rewards = [0.5] * 10 + [0.1, 0.9]
    lengths = [float(at % 5) for at in range(12)]
    found = rank_correlation(rewards, lengths, [f"d{at // 2}" for at in range(12)])
    assert found is not None
    assert (found.low, found.high) == (None, None)
    assert -1 <= found.number <= 1


def test_the_interval_within_questions_is_drawn_as_asked() -> None:
    rng = np.random.default_rng(2)
    questions = [f"q{at // 4}" for at in range(200)]
    length_N, noise_N = rng.uniform(0, 1, (2, 200))
    values = list(length_N + noise_N), list(length_N), questions, questions
    wide = within_correlation(*values, confidence=0.95, resamples=199, seed=3)
    narrow = within_correlation(*values, confidence=0.6, resamples=199, seed=3)
    again = within_correlation(*values, confidence=0.95, resamples=1999, seed=3)
    assert wide is not None
    assert narrow is not None
    assert again is not None
    assert wide.number == narrow.number == again.number
    assert (wide.low or 0) < (narrow.low or 0) < wide.number
    assert wide.number < (narrow.high or 1) < (wide.high or 1)
    assert (wide.low, wide.high) != (again.low, again.high)
