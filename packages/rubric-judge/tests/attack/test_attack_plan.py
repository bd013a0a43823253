"""What the package attacks tasks with."""

import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    Rubric,
    Task,
    normalized_reward,
)
from rubric_judge import LexicalJudge
from rubric_judge.quality.attack import FAMILIES, plan_attacks


def test_the_tasks_can_be_answered_and_their_references_are_good_answers(
    tasks: list[Task],
) -> None:
    judge = LexicalJudge()

    assert len({task.doc_hash for task in tasks}) == len(tasks) == 6
    for task in tasks:
        assert task.reference_answer is not None
        result = judge.judge_now(task.judge_view(task.reference_answer))
        assert normalized_reward(result, task.rubric) > 0.9


def test_every_family_attacks_every_task_under_an_id_of_its_own(
    tasks: list[Task],
) -> None:
    plan = plan_attacks(tasks, FAMILIES)

    made = {(case.family, case.target.task.task_id) for case in plan.cases}
    ids = [case.id for case in plan.cases]
    assert made == {(family, task.task_id) for family in FAMILIES for task in tasks}
    assert len(set(ids)) == len(ids)
    seen = {
        (one.view.response, one.view.grounding, one.view.task_id) for one in plan.cases
    }
    assert len(seen) == len(ids)  # no attack is another's copy


def test_a_task_without_a_reference_or_criteria_texts_meets_the_families_that_need_none() -> (
    None
):
    bare = Task(
        question="Why?",
        grounding=Grounding("Because."),
        rubric=Rubric(criteria=(Criterion(id="c", weight=1),)),
    )

    plan = plan_attacks([bare], FAMILIES)

    assert {case.family for case in plan.cases} == set(FAMILIES) - {
        "keyword_stuffing", "negated_answers", "repeated_answers", "rubric_echo", "shuffled_words",
    }  # fmt: skip
    assert [control.name for control in plan.controls] == ["weak"]


def test_a_limit_draws_the_same_cases_again(tasks: list[Task]) -> None:
    first, second = (plan_attacks(tasks, FAMILIES, limit=5) for _ in range(2))

    assert [one.id for one in first.cases] == [one.id for one in second.cases]
    assert len(first.cases) == 5 * len(FAMILIES)
    with pytest.raises(ConfigError, match="no task to attack"):
        plan_attacks([], FAMILIES)
