from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from rubric_judge import ListwiseConfig, load_judge
from rubric_judge.testing import FakeCall, FakeEndpoint, ScriptedJudge
from rubric_train_openrlhf.config.sections import JudgingConfig, RolloutConfig
from rubric_train_openrlhf.local.rollout import (
    JudgedGroup,
    JudgedSampler,
    background_judge,
)
from rubric_train_openrlhf.policy import Policy
from rubric_train_openrlhf.step.tasks import TaskSet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rubric_core import JudgeView, PolicyView, Task
    from rubric_train_openrlhf.policy import EncodedPrompt, TextCodec
    from rubric_train_openrlhf.policy.completion import Completion

SAMPLING = RolloutConfig(group_size=2, max_new_tokens=8, temperature=1.0, micro_batch=1)
SEED = 5


class WaitingCodec:
    """A codec that decodes the second answers only once the first were judged."""

    def __init__(self, codec: TextCodec, *, judged: threading.Event) -> None:
        self._codec = codec
        self._judged = judged
        self._first = ""
        self.end_token_ids = codec.end_token_ids
        self.pad_token_id = codec.pad_token_id

    def encode_prompt(self, view: PolicyView) -> EncodedPrompt:
        return self._codec.encode_prompt(view)

    def encode_answer(self, view: PolicyView, answer: str) -> tuple[int, ...]:
        return self._codec.encode_answer(view, answer)

    def encode_text(self, text: str) -> tuple[int, ...]:
        return self._codec.encode_text(text)

    def completion(self, view: PolicyView, token_ids: Sequence[int]) -> Completion:
        self._first = self._first or view.task_id
        if view.task_id != self._first:
            assert self._judged.wait(timeout=600), (
                "judging waits for all of the sampling"
            )
        return self._codec.completion(view, token_ids)

    def save(self, path: Path) -> None:
        self._codec.save(path)


def responses(group: JudgedGroup) -> list[str]:
    return [one.answer.text for one in group.completions]


def test_earlier_answers_are_judged_while_later_ones_are_sampled(
    policy: Policy, tasks: tuple[Task, ...]
) -> None:
    judged = threading.Event()

    def score(view: JudgeView) -> float:
        del view
        judged.set()
        return 1.0

    known = TaskSet(tasks[:2])
    waiting = Policy(policy.model, WaitingCodec(policy.codec, judged=judged))
    with background_judge(ScriptedJudge(score), config=JudgingConfig()) as judge:
        sampler = JudgedSampler(waiting, judge=judge, autocast=False)
        groups, timing = sampler.sample(
            known.views, tasks=known, sampling=SAMPLING, seed=SEED
        )

    assert [len(group.results) for group in groups] == [2, 2]
    assert timing.generate_s > 0


def test_every_answer_is_judged_against_its_own_task(
    policy: Policy, tasks: tuple[Task, ...]
) -> None:
    spy = ScriptedJudge(0.5)
    known = TaskSet(tasks[:3])
    with background_judge(spy, config=JudgingConfig()) as judge:
        sampler = JudgedSampler(policy, judge=judge, autocast=False)
        groups, _ = sampler.sample(
            known.views, tasks=known, sampling=SAMPLING, seed=SEED
        )

    asked = {(call.task_id, call.response, call.rubric) for call in spy.calls}
    owed = {
        (task.task_id, response, task.rubric)
        for task, group in zip(tasks[:3], groups, strict=True)
        for response in responses(group)
    }
    assert asked == owed
    assert [group.view.task_id for group in groups] == [
        task.task_id for task in tasks[:3]
    ]


def test_a_listwise_judge_gets_each_group_whole_and_in_one_call(
    policy: Policy, tasks: tuple[Task, ...]
) -> None:
    known = TaskSet(tasks[:3])
    sampling = SAMPLING.model_copy(update={"group_size": 4, "micro_batch": 2})

    def quality(call: FakeCall) -> float:
        return crc32(call.messages[-1]["content"].encode()) % 101 / 100

    with FakeEndpoint(quality) as endpoint:
        spec = ListwiseConfig(
            model="openai/fake", transport="direct", api_base=endpoint.url
        )
        with background_judge(load_judge(spec), config=JudgingConfig()) as judge:
            sampler = JudgedSampler(policy, judge=judge, autocast=False)
            groups, _ = sampler.sample(
                known.views, tasks=known, sampling=sampling, seed=SEED
            )
        shown = [
            {call.of(name).messages[-1]["content"] for name in call.responses}
            for call in endpoint.calls
        ]

    assert len(shown) == 3
    assert sorted(map(sorted, shown)) == sorted(
        sorted(set(responses(g))) for g in groups
    )
    for group in groups:
        for response, result in zip(responses(group), group.results, strict=True):
            share = crc32(response.encode()) % 101 / 100
            assert (result.total or 0) / (result.max_total or 1) == pytest.approx(share)


def test_the_same_seed_draws_the_same_answers(
    policy: Policy, tasks: tuple[Task, ...]
) -> None:
    known = TaskSet(tasks[:2])
    with background_judge(ScriptedJudge(0.5), config=JudgingConfig()) as judge:
        sampler = JudgedSampler(policy, judge=judge, autocast=False)
        one, again, other = (
            [responses(group) for group in drawn]
            for seed in (SEED, SEED, SEED + 1)
            for drawn, _ in [
                sampler.sample(known.views, tasks=known, sampling=SAMPLING, seed=seed)
            ]
        )

    assert one == again
    assert one != other


def test_the_book_shows_no_text(tasks: tuple[Task, ...]) -> None:
    known = TaskSet(tasks)

    assert repr(known) == "TaskSet(16 tasks)"
    assert all("quokka" not in repr(view) for view in known.views)
    assert len(known.first(3)) == 3
    assert len(TaskSet([*tasks, tasks[0]])) == 16
