"""Checks that a draft passes before it becomes a task of the dataset; the first failure counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rubric_core import Outcome, SchemaError, leaked_ngrams, normalized_reward
from rubric_judge.verification import parse_verification
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from rubric_core import DocumentAnalysis, Judge, Task
    from rubric_synth.config import QualityConfig
    from rubric_synth.document import Document
    from rubric_synth.stages import CriterionDraft, Draft

_TEXT_FIELDS: Final = ("id", "name", "description", "scoring_guide", "verification_method")


def check_structure(draft: Draft, config: QualityConfig) -> None:
    """Apply the paper's structural checks.

    Raises:
        StageRefusal: With the first reason found.

    Source: paper, §3.4, Quality assurance.
    """
    weights = [criterion.weight for criterion in draft.criteria]
    if not draft.question.strip():
        raise StageRefusal(RejectionReason.EMPTY_QUESTION)
    if len(weights) < config.min_criteria:
        raise StageRefusal(RejectionReason.TOO_FEW_CRITERIA, f"{len(weights)} criteria")
    if len(weights) > config.max_criteria:
        raise StageRefusal(RejectionReason.TOO_MANY_CRITERIA, f"{len(weights)} criteria")
    if any(not weight >= 0 or math.isinf(weight) for weight in weights):
        raise StageRefusal(RejectionReason.NEGATIVE_WEIGHT, "a weight is negative or not finite")
    if math.fsum(weights) < config.min_total_weight:
        raise StageRefusal(RejectionReason.LOW_TOTAL_WEIGHT, f"W = {math.fsum(weights):g}")
    for criterion in draft.criteria:
        missing = _missing_field(criterion)
        if missing:
            raise StageRefusal(RejectionReason.MISSING_FIELD, f"{criterion.id}: {missing}")
    if not draft.reference_answer.strip():
        raise StageRefusal(RejectionReason.NO_REFERENCE)


def to_checked_task(
    document: Document, analysis: DocumentAnalysis, draft: Draft, config: QualityConfig
) -> Task:
    """Return the task of a draft whose structure is sound and whose question leaks nothing.

    Raises:
        StageRefusal: With the first reason found.
    """
    check_structure(draft, config)
    try:
        task = draft.to_task(document, analysis)
    except SchemaError as error:
        raise StageRefusal(RejectionReason.INVALID_SCHEMA, str(error)) from None
    leaks = sum(leaked.count for leaked in leaked_ngrams(task, n=config.leak_words))
    if leaks:
        raise StageRefusal(RejectionReason.LEAK, f"{leaks} runs of {config.leak_words} words")
    return task


async def check_rewards(task: Task, judge: Judge, config: QualityConfig) -> None:
    """Check that the rubric can be satisfied, and not by nothing or by the question itself.

    Raises:
        StageRefusal: With the first reason found.
    """
    reference = await _reward(task, judge, task.reference_answer or "")
    if reference < config.min_reference_reward:
        raise StageRefusal(RejectionReason.LOW_REFERENCE_REWARD, f"{reference:.2f}")
    empty = await _reward(task, judge, "")
    if empty > config.max_empty_reward:
        raise StageRefusal(RejectionReason.REWARDED_EMPTY_ANSWER, f"{empty:.2f}")
    echo = await _reward(task, judge, task.question)
    if echo > config.max_echo_reward:
        raise StageRefusal(RejectionReason.REWARDED_QUESTION_ECHO, f"{echo:.2f}")


async def _reward(task: Task, judge: Judge, response: str) -> float:
    result = await judge.judge(task.judge_view(response))
    if result.outcome is Outcome.UNAVAILABLE:
        raise StageRefusal(RejectionReason.JUDGE_UNAVAILABLE, str(result.reason))
    return normalized_reward(result, task.rubric)


def _missing_field(criterion: CriterionDraft) -> str:
    """Return the name of the first component that a criterion lacks, or ""."""
    for name in _TEXT_FIELDS:
        if not str(getattr(criterion, name)).strip():
            return name
    has_terms = (
        criterion.required_elements or criterion.expected_keywords or criterion.expected_concepts
    )
    if not has_terms and parse_verification(criterion.verification_method) is None:
        return "required_elements, expected_keywords or an executable verification_method"
    return ""
