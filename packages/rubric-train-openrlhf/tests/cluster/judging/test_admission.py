"""Admission on a cluster: what the coordinator masks, and which judge it insists on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rubric_core import ConfigError
from rubric_train_openrlhf.cluster.judging import JudgeCoordinator
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.step.rewards import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rubric_core import Task
    from rubric_train_openrlhf.config.train import TrainConfig

    MakeConfig = Callable[..., TrainConfig]
    Write = Callable[..., Path]

pytestmark = pytest.mark.anyio
FACTORS = {"named": 1.0, "parameters": 0.0, "returns": 1.0}


async def test_a_masked_criterion_is_in_no_verdict_credit_or_held_out_reward(
    make_config: MakeConfig, tasks: Sequence[Task], write_calibration: Write
) -> None:
    config = make_config(
        judge={"calibration": write_calibration(FACTORS), "spec": {"type": "lexical"}}
    )
    coordinator = JudgeCoordinator(config)
    whole = "The function fn_2 takes left_2 and it returns something."
    texts = [whole, "The function fn_2 takes left_2 and no more."] * 2
    verdicts = [await coordinator.judge(tasks[2].task_id, text) for text in texts]
    assert [one.reward for one in verdicts] == pytest.approx([1, 2 / 3] * 2)

    names = [[one.judgement for one in verdicts]]
    sizes = Sizes.of([[8] * 4], [[True] * 4])
    assert await coordinator.spread(1, names, sizes) == [True]
    passed = await coordinator.heldout(0, names)
    assert passed.reward_mean == pytest.approx(5 / 6)
    verdicts = [await coordinator.judge(tasks[2].task_id, text) for text in texts]
    credit = await coordinator.credit(1, [[one.judgement for one in verdicts]], sizes)
    np.testing.assert_allclose(credit.rewards_PG, [[1, 2 / 3] * 2])
    assert credit.figures.withheld_weight_frac == pytest.approx(0.5)
    assert RunFolder(config.out).read_admission() == {"parameters": 0.0}
    await coordinator.aclose()


async def test_a_calibration_of_another_judge_ends_the_run_when_it_opens(
    make_config: MakeConfig, write_calibration: Write
) -> None:
    path = write_calibration(FACTORS, judge_fingerprint="another model")
    coordinator = JudgeCoordinator(make_config(judge={"calibration": path}))
    with pytest.raises(ConfigError, match="it is of the judge 'another model'"):
        await coordinator.open()
