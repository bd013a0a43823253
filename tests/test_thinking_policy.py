"""A policy that thinks before it answers is trained and evaluated by its answers alone.

Its thought names what its answer lacks: whoever judged both would give it 1, and not 4 of 6.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from rubric_core import (
    Ask,
    Decoding,
    Finish,
    Reply,
    Task,
    Thought,
    answer_of,
    normalized_reward,
)
from rubric_judge import LexicalJudge
from rubric_train_openrlhf import run_grpo
from rubric_train_openrlhf.cluster.launching.launch import launch
from rubric_train_openrlhf.config.train import TrainConfig, parse_config
from rubric_train_openrlhf.responder import policy_responder
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import RolloutRow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GREEDY = Decoding(max_tokens=64)
STEPS = 3
_SPECIAL = re.compile(r"<\|(endoftext|im_start|im_end)\|>")
OF_ANSWER = pytest.approx(4 / 6)
CPU = {
    "device": "cpu",
    "gpus_per_node": 1,
    "max_len": 112,
    "engines": {"enforce_eager": True},
    "deepspeed": {"forward_micro_batch": 2},
}


def config_of(made: Any, out: Path, **changes: Any) -> TrainConfig:
    values: dict[str, Any] = {
        "model": {"type": "path", "path": made.model},
        "data": {"train": made.train, "validation": made.validation},
        "rollout": {"prompts": 3, "group_size": 4, "max_new_tokens": 48},
        "optim": {"learning_rate": 1e-4, "updates_per_rollout": 2, "micro_batch": 2},
        "judge": {"workers": 2, "micro_batch": 2},
        "validation": {"every": STEPS},
        "steps": STEPS,
        "out": out,
    }
    return parse_config(values | changes)


def rewarded(task: Task, text: str) -> float | None:
    """What the judge gives an answer."""

    async def judge() -> float | None:
        view = task.judge_view(text)
        return normalized_reward(await LexicalJudge().judge(view), task.rubric)

    return anyio.run(judge)


def rollouts(out: Path) -> list[RolloutRow]:
    files = sorted(RunFolder(out).rollouts.glob("*.jsonl"))
    assert len(files) == STEPS
    return [
        RolloutRow.model_validate_json(line)
        for file in files
        for line in file.read_bytes().splitlines()
    ]


def check_run(made: Any, out: Path, *, opened: bool) -> None:
    """Every response was judged by its answer, and what is none is counted."""
    tasks = {task.task_id: task for task in made.tasks}
    rows = rollouts(out)
    for row in rows:
        # Special tokens in a completion that has a thought are shown, and no part of the answer.
        found = answer_of(_SPECIAL.sub("", row.response), opened=opened)
        assert (row.judged, row.thought or Thought.NONE) == (
            found.text.strip(),
            found.thought,
        )
        assert row.reward == pytest.approx(rewarded(tasks[row.task_id], found.text))
    closed = [row for row in rows if row.thought is Thought.CLOSED]
    assert len(closed) > len(rows) / 2
    # The thought would have been rewarded: it names the function.
    assert any(row.reward == OF_ANSWER and "fn_" in row.response for row in closed)
    steps = RunFolder(out).read_metrics()
    for step in steps:
        of_step = [row for row in rows if row.step == step.step]
        unclosed = [row for row in of_step if row.thought is Thought.UNCLOSED]
        empty = [
            row for row in of_step if row not in unclosed and not row.judged.strip()
        ]
        assert step.unclosed_thought_frac == pytest.approx(len(unclosed) / len(of_step))
        assert step.empty_answer_frac == pytest.approx(len(empty) / len(of_step))
        assert step.thought_frac == pytest.approx(
            sum(row.thought is not None for row in of_step) / len(of_step)
        )
        assert step.truncated_frac is not None
        assert step.truncated_frac >= step.unclosed_thought_frac
        assert step.zero_reward_by_reason.get("unclosed_thought", 0.0) == pytest.approx(
            step.unclosed_thought_frac
        )
    first, *_ = RunFolder(out).read_heldout()
    assert (first.reward_mean, first.thought_frac, first.unclosed_thought_frac) == (
        OF_ANSWER,
        1,
        0,
    )


def answered(folder: Path, tasks: list[Task], **options: Any) -> list[Reply]:
    """What a policy answers, by the responder of evaluations."""

    async def ask() -> list[Reply]:
        responder = policy_responder({"path": str(folder), "device": "cpu", **options})
        asks = [Ask(view=task.policy_view(), seed=0) for task in tasks]
        found = {index: reply async for index, reply in responder.respond(asks, GREEDY)}
        await responder.aclose()
        return [found[index] for index in range(len(asks))]

    return anyio.run(ask)


@pytest.mark.parametrize(
    "options",
    [{}, {"opened": True}, {"special": True}],
    ids=["thinks", "is made to think", "with tags that vanish"],
)
def test_a_policy_that_thinks_is_trained_by_its_answers(
    thinking_policy: Callable[..., Any], tmp_path: Path, options: dict[str, bool]
) -> None:
    made = thinking_policy(**options)

    run_grpo(config_of(made, tmp_path / "run"))

    check_run(made, tmp_path / "run", opened=options.get("opened", False))


@pytest.mark.openrlhf
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("opened", [False, True], ids=["thinks", "is made to think"])
def test_a_policy_that_thinks_is_trained_by_its_answers_on_a_cluster(
    thinking_policy: Callable[..., Any], tmp_path: Path, *, opened: bool
) -> None:
    made = thinking_policy(opened=opened)

    launch(config_of(made, tmp_path / "run", backend="openrlhf", cluster=CPU))

    check_run(made, tmp_path / "run", opened=opened)


@pytest.mark.parametrize(
    "special", [False, True], ids=["tags are shown", "tags vanish"]
)
@pytest.mark.parametrize("opened", [False, True], ids=["thinks", "is made to think"])
def test_a_policy_that_thinks_is_evaluated_by_its_answers(
    thinking_policy: Callable[..., Any], *, opened: bool, special: bool
) -> None:
    made = thinking_policy(opened=opened, special=special)

    replies = answered(made.model, made.tasks)

    assert [reply.text for reply in replies] == [
        task.reference_answer for task in made.tasks
    ]
    assert {(reply.thought, reply.finish) for reply in replies} == {
        (Thought.CLOSED, Finish.COMPLETE)
    }
    for task, reply in zip(made.tasks, replies, strict=True):
        assert rewarded(task, reply.text or "") == OF_ANSWER


def test_a_run_of_thoughts_without_an_end_says_so(
    thinking_policy: Callable[..., Any], tmp_path: Path
) -> None:
    made = thinking_policy(opened=True, steps=0)

    ended = run_grpo(config_of(made, tmp_path / "run", steps=1))

    assert ended.unclosed_thought_frac is not None
    assert (
        ended.unclosed_thought_frac > 0.5
    )  # random weights end a thought now and then
    assert ended.warning is not None
    assert (
        "raise rollout.max_new_tokens, or set model.chat_template_kwargs"
        in ended.warning
    )
    (step,) = RunFolder(tmp_path / "run").read_metrics()
    assert step.zero_reward_by_reason["unclosed_thought"] == step.unclosed_thought_frac
    assert step.truncated_frac > 0.5
    (reply, *_) = answered(made.model, made.tasks)
    assert (reply.text, reply.thought, reply.finish) == (
        "",
        Thought.UNCLOSED,
        Finish.TRUNCATED,
    )


def test_a_policy_is_told_not_to_think(
    thinking_policy: Callable[..., Any], tmp_path: Path
) -> None:
    made, silent = thinking_policy(opened=True, steps=0), {"enable_thinking": False}
    model = {"type": "path", "path": made.model, "chat_template_kwargs": silent}

    run_grpo(config_of(made, tmp_path / "run", model=model, steps=1))

    (step,) = RunFolder(tmp_path / "run").read_metrics()
    assert step.unclosed_thought_frac is not None
    assert step.unclosed_thought_frac < 0.5
    (reply, *_) = answered(made.model, made.tasks, chat_template_kwargs=silent)
    assert reply.thought is Thought.NONE
