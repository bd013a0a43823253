"""How many independent criteria, or judges, errors against people are worth."""

import numpy as np
import pytest

from rubric_judge.quality.reliability.shared_errors import (
    centred_errors,
    effective_criteria,
    effective_judges_by_errors,
    effective_without_weakest,
    mean_effective,
)

RHO = 0.3


def _errors(count: int, correlation: float, rows: int = 40_000) -> np.ndarray:
    rng = np.random.default_rng(3)
    shared, own = rng.standard_normal((rows, 1)), rng.standard_normal((rows, count))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own


@pytest.mark.parametrize(
    ("rho", "expected"), [(0.0, 9.0), (RHO, 9 / (1 + 8 * RHO)), (1.0, 1.0)]
)
def test_effective_criteria_are_kishs(rho: float, expected: float) -> None:
    errors, alpha = _errors(9, rho), np.full((40_000, 9), 1 / 9)
    rows = np.arange(len(errors))
    assert mean_effective(alpha, rows) == pytest.approx(9)
    assert effective_criteria(errors, alpha)(rows) == pytest.approx(expected, rel=0.03)


def test_independent_errors_leave_m_eff_of_the_weights() -> None:
    alpha = np.tile([0.7, 0.1, 0.1, 0.1], (40_000, 1))
    rows = np.arange(len(alpha))
    found = effective_criteria(_errors(4, 0.0), alpha)(rows)
    assert found == pytest.approx(1 / 0.52, rel=0.03)


@pytest.mark.parametrize(
    ("rho", "expected"), [(0.0, 5.0), (RHO, 5 / (1 + 4 * RHO)), (1.0, 1.0)]
)
def test_effective_judges_are_kishs(rho: float, expected: float) -> None:
    truth = np.random.default_rng(0).random(40_000)
    rewards = truth + 0.1 * _errors(5, rho).T
    rows = np.arange(len(truth))
    found = effective_judges_by_errors(rewards, truth)(rows)
    assert found == pytest.approx(expected, rel=0.03)
    # Bias is in no advantage, and no error that is shared.
    assert effective_judges_by_errors(rewards + 0.4, truth)(rows) == pytest.approx(
        found
    )


def test_errors_that_say_nothing_have_no_number() -> None:
    one, truth = np.ones((1, 3)), np.zeros(3)
    rows = np.arange(3)
    assert np.isnan(effective_judges_by_errors(one, truth)(rows))
    assert np.isnan(effective_judges_by_errors(np.ones((2, 3)), truth)(rows))
    assert np.isnan(effective_criteria(np.zeros((3, 2)), np.full((3, 2), 0.5))(rows))
    assert np.isnan(mean_effective(np.full((3, 2), 0.5), rows[:0]))


def test_errors_are_centred_by_criterion_and_by_weight() -> None:
    errors = np.array([[1.0, 2.0], [3.0, np.nan]])
    cells = {"a": ([0, 1], [0, 0]), "b": ([0, 1], [1, 1])}
    assert centred_errors(errors, cells) == pytest.approx(
        np.array([[-1.0, 0.0], [1.0, np.nan]]), nan_ok=True
    )
    weighed = centred_errors(errors, cells, np.array([1.0, 3.0]))
    assert weighed[0, 0] == pytest.approx(-1.5)
    assert errors[0, 0] == 1


def test_a_weak_judge_with_errors_of_its_own_is_missed_most() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(4000)
    common = rng.normal(0, 0.1, 4000)
    alike = [truth + common + rng.normal(0, 0.01, 4000) for _ in range(2)]
    own = truth + rng.normal(0, 0.15, 4000)
    rows = np.arange(4000)
    rewards = np.stack([*alike, own])

    every = effective_judges_by_errors(rewards, truth)(rows)
    without = effective_without_weakest(rewards, truth)(rows)

    assert without == pytest.approx(1.0, abs=0.02)
    assert every > 1.9
    assert np.isnan(effective_without_weakest(rewards[:2], truth)(rows))
