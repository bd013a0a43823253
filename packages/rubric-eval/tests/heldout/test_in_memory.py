from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rubric_core import (
    Criterion,
    CriterionKind,
    Grounding,
    JudgeResult,
    JudgeView,
    Pooling,
    Reason,
    Rubric,
    Task,
)
from rubric_eval import EvalShapeError, Heldout, HeldoutAbortError, judge_heldout
from rubric_eval.records.files import QuestionRow
from rubric_eval.records.run import kinds_of, pooled_z
from rubric_judge import JudgePool
from rubric_judge.testing import FailingJudge, ScriptedJudge

if TYPE_CHECKING:
    from collections.abc import Callable


def _by_response(view: JudgeView) -> JudgeResult | dict[str, float]:
    """The response spells out its judgement: a reason, or scores of the two criteria."""
    if view.response in list(Reason):
        reason = Reason(view.response)
        kind = (
            JudgeResult.unavailable if reason is Reason.TIMEOUT else JudgeResult.invalid
        )
        return kind(reason, judge="scripted")
    purpose, returns = map(float, view.response.split())
    return {"purpose": purpose, "returns": returns}


def _judge(
    tasks: list[Task],
    responses_NK: list[list[str]],
    *,
    max_unavailable_frac: float = 0.5,
) -> Heldout:
    return asyncio.run(
        judge_heldout(
            ScriptedJudge(_by_response),
            tasks,
            responses_NK,
            max_unavailable_frac=max_unavailable_frac,
        )
    )


def test_rewards_are_means_over_the_samples_of_a_question(
    make_task: Callable[..., Task],
) -> None:
    heldout = _judge([make_task(0), make_task(1)], [["3 1", "0 1"], ["3 0", "3 0"]])
    assert heldout.rewards_N == (0.625, 0.75)
    assert heldout.mean == pytest.approx(0.6875)
    assert heldout.samples == 2
    assert heldout.judge == "scripted"
    assert heldout.zero_frac == 0.0
    assert heldout.interval().n == 2


def test_criterion_means_weigh_up_to_the_reward(make_task: Callable[..., Task]) -> None:
    heldout = _judge(
        [make_task(0), make_task(1)], [["3 1", "not_json"], ["1.5 0", "0 0"]]
    )
    assert heldout.criteria == {"purpose": 0.375, "returns": 0.25}
    assert pytest.approx(heldout.mean) == 0.75 * 0.375 + 0.25 * 0.25


def test_ids_that_do_not_repeat_have_one_mean_a_kind() -> None:
    kinds = CriterionKind.CAUSE, CriterionKind.LIMIT
    tasks = [
        Task(
            question=f"Question {p}?",
            grounding=Grounding("A passage."),
            rubric=Rubric(
                criteria=(
                    Criterion(id=f"one_{p}", weight=1, kind=kinds[p % 2]),
                    Criterion(id=f"two_{p}", weight=1, kind=kinds[p % 2]),
                    Criterion(id="tone", weight=2),
                )
            ),
        )
        for p in range(20)
    ]

    def scores(view: JudgeView) -> dict[str, float]:
        one, two, tone = view.rubric
        return {one.id: 1.0, two.id: float(one.kind is kinds[0]), tone.id: 0.5}

    found = asyncio.run(
        judge_heldout(ScriptedJudge(scores), tasks, [["An answer."]] * 20)
    )
    assert found.criteria == {"kind.cause": 1.0, "kind.limit": 0.5, "tone": 0.25}
    # As the records keep it, by question.
    row = QuestionRow(
        task_id="t",
        doc_hash="d",
        question="q",
        kinds=kinds_of(tasks[0].rubric, Pooling.of(tasks)),
    )
    again = QuestionRow.model_validate_json(row.model_dump_json())
    assert again == row
    assert pooled_z({"one_0": 1.0, "two_0": 0.5, "tone": 0.25}, again.kinds) == {
        "kind.cause": 0.75,
        "tone": 0.25,
    }
    assert (
        "kinds" not in QuestionRow(task_id="t", doc_hash="d", question="q").model_dump()
    )


def test_zeros_are_counted_by_reason(make_task: Callable[..., Task]) -> None:
    heldout = _judge(
        [make_task(0), make_task(1)], [["0 0", "not_json"], ["refused", "3 1"]]
    )
    assert heldout.zero_frac == 0.75
    assert heldout.zero_by_reason == {"not_json": 0.25, "refused": 0.25, "scored": 0.25}
    assert heldout.invalid_frac == 0.5


