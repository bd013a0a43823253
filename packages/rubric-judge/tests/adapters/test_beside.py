"""Other rewards beside a rubric's: a lost judgement leaves its response out of the whole sum."""

import asyncio
import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rubric_core import (
    ConfigError,
    JudgeResult,
    JudgeView,
    Reason,
    RewardError,
    RewardShapeError,
    Task,
)
from rubric_judge import LexicalJudge
from rubric_judge.adapters.ties import tied_reward
from rubric_judge.adapters.trl import CombinedReward, rubric_reward
from rubric_judge.testing import ScriptedJudge


def lengths(completions: list[str], **_: object) -> list[float]:
    return [float(len(one)) for one in completions]


async def shares(completions: list[str], **_: object) -> list[float | None]:
    return [None if one == "b" else 1.0 for one in completions]


def judged(view: JudgeView) -> JudgeResult | float:
    return JudgeResult.unavailable(Reason.TIMEOUT) if view.response == "lost" else 0.5


def called(
    reward: CombinedReward, completions: list[str], task: Task, **given: Any
) -> Any:
    """Call a reward as TRL does."""
    count = len(completions)
    columns = {"task_id": [task.task_id] * count, "completion_ids": [[0]] * count}
    return reward(prompts=["q"] * count, completions=completions, **columns, **given)


def test_the_sum_is_weighted_and_a_lost_judgement_leaves_the_row_out(
    tasks: dict[str, Task], task: Task
) -> None:
    logged: dict[str, float] = {}
    reward = rubric_reward(
        judge=ScriptedJudge(judged), tasks=tasks, beside=[(lengths, 0.25), (shares, 2)]
    )

    rewards = called(reward, ["aa", "lost", "b"], task, log_metric=logged.__setitem__)

    # What another gives None for adds nothing, as in TRL.
    assert rewards == [0.5 + 0.5 + 2.0, None, 0.5 + 0.25]
    assert logged["rewards/lengths/mean"] == pytest.approx(7 / 3)
    assert logged["rewards/shares/mean"] == 1.0
    assert logged["rubric/unavailable"] == pytest.approx(1 / 3)
    assert reward.__name__ == "rubric_reward"


def test_equal_sums_are_equal(tasks: dict[str, Task], task: Task) -> None:
    scores = {"x": 0.1 + 0.2, "y": 0.3}
    judge = ScriptedJudge(lambda view: scores[view.response])
    reward = rubric_reward(judge=judge, tasks=tasks, beside=[(lengths, 1 / 3)])

    first, second = called(reward, ["x", "y"], task)

    assert first == second == tied_reward(0.3 + 1 / 3)


def test_a_second_rubric_that_is_lost_leaves_the_row_out_too(
    tasks: dict[str, Task], task: Task
) -> None:
    style = rubric_reward(judge=ScriptedJudge(judged), tasks=tasks, name="style")
    reward = rubric_reward(judge=ScriptedJudge(1.0), tasks=tasks, beside=[(style, 0.5)])

    assert called(reward, ["a", "lost"], task) == [1.25, None]


def test_plain_functions_run_in_the_callers_thread_and_coroutines_on_one_loop(
    tasks: dict[str, Task], task: Task
) -> None:
    seen: list[tuple[str, object]] = []

    def plain(completions: list[str], **_: object) -> list[float]:
        seen.append(("thread", threading.current_thread()))
        return [0.0] * len(completions)

    async def waits(completions: list[str], **_: object) -> list[float]:
        seen.append(("loop", asyncio.get_running_loop()))
        return [0.0] * len(completions)

    pairs = [(plain, 1.0), (partial(waits), 1.0)]
    reward = rubric_reward(judge=ScriptedJudge(0.5), tasks=tasks, beside=pairs)

    async def from_a_loop() -> Any:  # as in a notebook
        return called(reward, ["a"], task)

    assert called(reward, ["a"], task) == asyncio.run(from_a_loop()) == [0.5]
    assert {value for kind, value in seen if kind == "thread"} == {
        threading.main_thread()
    }
    assert len({id(value) for kind, value in seen if kind == "loop"}) == 1


