"""The reward and the advantages for slime and miles, on the interface of their snapshots.

slime 624b824 (version 0.3.1) and miles 31f1ca9 need GPUs and are not on the index. `Sample` has
what is used of `slime/utils/types.py` and `miles/utils/types.py`; `generate_and_rm_group` calls
rewards as `slime/rollout/sglang_rollout.py` and `slime/rollout/rm_hub/__init__.py` do, and
`train_data` reads them as `_convert_samples_to_train_data` of `slime/ray/rollout.py`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from math import isnan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rubric_core import (
    ConfigError,
    JudgeResult,
    JudgeView,
    Reason,
    SchemaError,
    Task,
    UnavailableRewardError,
)
from rubric_core.reward.attribution import decoupled_advantages
from rubric_judge.adapters import slime
from rubric_judge.testing import FailingJudge, ScriptedJudge


@dataclass
class Sample:
    """The fields of a sample that rewards and training read."""

    class Status(Enum):
        PENDING = "pending"
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        ABORTED = "aborted"
        FAILED = "failed"

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: str | list[dict[str, str]] = ""
    response: str = ""
    response_length: int = 2
    label: str | None = None
    reward: float | dict[str, Any] | None = None
    loss_mask: list[int] | None = None
    remove_sample: bool = False
    status: Status = Status.COMPLETED
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_reward_value(self, args: Any) -> Any:
        if not args.reward_key:
            return self.reward
        assert isinstance(self.reward, dict)
        return self.reward[args.reward_key]


def arguments(**given: Any) -> SimpleNamespace:
    """slime's arguments, as its parser leaves them."""
    return SimpleNamespace(
        **{
            "custom_reward_post_process_path": "my_rewards.post_process",
            "reward_key": None,
            "eval_reward_key": None,
            "group_rm": False,
            "n_samples_per_prompt": 4,
            "advantage_estimator": "grpo",
            "grpo_std_normalization": True,
            **given,
        }
    )


def judged(args: Any, reward: Any, groups: list[list[Sample]]) -> list[Sample]:
    """Have groups judged, one sample at a time or whole, and return them flat."""

    async def generate_and_rm_group(group: list[Sample]) -> None:
        if args.group_rm:
            rewards = await reward(args, group)
        else:
            ready = [one for one in group if one.status is not Sample.Status.ABORTED]
            rewards = await asyncio.gather(*(reward(args, one) for one in ready))
            group = ready
        for one, value in zip(group, rewards, strict=True):
            one.reward = value

    async def all_groups() -> None:
        await asyncio.gather(*map(generate_and_rm_group, groups))

    asyncio.run(all_groups())
    return [one for group in groups for one in group]


def train_data(args: Any, post_process: Any, samples: list[Sample]) -> dict[str, Any]:
    raw_rewards, rewards = post_process(args, samples)
    assert len(raw_rewards) == len(rewards) == len(samples)
    for one in samples:
        mask = [1] * one.response_length if one.loss_mask is None else one.loss_mask
        one.loss_mask = [0] * one.response_length if one.remove_sample else mask
    masks = [one.loss_mask for one in samples]
    return {"rewards": rewards, "raw_reward": raw_rewards, "loss_masks": masks}


def scripted(view: JudgeView) -> JudgeResult | dict[str, float]:
    """`0.5 1` gives the criteria these shares of their weights."""
    if view.response == "lost":
        return JudgeResult.unavailable(Reason.TIMEOUT)
    if view.response == "prose":
        return JudgeResult.invalid(Reason.NOT_JSON)
    shares = map(float, view.response.split())
    return {
        one.id: one.weight * share
        for one, share in zip(view.rubric, shares, strict=True)
    }


def group(task: Task, number: int, *responses: str) -> list[Sample]:
    return [
        Sample(
            group_index=number,
            index=10 * number + place,
            rollout_id=10 * number + place,
            prompt=f"<|user|>{task.question}<|assistant|>",
            response=response,
            label=task.task_id,
        )
        for place, response in enumerate(responses)
    ]


