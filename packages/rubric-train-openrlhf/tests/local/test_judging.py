from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING

import pytest

from rubric_core import Criterion, JudgeResult, Reason, Rubric
from rubric_judge.testing import FailingJudge, ScriptedJudge
from rubric_train_openrlhf.config import JudgingConfig
from rubric_train_openrlhf.errors import JudgeAbortError
from rubric_train_openrlhf.local.judging import background_judge, check_judge

if TYPE_CHECKING:
    from rubric_core import JudgeView, Task

LIMITS = JudgingConfig(max_invalid_frac=0.25, max_unavailable_frac=0.5)


def views(tasks: tuple[Task, ...], responses: list[str]) -> list[JudgeView]:
    return [tasks[0].judge_view(response) for response in responses]


def test_results_come_in_order_while_the_caller_goes_on(tasks: tuple[Task, ...]) -> None:
    caller_is_past_submit = threading.Event()
    seen_threads: set[str] = set()

    def score(view: JudgeView) -> float:
        assert caller_is_past_submit.wait(timeout=30)
        seen_threads.add(threading.current_thread().name)
        return len(view.response) / 10

    with background_judge(ScriptedJudge(score), config=LIMITS) as judge:
        future = judge.submit(views(tasks, ["a", "bbb", "cc"]))
        caller_is_past_submit.set()
        judged = future.result(timeout=30)

    assert [result.scores["named"] for result in judged.results] == pytest.approx([0.2, 0.6, 0.4])
    assert judged.judge_s > 0
    assert threading.current_thread().name not in seen_threads


def test_an_exception_of_a_judge_is_an_unavailable_result(tasks: tuple[Task, ...]) -> None:

    with background_judge(FailingJudge(RuntimeError("boom")), config=LIMITS) as judge:
        (result,) = judge.submit(views(tasks, ["a"])).result(timeout=30).results

    assert result.reason is Reason.JUDGE_ERROR


def results_of(*, scored: int, refused: int, timeouts: int) -> list[JudgeResult]:
    rubric = Rubric(criteria=(Criterion(id="a", weight=1.0),))
    return [
        *[JudgeResult.scored(rubric, {"a": 1.0}, judge="j")] * scored,
        *[JudgeResult.invalid(Reason.REFUSED)] * refused,
        *[JudgeResult.unavailable(Reason.TIMEOUT)] * timeouts,
    ]


def test_rates_at_the_limit_pass() -> None:
    check_judge(results_of(scored=1, refused=1, timeouts=2), config=LIMITS, step=1)


@pytest.mark.parametrize(
    ("refused", "timeouts", "words"),
    [
        (2, 0, r"invalid judgements 50.0% > judge.max_invalid_frac=0.25"),
        (0, 3, r"unavailable judgements 75.0% > judge.max_unavailable_frac=0.5"),
    ],
)
def test_a_rate_above_its_limit_stops_the_run(refused: int, timeouts: int, words: str) -> None:
    results = results_of(scored=4 - refused - timeouts, refused=refused, timeouts=timeouts)

    with pytest.raises(JudgeAbortError, match=words) as caught:
        check_judge(results, config=LIMITS, step=5)

    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.step == 5
    assert copy.invalid_frac == refused / 4
    assert copy.unavailable_frac == timeouts / 4
    assert copy.reasons == {"refused": 2} if refused else {"timeout": 3}
    assert str(copy) == str(caught.value)
