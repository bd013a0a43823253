"""Open-book questions in an evaluation: asked with their context, told apart from closed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_core import PolicyView, Section
from rubric_core.files import text_sha256
from rubric_eval.errors import EvalFolderError
from rubric_eval.records.files import QuestionRow, questions_sha256, read_rows
from rubric_eval.records.inputs import EvalFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_core import Ask, Task
    from rubric_eval.heldout.plan import HeldoutPlan
    from rubric_eval.heldout.table import HeldoutTable
    from rubric_eval.records.run import Measured
    from rubric_eval.responders.opening import OpenModel

CONTEXT = (Section(doc_hash="d", heading="Sums", text="A sum adds."),)


def test_closed_book_questions_are_recorded_as_they_were(
    tasks: tuple[Task, ...], make_plan: Callable[..., HeldoutPlan]
) -> None:
    plan = make_plan()
    (first, *_) = plan.question_rows()

    assert "prompt_sha256" not in first.model_dump()
    assert first.asked_sha256 == text_sha256(tasks[0].question) == plan.prompts[0]


def test_a_context_changes_what_is_asked_and_not_which_question_it_is(
    tasks: tuple[Task, ...], make_plan: Callable[..., HeldoutPlan]
) -> None:
    opened = tuple(one.model_copy(update={"context": CONTEXT}) for one in tasks)
    closed_plan, plan = (make_plan(tasks=one) for one in (tasks, opened))
    rows = plan.question_rows()

    assert plan.task_ids == closed_plan.task_ids
    assert [row.asked_sha256 for row in rows] == list(plan.prompts)
    assert set(plan.prompts).isdisjoint(closed_plan.prompts)
    assert questions_sha256(rows) != questions_sha256(closed_plan.question_rows())
    assert rows[0].question == tasks[0].question


def test_models_are_asked_with_the_context_and_the_folder_reads_back(
    tasks: tuple[Task, ...],
    make_plan: Callable[..., HeldoutPlan],
    evaluate: Callable[..., HeldoutTable],
    scripted: Callable[..., OpenModel],
    read_heldout: Callable[..., Measured],
    tmp_path: Path,
) -> None:
    seen: list[PolicyView] = []

    def answer(ask: Ask) -> str:
        seen.append(ask.view)
        return "A sum adds."

    opened = tuple(one.model_copy(update={"context": CONTEXT}) for one in tasks)
    judge = tmp_path / "lexical.yaml"
    judge.write_text("type: lexical")
    evaluate(make_plan(tasks=opened), [scripted("open", answer)], [judge])

    assert {view.message for view in seen} == {
        one.policy_view().message for one in opened
    }
    folder = EvalFolder(tmp_path / "eval")
    assert all(row.prompt_sha256 for row in read_rows(folder.questions, QuestionRow))
    assert (
        read_heldout(folder, "lexical", "open").prompts
        == make_plan(tasks=opened).prompts
    )
    with pytest.raises(EvalFolderError):  # other prompts are no continuation
        evaluate(make_plan(), [scripted("open", answer)], [judge])