@pytest.mark.parametrize("group_rm", [False, True])
def test_rewards_and_advantages_of_a_step_under_rubrics_of_unlike_length(
    tasks: dict[str, Task], *, group_rm: bool
) -> None:
    first, second = tasks.values()
    reward = slime.rubric_reward(judge=ScriptedJudge(scripted), tasks=tasks)
    args = arguments(group_rm=group_rm)
    samples = judged(
        args,
        reward,
        [
            group(first, 7, "1 0", "0 1", "lost", "prose"),
            group(second, 3, "1 0", "0 1", "0.5 0", "1 1"),
        ],
    )

    data = train_data(args, slime.rubric_post_process(), samples)

    z = np.array(
        [[[1, 0], [0, 1], [0, 0], [0, 0]], [[1, 0], [0, 0], [0.5, 0], [1, 0]]], float
    )
    valid = np.array([[True, True, False, True], [True] * 4])
    expected = decoupled_advantages(z, [[3, 1], [2, 0]], valid_PG=valid)
    np.testing.assert_allclose(data["rewards"], expected.ravel(), rtol=0, atol=1e-9)
    assert [one.reward for one in samples if not one.remove_sample] == [
        *(0.75, 0.25, 0.0),
        *(1.0, 0.0, 0.5, 1.0),
    ]
    # What was not judged is no number, is in no mean and in no loss.
    lost = samples[2]
    assert isinstance(lost.reward, float)
    assert isnan(lost.reward)
    assert data["loss_masks"][2] == [0, 0]
    assert [mask for mask in data["loss_masks"] if mask == [1, 1]] == [[1, 1]] * 7
    assert data["raw_reward"][2] == pytest.approx(3.5 / 7)
    assert data["rewards"][2] == 0.0


def test_leave_one_out_and_groups_that_do_not_differ(tasks: dict[str, Task]) -> None:
    first, second = tasks.values()
    reward = slime.rubric_reward(judge=ScriptedJudge(scripted), tasks=tasks)
    post_process = slime.rubric_post_process("group")
    made = [group(first, 1, "1 0", "0 1", "lost"), group(second, 2, *["0.7 0"] * 3)]
    samples = judged(arguments(), reward, made)

    divided = post_process(arguments(), samples)[1]
    plain = post_process(arguments(grpo_std_normalization=False), samples)[1]

    assert divided == pytest.approx([2**0.5, -(2**0.5), 0, 0, 0, 0])
    assert plain == [0.5, -0.5, 0.0, 0.0, 0.0, 0.0]
    assert divided[3:] == [0.0] * 3  # exactly


def test_an_outage_of_all_is_no_number_and_moves_nothing(
    tasks: dict[str, Task], task: Task
) -> None:
    reward = slime.rubric_reward(judge=FailingJudge(), tasks=tasks)
    samples = judged(arguments(), reward, [group(task, 0, "1 0", "0 1")])

    data = train_data(arguments(), slime.rubric_post_process(), samples)

    assert all(isnan(value) for value in data["raw_reward"])
    assert data["rewards"] == [0.0, 0.0]
    assert data["loss_masks"] == [[0, 0], [0, 0]]


def test_samples_that_were_not_finished_are_not_judged(
    tasks: dict[str, Task], task: Task
) -> None:
    judge = ScriptedJudge(scripted)
    reward = slime.rubric_reward(judge=judge, tasks=tasks)
    samples = group(task, 0, "1 0", "0 1", "half of an ans", "")
    samples[2].status = Sample.Status.ABORTED
    samples[3].status = Sample.Status.FAILED
    args = arguments(group_rm=True)

    judged(args, reward, [samples])
    data = train_data(args, slime.rubric_post_process("group"), samples)

    assert len(judge.calls) == 2
    assert [one.reward for one in samples] == [0.75, 0.25, None, None]
    assert data["loss_masks"] == [[1, 1], [1, 1], [0, 0], [0, 0]]
    assert data["rewards"] == pytest.approx([2**0.5, -(2**0.5), 0, 0])


def test_a_truncated_answer_is_judged_and_its_thought_is_cut(
    tasks: dict[str, Task], task: Task
) -> None:
    judge = ScriptedJudge(0.5)
    reward = slime.rubric_reward(judge=judge, tasks=tasks)
    opened = group(task, 0, "still thinking", "done</think>The answer.<|im_end|>\n")
    for one in opened:
        one.prompt = f"<|user|>{task.question}<|assistant|><think>\n"
        one.status = Sample.Status.TRUNCATED

    judged(arguments(), reward, [opened])

    assert [view.response for view in judge.calls] == ["The answer."]
    assert [one.reward for one in opened] == [0.0, 0.5]


def test_parts_of_one_rollout_are_judged_by_their_last(
    tasks: dict[str, Task], task: Task
) -> None:
    judge = ScriptedJudge(scripted)
    reward = slime.rubric_reward(judge=judge, tasks=tasks)
    parts = group(task, 0, "0 0", "1 0")
    for one in parts:
        one.rollout_id = 5
    args = arguments()
    values = asyncio.run(reward(args, parts))
    others = group(task, 0, "0 1")

    asyncio.run(reward(args, others))
    found = slime.rubric_post_process("group")(args, [*parts, *others])[1]

    assert values == [0.75, 0.75]
    assert len(judge.calls) == 2
    assert found == pytest.approx([2**0.5, 2**0.5, -(2**0.5)])


