from __future__ import annotations

import anyio
import pytest

from rubric_core import DocumentAnalysis, Task
from rubric_judge import LexicalJudge
from rubric_judge.testing import FailingJudge
from rubric_synth import CriterionDraft, Document, Draft, QualityConfig, StageRefusal
from rubric_synth.quality import check_rewards, to_checked_task

_DOCUMENT = Document(title="Tides", text="The moon raises two bulges of water.", source="a.md")
_ANSWER = "The moon raises the tide in the ocean by its gravity."


def _criterion(**changes: object) -> CriterionDraft:
    values: dict[str, object] = {
        "id": "c1",
        "weight": 2.0,
        "name": "Names the cause",
        "description": "The answer names the cause.",
        "scoring_guide": "All or nothing.",
        "verification_method": "sentences: any",
        "expected_keywords": ("gravity",),
    }
    return CriterionDraft.model_validate({**values, **changes})


_CRITERIA = tuple(_criterion(id=f"c{i}") for i in range(5))


def _draft(**changes: object) -> Draft:
    values: dict[str, object] = {
        "question": "What raises the tide?",
        "passage": _DOCUMENT.text,
        "criteria": _CRITERIA,
        "reference_answer": _ANSWER,
    }
    return Draft.model_validate({**values, **changes})


def _task(draft: Draft) -> Task:
    return to_checked_task(_DOCUMENT, DocumentAnalysis(), draft, QualityConfig())


def _reason(draft: Draft) -> str:
    with pytest.raises(StageRefusal) as caught:
        anyio.run(check_rewards, _task(draft), LexicalJudge(), QualityConfig())
    return str(caught.value.reason)


def test_a_sound_draft_becomes_a_task_of_its_document() -> None:
    task = _task(_draft())
    anyio.run(check_rewards, task, LexicalJudge(), QualityConfig())
    assert task.doc_hash == _DOCUMENT.doc_hash
    assert len(task.rubric) == 5


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        (_draft(question=" "), "empty_question"),
        (_draft(criteria=_CRITERIA[:4]), "too_few_criteria"),
        (_draft(criteria=[_criterion(id=f"c{i}") for i in range(11)]), "too_many_criteria"),
        (_draft(criteria=(*_CRITERIA, _criterion(id="x", weight=-1))), "negative_weight"),
        (_draft(criteria=(*_CRITERIA, _criterion(id="x", weight="inf"))), "negative_weight"),
        (_draft(criteria=(*_CRITERIA, _criterion(id="x", weight="nan"))), "negative_weight"),
        (_draft(criteria=[_criterion(id=i, weight=0.5) for i in "abcde"]), "low_total_weight"),
        (_draft(criteria=(*_CRITERIA, _criterion(id="x", name=""))), "missing_field"),
        (_draft(criteria=(*_CRITERIA, _criterion(id="x", scoring_guide=" "))), "missing_field"),
        (_draft(criteria=(*_CRITERIA, _CRITERIA[0])), "invalid_schema"),
        (_draft(reference_answer=""), "no_reference"),
        (_draft(question="Is it true that the moon raises two bulges of water every single day?",
                passage="the moon raises two bulges of water every single day"), "leak"),
        (_draft(reference_answer="Nobody knows what it is or was."), "low_reference_reward"),
    ],
)  # fmt: skip
def test_each_fault_has_its_reason(draft: Draft, reason: str) -> None:
    assert _reason(draft) == reason


def test_a_criterion_needs_terms_or_a_directive() -> None:
    bare = {"expected_keywords": (), "verification_method": "Read it."}
    assert _reason(_draft(criteria=(*_CRITERIA, _criterion(id="x", **bare)))) == "missing_field"
    regex = _criterion(id="x", expected_keywords=(), verification_method="regex: gravity")
    _task(_draft(criteria=(*_CRITERIA, regex)))


def test_a_rubric_that_rewards_nothing_or_the_question_is_refused() -> None:
    empty = _criterion(id="x", weight=90, expected_keywords=(), verification_method="regex: ^")
    assert _reason(_draft(criteria=(*_CRITERIA, empty))) == "rewarded_empty_answer"
    echo = _criterion(id="x", weight=90, expected_keywords=(), verification_method="regex: [Tt]ide")
    assert _reason(_draft(criteria=(*_CRITERIA, echo))) == "rewarded_question_echo"


def test_a_judge_that_cannot_be_reached_is_a_reason_of_its_own() -> None:
    with pytest.raises(StageRefusal) as caught:
        anyio.run(check_rewards, _task(_draft()), FailingJudge(), QualityConfig())
    assert caught.value.reason == "judge_unavailable"
