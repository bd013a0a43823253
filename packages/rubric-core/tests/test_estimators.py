import math
from typing import Any

import numpy as np
import pytest

from rubric_core import (
    PluginError,
    RewardError,
    criterion_attribution,
    group_advantages,
)
from rubric_core.reward.attribution import decoupled_advantages
from rubric_core.reward.estimates import estimated_advantages, estimated_attribution
from rubric_core.reward.estimators import (
    AdvantageEstimator,
    DecoupledAdvantages,
    GroupAdvantages,
    JudgedGroups,
)

Z = np.array(
    [[[0.0, 1.0], [1.0, 0.5], [0.5, 0.5]], [[1.0, 0.0], [np.nan, np.nan], [0.25, 1.0]]]
)
WEIGHTS = np.array([[3.0, 1.0], [1.0, 1.0]])
VALID = np.array([[True, True, True], [True, False, True]])
REWARDS = np.where(
    VALID,
    (np.nan_to_num(Z) * (WEIGHTS / WEIGHTS.sum(1)[:, None])[:, None]).sum(2),
    np.nan,
)


def groups() -> JudgedGroups:
    return JudgedGroups(REWARDS, VALID, Z, WEIGHTS)


class Given(AdvantageEstimator):
    """Gives what it was made with, or raises it."""

    estimator: str = "given"
    answer: Any

    def advantages(self, groups: JudgedGroups) -> Any:
        del groups
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def attribution(self, groups: JudgedGroups) -> Any:
        return self.advantages(groups)


@pytest.mark.parametrize("std", ["sample", "population", "leave_one_out", "none"])
def test_group_is_the_function_of_that_name(std: Any) -> None:
    estimator = GroupAdvantages(std=std, delta=1e-3)

    np.testing.assert_array_equal(
        estimated_advantages(estimator, groups()),
        group_advantages(REWARDS, std=std, delta=1e-3, valid_PG=VALID),
    )
    parts_PGM = estimated_attribution(estimator, groups())
    assert parts_PGM is not None
    np.testing.assert_array_equal(
        parts_PGM,
        criterion_attribution(Z, WEIGHTS, std=std, delta=1e-3, valid_PG=VALID),
    )


def test_decoupled_is_the_function_of_that_name_and_has_no_split() -> None:
    estimator = DecoupledAdvantages(delta=1e-3)

    np.testing.assert_array_equal(
        estimated_advantages(estimator, groups()),
        decoupled_advantages(Z, WEIGHTS, delta=1e-3, valid_PG=VALID),
    )
    assert estimated_attribution(estimator, groups()) is None


def test_what_is_said_of_masked_responses_is_not_read() -> None:
    answer = np.full((2, 3), 2)
    answer_nan = np.where(VALID, 2.0, np.nan)

    for given in (answer, answer_nan, answer.tolist()):
        advantages_PG = estimated_advantages(Given(answer=given), groups())
        assert advantages_PG.dtype == np.float64
        assert advantages_PG.tolist() == [[2.0, 2.0, 2.0], [2.0, 0.0, 2.0]]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "NoneType for advantages: real numbers of shape"),
        (0.5, "float for advantages"),
        ("high", "str for advantages"),
        (np.zeros(3), r"float64 of shape \(3,\)"),
        (np.zeros((3, 2)), r"float64 of shape \(3, 2\)"),
        (np.zeros((2, 3), dtype=bool), "bool of shape"),
        (np.array([["a"] * 3] * 2), "of shape"),
        (np.full((2, 3), math.nan), "gave nan for response 0 of group 0"),
        (np.array([[0, 0, math.inf], [0, 0, 0]]), "gave inf for response 2 of group 0"),
        (ZeroDivisionError("by zero"), "raised ZeroDivisionError: by zero"),
    ],
)
def test_nonsense_is_no_advantage(answer: object, words: str) -> None:
    with pytest.raises(
        PluginError, match=rf"advantage.estimator='given' (gave )?.*{words}"
    ):
        estimated_advantages(Given(answer=answer), groups())


def test_nonsense_is_no_attribution() -> None:
    with pytest.raises(PluginError, match="for an attribution: real numbers of shape"):
        estimated_attribution(Given(answer=np.zeros((2, 3))), groups())


def test_our_own_errors_keep_their_type() -> None:
    with pytest.raises(RewardError, match="wrong rewards"):
        estimated_advantages(Given(answer=RewardError("wrong rewards")), groups())


def test_an_estimator_cannot_change_what_it_is_shown() -> None:
    class Greedy(AdvantageEstimator):
        estimator: str = "greedy"

        def advantages(self, groups: JudgedGroups) -> Any:
            groups.rewards_PG[:] = 1.0
            return groups.rewards_PG

    before = REWARDS.copy()
    with pytest.raises(PluginError, match="read-only"):
        estimated_advantages(Greedy(), groups())
    np.testing.assert_array_equal(REWARDS, before)
    REWARDS[:] = before  # the array itself can still be written