def test_unavailable_judgements_are_left_out_and_counted(
    make_task: Callable[..., Task],
) -> None:
    heldout = _judge(
        [make_task(0), make_task(1)], [["3 1", "timeout"], ["timeout", "0 0"]]
    )
    assert heldout.rewards_N == (1.0, 0.0)
    assert heldout.unavailable_frac == 0.5
    assert heldout.unavailable_by_reason == {"timeout": 2}
    assert heldout.zero_frac == 0.5


def test_a_question_nobody_judged_is_missing(make_task: Callable[..., Task]) -> None:
    heldout = _judge([make_task(0), make_task(1)], [["timeout"], ["3 0"]])
    assert heldout.rewards_N == (None, 0.75)
    assert heldout.interval().n == 1


@pytest.mark.parametrize("documents", [(), ("a", "a", "b", "c"), ("a", "b", "c", "d")])
def test_no_limit_of_a_mean_reward_is_beyond_0_and_1(
    documents: tuple[str, ...], make_heldout: Callable[..., Heldout]
) -> None:
    for rewards in ((0.0, 0.0, 0.1, 0.0), (1.0, 0.8, 1.0, 1.0), (0.0,) * 4):
        found = make_heldout(rewards, documents=documents).interval()
        assert found.ci_low is not None
        assert found.ci_high is not None
        assert 0 <= found.ci_low <= found.mean <= found.ci_high <= 1
        assert found.ci_low < found.ci_high


def test_a_mean_of_nothing_is_refused(make_heldout: Callable[..., Heldout]) -> None:
    with pytest.raises(EvalShapeError, match="none of 2 questions"):
        _ = make_heldout((None, None)).mean


def test_too_many_unavailable_judgements_abort(make_task: Callable[..., Task]) -> None:
    with pytest.raises(
        HeldoutAbortError, match=r"1 of 4 responses: timeout 1"
    ) as caught:
        _judge(
            [make_task(0), make_task(1)],
            [["3 1", "timeout"], ["3 1", "3 1"]],
            max_unavailable_frac=0.2,
        )
    assert caught.value.reasons == {"timeout": 1}
    assert caught.value.unavailable_frac == 0.25


def test_nothing_judged_aborts_whatever_is_allowed(
    make_task: Callable[..., Task],
) -> None:
    with pytest.raises(HeldoutAbortError, match="no judgement for 2 of 2"):
        asyncio.run(
            judge_heldout(
                FailingJudge(ConnectionError("down")),
                [make_task(0)],
                [["3 1", "3 1"]],
                max_unavailable_frac=1.0,
            )
        )


def test_a_pool_gives_what_its_judge_gives(make_task: Callable[..., Task]) -> None:
    tasks = [make_task(i) for i in range(5)]
    responses_NK = [[f"{i % 4} 1"] * 3 for i in range(5)]
    pool = JudgePool(ScriptedJudge(_by_response), workers=2, micro_batch=1)
    assert asyncio.run(judge_heldout(pool, tasks, responses_NK)) == _judge(
        tasks, responses_NK
    )


def test_no_text_is_kept(make_task: Callable[..., Task]) -> None:
    heldout = _judge([make_task(0)], [["3 1"]])
    for text in (repr(heldout), heldout.model_dump_json()):
        assert "CANARY" not in text
        assert "What does" not in text
    assert Heldout.model_validate_json(heldout.model_dump_json()) == heldout


@pytest.mark.parametrize(
    ("questions", "responses_NK", "message"),
    [
        ([], [], "got 0 tasks"),
        ([0, 1], [["3 1"]], "got 2 tasks and responses for 1"),
        ([0, 1], [["3 1"], ["3 1", "3 1"]], r"differ or are 0: \[1, 2\]"),
        ([0], [[]], r"differ or are 0: \[0\]"),
        ([0, 0], [["3 1"], ["3 1"]], "1 tasks are there more than once"),
    ],
)
def test_responses_that_do_not_fit_are_refused(
    make_task: Callable[..., Task],
    questions: list[int],
    responses_NK: list[list[str]],
    message: str,
) -> None:
    with pytest.raises(EvalShapeError, match=message):
        _judge([make_task(i) for i in questions], responses_NK)
