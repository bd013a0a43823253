"""A thinking policy in a folder, and behind a real vLLM server with and without a reasoning parser.

All three store one answer, and the judge gives it one reward.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from rubric_core import Ask, Decoding, Finish, Reply, Task, Thought, normalized_reward
from rubric_eval.responders.opening import open_model
from rubric_eval.responders.spec import ModelSpec
from rubric_judge import LexicalJudge
from rubric_judge.testing.vllm import VLLMServer

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]

GREEDY = Decoding(max_tokens=64)
SHORT = Decoding(max_tokens=6)
"""Ends within the thought."""
OPTIONS = ("--dtype", "float32", "--enforce-eager")
PARSING = ("--reasoning-parser", "deepseek_r1")


def _replies(
    kind: str, tasks: tuple[Task, ...], decoding: Decoding, **options: Any
) -> list[Reply]:
    spec = ModelSpec(name="m", kind=kind, options=options, spec=f"m={kind}")
    asks = [Ask(view=task.policy_view(), seed=0) for task in tasks]

    async def ask() -> list[Reply]:
        async with await open_model(spec) as model:
            found = {
                index: one
                async for index, one in model.responder.respond(asks, decoding)
            }
        return [found[index] for index in range(len(asks))]

    return anyio.run(ask)


def _rewards(tasks: tuple[Task, ...], replies: list[Reply]) -> list[float | None]:
    async def judge() -> list[float | None]:
        views = [
            task.judge_view(one.text or "")
            for task, one in zip(tasks, replies, strict=True)
        ]
        results = [await LexicalJudge().judge(view) for view in views]
        return [
            normalized_reward(one, task.rubric)
            for one, task in zip(results, tasks, strict=True)
        ]

    return anyio.run(judge)


@pytest.mark.parametrize("opened", [False, True], ids=["thinks", "opened"])
def test_one_answer_and_one_reward_with_and_without_a_parser(
    thinking_policy: Callable[..., Any], *, opened: bool
) -> None:
    made = thinking_policy(opened=opened)
    tasks: tuple[Task, ...] = made.tasks
    path = str(made.model)
    whole, cut = (_replies("policy", tasks, how, path=path) for how in (GREEDY, SHORT))
    assert {one.thought for one in whole} == {Thought.CLOSED}
    assert {(one.text, one.finish, one.thought) for one in cut} == {
        ("", Finish.TRUNCATED, Thought.UNCLOSED)
    }
    assert _replies("hf", tasks, GREEDY, path=path) == whole
    for options in ((), PARSING):
        with ExitStack() as stack:
            server = VLLMServer(
                made.model, options=(*OPTIONS, *options), start_within_s=900
            )
            url = stack.enter_context(server).url
            assert _replies("server", tasks, GREEDY, api_base=url) == whole
            assert _replies("server", tasks, SHORT, api_base=url) == cut
            quick = {"chat_template_kwargs": {"enable_thinking": False}}
            if not options:  # that parser takes an answer without a thought for one
                local = _replies("policy", tasks, GREEDY, path=path, **quick)
                assert _replies("server", tasks, GREEDY, api_base=url, **quick) == local
    assert _rewards(tasks, whole) == [pytest.approx(4 / 6)] * len(whole)
