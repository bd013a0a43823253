from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from rubric_core import Reason
from rubric_judge.testing import FailingJudge, ScriptedJudge
from rubric_train_openrlhf.config.sections import JudgingConfig
from rubric_train_openrlhf.local.rollout import background_judge

if TYPE_CHECKING:
    from rubric_core import JudgeView, Task

LIMITS = JudgingConfig(max_invalid_frac=0.25, max_unavailable_frac=0.5)


def views(tasks: tuple[Task, ...], responses: list[str]) -> list[JudgeView]:
    return [tasks[0].judge_view(response) for response in responses]


def test_results_come_in_order_while_the_caller_goes_on(
    tasks: tuple[Task, ...],
) -> None:
    caller_is_past_submit = threading.Event()
    seen_threads: set[str] = set()

    def score(view: JudgeView) -> float:
        assert caller_is_past_submit.wait(timeout=600)
        seen_threads.add(threading.current_thread().name)
        return len(view.response) / 10

    with background_judge(ScriptedJudge(score), config=LIMITS) as judge:
        future = judge.submit(views(tasks, ["a", "bbb", "cc"]))
        caller_is_past_submit.set()
        judged = future.result(timeout=600)

    assert [result.scores["named"] for result in judged.results] == pytest.approx(
        [0.2, 0.6, 0.4]
    )
    assert judged.judge_s > 0
    assert threading.current_thread().name not in seen_threads


def test_an_exception_of_a_judge_is_an_unavailable_result(
    tasks: tuple[Task, ...],
) -> None:

    with background_judge(FailingJudge(RuntimeError("boom")), config=LIMITS) as judge:
        (result,) = judge.submit(views(tasks, ["a"])).result(timeout=600).results

    assert result.reason is Reason.JUDGE_ERROR
