"""The `after_each` for ART: on its own types where they are installed."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from rubric_core import JudgeResult, JudgeView, Reason, Task, UnavailableRewardError
from rubric_judge import LexicalJudge
from rubric_judge.adapters.art import rubric_rewards
from rubric_judge.testing import FailingJudge, ScriptedJudge


class Trajectory(BaseModel):
    messages_and_choices: list[dict[str, Any]] = []
    reward: float = 0.0
    metrics: dict[str, float] = {}
    metadata: dict[str, Any] = {}

    def messages(self) -> list[dict[str, Any]]:
        return self.messages_and_choices


class TrajectoryGroup(BaseModel):
    trajectories: list[Trajectory]
    metadata: dict[str, Any] = {}


def group(task: Task, *responses: str) -> TrajectoryGroup:
    chats = [
        [
            {"role": "user", "content": task.question},
            {"role": "assistant", "content": response},
        ]
        for response in responses
    ]
    metadata = {"task_id": task.task_id}
    members = [
        Trajectory(messages_and_choices=chat, metrics={"tokens": 3}, metadata=metadata)
        for chat in chats
    ]
    return TrajectoryGroup(trajectories=members, metadata={"kept": True})


def test_the_rewards_of_a_group_are_replaced_in_a_copy(
    tasks: dict[str, Task], task: Task
) -> None:
    score = rubric_rewards(judge=LexicalJudge(), tasks=tasks)
    given = group(task, "It is the cross entropy.", "No idea.")

    found = asyncio.run(score(given))

    assert [one.reward for one in found.trajectories] == [0.75, 0.0]
    assert [one.reward for one in given.trajectories] == [0.0, 0.0]
    assert found.trajectories[0].metrics["rubric/loss"] == 1.0
    assert found.trajectories[0].metrics["tokens"] == 3
    assert "rubric/loss" not in given.trajectories[0].metrics
    assert found.metadata == {"kept": True}


def lost_at(view: JudgeView) -> JudgeResult | float:
    return JudgeResult.unavailable(Reason.TIMEOUT) if view.response == "lost" else 0.5


@pytest.mark.parametrize(
    ("responses", "kept"),
    [
        (("a", "lost", "b"), 2),
        (("a", "lost"), None),
        (("lost", "lost"), None),
        (("a",), 1),
    ],
)
def test_what_was_not_judged_is_left_out_of_its_group(
    responses: tuple[str, ...], kept: int | None, tasks: dict[str, Task], task: Task
) -> None:
    score = rubric_rewards(judge=ScriptedJudge(lost_at), tasks=tasks)

    found = asyncio.run(score(group(task, *responses)))

    assert (None if found is None else len(found.trajectories)) == kept


def test_the_policy_may_be_another(tasks: dict[str, Task], task: Task) -> None:
    zero = rubric_rewards(judge=FailingJudge(), tasks=tasks, on_unavailable="zero")
    strict = rubric_rewards(judge=FailingJudge(), tasks=tasks, on_unavailable="raise")

    found = asyncio.run(zero(group(task, "a", "b")))

    assert [one.reward for one in found.trajectories] == [0.0, 0.0]
    with pytest.raises(UnavailableRewardError):
        asyncio.run(strict(group(task, "a")))


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_art_gathers_groups_through_it(tasks: dict[str, Task], task: Task) -> None:
    art = pytest.importorskip("art")

    async def rollout(response: str) -> Any:
        chat = [
            {"role": "user", "content": task.question},
            {"role": "assistant", "content": response},
        ]
        return art.Trajectory(
            messages_and_choices=chat, metadata={"task_id": task.task_id}
        )

    async def gathered() -> Any:
        return await art.gather_trajectory_groups(
            [
                art.TrajectoryGroup(rollout(text) for text in texts)
                for texts in (["a", "lost", "b"], ["a", "lost"])
            ],
            after_each=rubric_rewards(judge=ScriptedJudge(lost_at), tasks=tasks),
        )

    (kept,) = asyncio.run(gathered())

    assert [one.reward for one in kept.trajectories] == [0.5, 0.5]
    assert kept.trajectories[0].metrics["rubric/loss"] == 0.5