def test_rollouts_of_two_prompts_that_share_an_id_are_two(
    tasks: dict[str, Task], task: Task
) -> None:
    reward = slime.rubric_reward(judge=ScriptedJudge(scripted), tasks=tasks)
    pair = [*group(task, 0, "1 0"), *group(task, 1, "0 0")]
    for one in pair:
        one.rollout_id = 0

    assert asyncio.run(reward(arguments(), pair)) == [0.75, 0.0]


def test_with_a_reward_key_the_reward_is_a_dictionary(
    tasks: dict[str, Task], task: Task
) -> None:
    reward = slime.rubric_reward(judge=ScriptedJudge(scripted), tasks=tasks)
    args = arguments(reward_key="score")
    samples = judged(args, reward, [group(task, 0, "1 0", "lost")])

    values = [one.get_reward_value(args) for one in samples]

    assert values[0] == 0.75
    assert isnan(values[1])
    assert isinstance(samples[0].reward, dict)
    assert samples[0].reward["rubric/loss"] == 1.0
    assert slime.rubric_post_process()(args, samples)[0] == [0.75, 0.75]


def test_masking_without_post_processing_is_refused(
    tasks: dict[str, Task], task: Task
) -> None:
    args = arguments(custom_reward_post_process_path=None)
    samples = group(task, 0, "1 0")

    with pytest.raises(ConfigError, match="--custom-reward-post-process-path"):
        asyncio.run(
            slime.rubric_reward(judge=FailingJudge(), tasks=tasks)(args, samples)
        )
    zero = slime.rubric_reward(judge=FailingJudge(), tasks=tasks, on_unavailable="zero")
    assert asyncio.run(zero(args, samples)) == [0.0]
    ends = slime.rubric_reward(
        judge=FailingJudge(), tasks=tasks, on_unavailable="raise"
    )
    with pytest.raises(UnavailableRewardError):
        asyncio.run(ends(args, samples))


def test_a_row_may_hold_its_rubric_and_need_not_have_metadata(
    row: dict[str, Any], tasks: dict[str, Task], task: Task
) -> None:
    reward = slime.rubric_reward(judge=ScriptedJudge(scripted))
    sample = Sample(prompt=row["question"], response="1 0", metadata=row)
    bare = group(task, 0, "1 0")[0]
    bare.metadata = None  # pyright: ignore[reportAttributeAccessIssue]

    assert asyncio.run(reward(arguments(), sample)) == 0.75
    by_id = slime.rubric_reward(judge=ScriptedJudge(scripted), tasks=tasks)
    assert asyncio.run(by_id(arguments(), bare)) == 0.75


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda one: one.metadata.clear(),
            r"row 1: the sample's metadata .*rubric_rew",
        ),
        (lambda one: setattr(one, "group_index", None), r"3 samples without group_ind"),
    ],
    ids=["no record", "no groups"],
)
def test_samples_that_no_advantage_can_be_computed_of_are_named(
    change: Callable[[Sample], None], said: str, tasks: dict[str, Task], task: Task
) -> None:
    reward = slime.rubric_reward(judge=ScriptedJudge(scripted), tasks=tasks)
    samples = judged(arguments(), reward, [group(task, 0, "1 0", "0 1", "1 1")])
    change(samples[1])

    with pytest.raises(SchemaError, match=said):
        slime.rubric_post_process()(arguments(), samples)


def test_another_stack_and_other_estimators_are_refused(
    tasks: dict[str, Task], task: Task
) -> None:
    reward = slime.rubric_reward(judge=ScriptedJudge(scripted), tasks=tasks)
    samples = judged(arguments(), reward, [group(task, 0, "1 0", "0 1")])

    with pytest.raises(
        ConfigError,
        match=r"SimpleNamespace without .*remove_sample.* slime 624b824 and miles 31f1ca9",
    ):
        asyncio.run(reward(arguments(), SimpleNamespace(prompt="q", response="r")))
    with pytest.raises(
        ConfigError, match=r"--advantage-estimator ppo makes advantages"
    ):
        slime.rubric_post_process()(arguments(advantage_estimator="ppo"), samples)
    with pytest.raises(ConfigError, match="decoupled"):
        slime.rubric_post_process("decouple")
