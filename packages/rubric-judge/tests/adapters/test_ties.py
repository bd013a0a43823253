"""Equal rewards have no advantage, in the arithmetic of every trainer."""

import asyncio
from collections.abc import Callable
from math import sqrt
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import Task
from rubric_judge.adapters.ties import tied_reward
from rubric_judge.adapters.trl import rubric_reward
from rubric_judge.adapters.verl import compute_score
from rubric_judge.testing import ScriptedJudge

VALUES = sorted({k / d for d in (3, 7, 10, 13, 100) for k in range(1, d)})
SIZES = [*range(2, 9), 12, 16, 24, 32, 64, 100, 128, 256]


@given(st.sampled_from(VALUES), st.sampled_from(SIZES))
def test_the_mean_of_equal_rewards_is_each_of_them_in_float32(
    value: float, size: int
) -> None:
    group = np.full(size, tied_reward(value), dtype=np.float32)
    summed = np.float32(0)
    for reward in group:  # one by one, the worst order
        summed += reward

    assert summed / np.float32(size) == group[0] == tied_reward(value)


def _art(rewards: list[float]) -> list[float]:
    """A step of one group in openpipe-art 0.5.18, whose packing divides by the mean size."""
    mean = sum(rewards) / len(rewards)
    deviation = sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    advantages = [(reward - mean) / (deviation + 1e-6) for reward in rewards]
    size = fmean(map(abs, advantages))
    return [advantage / (size or 1) for advantage in advantages]


def test_equal_rewards_have_no_advantage_in_art() -> None:
    def worst(change: Callable[[float], float]) -> float:
        groups = [[change(value)] * size for value in VALUES for size in SIZES]
        return max(max(map(abs, _art(group))) for group in groups)

    assert worst(float) == pytest.approx(1)  # what it would be without
    assert worst(tied_reward) == 0


@given(st.floats(-8, 8))
def test_a_reward_moves_by_8_millionths_of_itself_at_most(reward: float) -> None:
    assert abs(tied_reward(reward) - reward) <= abs(reward) * 2**-16
    assert tied_reward(tied_reward(reward)) == tied_reward(reward)


def test_whole_halves_and_quarters_stay_what_they_are() -> None:
    assert [tied_reward(r) for r in (0.0, 0.25, 0.5, 0.75, 1.0, -2.0)] == [
        *(0.0, 0.25, 0.5, 0.75, 1.0, -2.0)
    ]


def test_sums_of_the_same_scores_in_another_order_are_equal() -> None:
    assert 0.1 + 0.2 != 0.3
    assert tied_reward(0.1 + 0.2) == tied_reward(0.3)


def test_the_adapters_hand_them_out(tasks_file: str, task: Task) -> None:
    judge = ScriptedJudge(0.7)
    columns: dict[str, Any] = {
        "task_id": [task.task_id] * 2,
        "completion_ids": [[0]] * 2,
    }

    trl = asyncio.run(
        rubric_reward(judge=judge, tasks=tasks_file)(["q"] * 2, ["a", "b"], **columns)
    )
    verl = asyncio.run(
        compute_score("rubric", "a", task.task_id, None, judge=judge, tasks=tasks_file)
    )

    assert trl == [tied_reward(0.7)] * 2 == pytest.approx([0.7] * 2, abs=1e-5)
    assert verl["score"] == tied_reward(0.7)


# --- the arithmetic of the stacks -----------------------------------------------------------------


def _trl(rewards: Any) -> Any:
    """`GRPOTrainer` 1.16, with its own functions."""
    torch, utils = (
        pytest.importorskip("torch"),
        pytest.importorskip("trl.trainer.utils"),
    )
    groups = rewards.view(1, -1)
    centred = rewards - torch.nanmean(groups, dim=1)
    return centred / (utils.nanstd(groups, dim=1) + 1e-4)


def _verl(rewards: Any, *, function: str = "compute_grpo_outcome_advantage") -> Any:
    torch, algorithms = (
        pytest.importorskip("torch"),
        pytest.importorskip("verl.trainer.ppo.core_algos"),
    )
    tokens = torch.zeros(len(rewards), 3)
    tokens[:, 2] = rewards
    index = np.zeros(len(rewards), dtype=int)
    advantages, _ = getattr(algorithms, function)(
        tokens, torch.ones_like(tokens), index
    )
    return advantages[:, 0]


def _verl_vectorized(rewards: Any) -> Any:
    return _verl(rewards, function="compute_grpo_vectorized_outcome_advantage")


def _openrlhf(rewards: Any) -> Any:
    """`group_norm` of `experience_maker.py` in 0.11.2, which stands in a class of Ray."""
    groups = rewards.view(1, -1)
    return (groups - groups.mean(-1, keepdim=True)) / (
        groups.std(-1, keepdim=True) + 1e-9
    )


def _nemo_rl(rewards: Any) -> Any:
    """`advantage_estimator.py` of 7ea279abf, which is on no index: leave-one-out, 1e-6."""
    torch, others = pytest.importorskip("torch"), len(rewards) - 1
    mask = 1 - torch.eye(len(rewards))
    centred = rewards - mask @ rewards / others
    variance = mask @ rewards**2 / others - (mask @ rewards / others) ** 2
    deviation = (variance * others / max(others - 1, 1)).sqrt().nan_to_num(0)
    return torch.where(deviation > 0, centred / (deviation + 1e-6), centred)


def _skyrl(rewards: Any) -> Any:
    """`ppo_utils.py` of skyrl 0.4.0, which needs Python 3.12."""
    return (rewards - rewards.mean()) / (rewards.view(1, -1).std() + 1e-6)


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "advantages", [_trl, _verl, _verl_vectorized, _openrlhf, _nemo_rl, _skyrl]
)
def test_equal_rewards_have_no_advantage_in_a_stack(
    advantages: Callable[[Any], Any],
) -> None:
    torch = pytest.importorskip("torch")

    def worst(change: Callable[[float], float]) -> float:
        groups = [
            torch.full((size,), change(value))
            for value in VALUES[::3]
            for size in SIZES
        ]
        return max(advantages(group).abs().max().item() for group in groups)

    assert worst(float) > 0  # what they would be without
    assert worst(tied_reward) == 0
