from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rubric_core import Criterion, JudgeResult, Reason, Rubric
from rubric_train_openrlhf.step.rewards import judge_rewards

if TYPE_CHECKING:
    from rubric_core.reward.projection import OnUnavailable

RUBRIC = Rubric(criteria=(Criterion(id="named", weight=2),))


@pytest.mark.parametrize(
    ("on_unavailable", "zeroed"), [("mask", False), ("zero", True)]
)
def test_a_response_that_the_engine_left_unfinished_is_masked_whatever_an_absent_judge_counts_as(
    on_unavailable: OnUnavailable, *, zeroed: bool
) -> None:
    group = [
        JudgeResult.scored(RUBRIC, {"named": 1.0}, judge="program"),
        JudgeResult.unavailable(Reason.TIMEOUT),
        JudgeResult.unavailable(Reason.NO_RESPONSE),
    ]

    rewards = judge_rewards([group], [RUBRIC], on_unavailable=on_unavailable)

    assert rewards.valid_PG.tolist() == [[True, zeroed, False]]
    np.testing.assert_array_equal(
        rewards.rewards_PG, [[0.5, 0.0 if zeroed else np.nan, np.nan]]
    )
    assert np.isnan(rewards.z_PGM[0, 2]).all()
