"""The group builder for the Tinker cookbook: in its own rollouts where it is installed."""

import asyncio
import pickle
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from rubric_core import JudgeResult, JudgeView, Reason, RewardShapeError, Task
from rubric_judge.adapters.tinker import RubricEnvGroupBuilder, rubric_rewards
from rubric_judge.testing import FailingJudge, ScriptedJudge


class Characters:
    """A renderer of one character a token."""

    def parse_response(self, tokens: Sequence[int]) -> tuple[dict[str, str], bool]:
        return {"role": "assistant", "content": "".join(map(chr, tokens))}, True


class Builder:
    """A builder of three environments."""

    cleaned = 0

    async def make_envs(self) -> Sequence[Any]:
        return ["first", "second", "third"]

    async def cleanup(self) -> None:
        self.cleaned += 1

    def logging_tags(self) -> list[str]:
        return ["exam"]


def trajectory(text: str) -> Any:
    action = SimpleNamespace(tokens=[ord(character) for character in text])
    return SimpleNamespace(transitions=[SimpleNamespace(ac=action)])


def share(view: JudgeView) -> JudgeResult | float:
    if view.response == "lost":
        return JudgeResult.unavailable(Reason.TIMEOUT)
    return float(view.response)


def rewarded(builder: RubricEnvGroupBuilder, *responses: str) -> list[Any]:
    group = [trajectory(response) for response in responses]
    return asyncio.run(builder.compute_group_rewards(group, responses))


def test_a_group_is_judged_and_the_builder_does_the_rest(
    tasks: dict[str, Task], task: Task
) -> None:
    rewards = rubric_rewards(
        judge=ScriptedJudge(share), renderer=Characters(), tasks=tasks
    )
    inner = Builder()
    builder = RubricEnvGroupBuilder(inner, rewards, {"task_id": task.task_id})

    found = rewarded(builder, "1.0", "0.25")

    assert [reward for reward, _ in found] == [1.0, 0.25]
    assert found[1][1]["rubric/loss"] == 0.25
    assert asyncio.run(builder.make_envs()) == ["first", "second", "third"]
    assert builder.logging_tags() == ["exam"]
    asyncio.run(builder.cleanup())
    assert inner.cleaned == 1


def test_what_was_not_judged_gets_an_advantage_of_0(
    tasks: dict[str, Task], task: Task
) -> None:
    rewards = rubric_rewards(
        judge=ScriptedJudge(share), renderer=Characters(), tasks=tasks
    )
    builder = RubricEnvGroupBuilder(Builder(), rewards, {"task_id": task.task_id})

    found = rewarded(builder, "1.0", "lost", "0.25")

    values = [reward for reward, _ in found]
    mean = sum(values) / 3
    assert values[1] == mean == pytest.approx((1.0 + 0.25) / 2)
    assert found[1][1]["rubric/unavailable"] == 1.0


def test_a_group_without_any_judgement_has_equal_rewards(row: dict[str, Any]) -> None:
    for policy in ("mask", "zero"):
        rewards = rubric_rewards(
            judge=FailingJudge(),
            renderer=Characters(),
            on_unavailable=policy,  # pyright: ignore[reportArgumentType]
        )
        builder = RubricEnvGroupBuilder(Builder(), rewards, row)

        assert [reward for reward, _ in rewarded(builder, "a", "b")] == [0.0, 0.0]


def test_groups_of_another_size_are_refused(row: dict[str, Any]) -> None:
    rewards = rubric_rewards(judge=FailingJudge(), renderer=Characters())
    builder = RubricEnvGroupBuilder(Builder(), rewards, row)

    with pytest.raises(RewardShapeError, match="1 trajectories of 2 environments"):
        asyncio.run(
            builder.compute_group_rewards([trajectory("a")], ["first", "second"])
        )


def test_a_builder_can_be_sent_to_another_process(
    judge_file: str, tasks_file: str, task: Task
) -> None:
    rewards = rubric_rewards(judge=judge_file, renderer=Characters(), tasks=tasks_file)
    builder = RubricEnvGroupBuilder(Builder(), rewards, {"task_id": task.task_id})

    copy = pickle.loads(pickle.dumps(builder))

    assert rewarded(copy, "It is the cross entropy.")[0][0] == 0.75


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_the_cookbook_rolls_a_group_out_with_its_rewards(
    tasks: dict[str, Task], task: Task
) -> None:
    tinker = pytest.importorskip("tinker")
    types = pytest.importorskip("tinker_cookbook.rl.types")
    rollouts = pytest.importorskip("tinker_cookbook.rl.rollouts")
    completers = pytest.importorskip("tinker_cookbook.completers")

    class Question(types.Env):
        async def initial_observation(self) -> Any:
            return tinker.ModelInput.from_ints([1]), []

        async def step(self, action: Any, *, extra: Any = None) -> Any:
            del action, extra
            end = tinker.ModelInput.empty()
            return types.StepResult(0.0, True, end, [])  # noqa: FBT003

    class Questions(types.EnvGroupBuilder):
        async def make_envs(self) -> Sequence[Any]:
            return [Question() for _ in range(3)]

    class Policy(completers.TokenCompleter):
        answers = iter(["1.0", "lost", "0.25"])

        async def __call__(self, *_: Any, **__: Any) -> Any:
            tokens = [ord(character) for character in next(self.answers)]
            return completers.TokensWithLogprobs(
                tokens=tokens, maybe_logprobs=[0.0] * len(tokens)
            )

    rewards = rubric_rewards(
        judge=ScriptedJudge(share), renderer=Characters(), tasks=tasks
    )
    builder = RubricEnvGroupBuilder(Questions(), rewards, {"task_id": task.task_id})

    group = asyncio.run(rollouts.do_group_rollout(builder, Policy()))

    assert sorted(group.get_total_rewards()) == [0.25, 0.625, 1.0]
    assert sum(metrics["rubric/unavailable"] for metrics in group.metrics_G) == 1.0