def test_an_error_of_another_function_reaches_the_trainer(
    tasks: dict[str, Task], task: Task
) -> None:
    def broken(**_: object) -> list[float]:
        raise ZeroDivisionError

    def short(**_: object) -> list[float]:
        return [1.0]

    def endless(**_: object) -> list[float]:
        return [1.0, float("inf")]

    for function, error in (
        (broken, ZeroDivisionError),
        (short, RewardShapeError),
        (endless, RewardError),
    ):
        reward = rubric_reward(
            judge=ScriptedJudge(0.5), tasks=tasks, beside=[(function, 1.0)]
        )
        with pytest.raises(error):
            called(reward, ["a", "b"], task)


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        (lengths, r"a list of pairs .* not a function$"),
        ([lengths], r"not a function$"),
        ([(lengths, "1")], r"not \(a function, a str\)$"),
        ([(lengths, float("nan"))], r"not \(a function, nan\)$"),
        ([("a/reward-model", 1.0)], r"not \(a str, 1.0\)$"),
        ([(lengths, 1), (lengths, 2)], "two rewards are called 'lengths'"),
    ],
)
def test_what_is_no_pair_is_refused(beside: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        rubric_reward(judge=LexicalJudge(), beside=beside)


def test_the_sum_can_be_sent_to_another_process(
    judge_file: str, tasks_file: str, task: Task
) -> None:
    reward = rubric_reward(
        judge=judge_file, tasks=tasks_file, beside=[(lengths, 0.25)], name="all"
    )

    copy = pickle.loads(pickle.dumps(reward))

    assert called(copy, ["It is the cross entropy."], task) == [0.75 + 24 / 4]
    assert copy.__name__ == "all"


class _Trainer:
    """What a reward sees of a trainer of TRL: a method of it."""

    def __init__(self, *rewards: object) -> None:
        self.reward_funcs = list(rewards)

    def log(self, name: str, value: float) -> None:
        del name, value


@pytest.mark.parametrize("policy", ["mask", "zero", "raise"])
def test_a_list_of_several_rewards_is_refused_where_it_would_count_a_lost_one_as_0(
    policy: Any, tasks: dict[str, Task], task: Task
) -> None:
    reward = rubric_reward(judge=ScriptedJudge(0.5), tasks=tasks, on_unavailable=policy)
    given = {"prompts": ["q"], "completions": ["a"], "task_id": [task.task_id]}

    def rewarded(trainer: _Trainer) -> Any:
        return asyncio.run(reward(**given, log_metric=trainer.log))

    assert rewarded(_Trainer(reward)) == [0.5]
    if policy == "mask":
        with pytest.raises(
            ConfigError, match=r"sums this reward with 1 more .* beside="
        ):
            rewarded(_Trainer(reward, lengths))
    else:
        assert rewarded(_Trainer(reward, lengths)) == [0.5]


# --- TRL 1.16 -------------------------------------------------------------------------------------


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_trl_leaves_a_lost_judgement_out_beside_another_reward(
    trainer: Callable[..., Any], tasks: dict[str, Task], task: Task
) -> None:
    calls = 0

    def first_of_four_is_lost(view: JudgeView) -> JudgeResult | float:
        del view
        nonlocal calls
        calls += 1
        return JudgeResult.unavailable(Reason.TIMEOUT) if calls % 4 == 1 else 0.7

    def one(completions: list[Any], **_: object) -> list[float]:
        return [1.0] * len(completions)

    rows = [{"prompt": task.question, "task_id": task.task_id}] * 8
    judge = ScriptedJudge(first_of_four_is_lost)
    trained = trainer(
        rubric_reward(judge=judge, tasks=tasks, beside=[(one, 0.3)]), rows
    )

    trained.train()

    steps = [entry for entry in trained.state.log_history if "reward" in entry]
    assert {step["rubric/unavailable"] for step in steps} == {0.25}
    assert {step["grad_norm"] for step in steps} == {0.0}
    assert {step["frac_reward_zero_std"] for step in steps} == {1.0}
    assert {step["rewards/one/mean"] for step in steps} == {1.0}
    assert steps[0]["reward"] == pytest.approx(0.7 + 0.3, abs=1e-5)
    assert set(trained._logs["advantages"]) == {0.0}


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_trl_is_stopped_at_its_first_step_with_another_reward_in_the_list(
    trainer: Callable[..., Any], tasks: dict[str, Task], task: Task
) -> None:
    rows = [{"prompt": task.question, "task_id": task.task_id}] * 8
    ours = rubric_reward(judge=ScriptedJudge(0.7), tasks=tasks)

    with pytest.raises(ConfigError, match="sums this reward with 1 more"):
        trainer([ours, lambda completions, **_: [1.0] * len(completions)], rows).train()


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_equal_fractions_do_not_push_a_policy_of_trl(
    scale: str, trainer: Callable[..., Any], tasks: dict[str, Task], task: Task
) -> None:
    rows = [{"prompt": task.question, "task_id": task.task_id}] * 8
    reward = rubric_reward(judge=ScriptedJudge(0.7), tasks=tasks)
    trained = trainer(reward, rows, num_generations=8, scale_rewards=scale)

    trained.train()

    steps = [entry for entry in trained.state.log_history if "reward" in entry]
    assert {step["grad_norm"] for step in steps} == {0.0}
    assert {step["frac_reward_zero_std"] for step in steps} == {1.0}
