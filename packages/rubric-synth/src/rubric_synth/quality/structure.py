"""The paper's structural checks, and bounds on what one reply may put into the dataset."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rubric_judge import VerificationError
from rubric_judge.lint.wording import check_wording
from rubric_judge.verification import parse_verification
from rubric_judge.verification.directive import SentenceScope
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from rubric_core import DocumentAnalysis, Task
    from rubric_synth.config import QualityConfig
    from rubric_synth.stages import CriterionDraft, Draft

_TEXT_FIELDS: Final = ("id", "name", "description", "scoring_guide", "verification_method")
_TERM_FIELDS: Final = ("required_elements", "expected_keywords", "expected_concepts")
_LONGEST: Final = {
    "question": 10_000,
    "passage": 250_000,
    "question_rationale": 20_000,
    "reference_answer": 100_000,
}
"""Characters, several times what anyone would write: only a reply gone wrong is longer."""
_LONGEST_CRITERION: Final = 50_000
_LONGEST_ID: Final = 200
_LONGEST_ANALYSIS: Final = 50_000
_GREATEST_WEIGHT: Final = 1_000.0
"""Scales go to 10 or to 100."""
_GREATEST_SHARE: Final = 0.9
"""Of W; a rubric whose other criteria count for next to nothing is one criterion."""
_SAME: Final = ("duplicate_criterion", "similar_ids")


def check_structure(draft: Draft, config: QualityConfig) -> None:
    """Apply the paper's structural checks, and refuse what is absurdly long.

    Raises:
        StageRefusal: With the first reason found.

    Source: paper, §3.4, Quality assurance.
    """
    if not draft.question.strip():
        raise StageRefusal(RejectionReason.EMPTY_QUESTION)
    _check_weights([criterion.weight for criterion in draft.criteria], config)
    for number, criterion in enumerate(draft.criteria, start=1):
        missing = _missing_field(criterion)
        if missing:
            name = criterion.id.strip()[:_LONGEST_ID] or f"criterion {number}"
            raise StageRefusal(RejectionReason.MISSING_FIELD, f"{name}: {missing}")
    _check_lengths(draft)
    _check_range([criterion.weight for criterion in draft.criteria])
    for name, reason in (
        ("passage", RejectionReason.MISSING_FIELD),
        ("reference_answer", RejectionReason.NO_REFERENCE),
    ):
        if not getattr(draft, name).strip():
            raise StageRefusal(reason, name)


def check_analysis(analysis: DocumentAnalysis) -> None:
    """Refuse an analysis that is absurdly long: every task of the document carries it.

    Raises:
        StageRefusal: It is.
    """
    texts = (analysis.genre, analysis.contribution, analysis.depth, analysis.reasoning_mode)
    if sum(map(len, (*texts, *analysis.concepts))) > _LONGEST_ANALYSIS:
        raise StageRefusal(RejectionReason.FIELD_TOO_LONG, "document_analysis")


def check_repetition(task: Task) -> None:
    """Check that no criterion asks again for what another asks, under its own or a like id.

    Raises:
        StageRefusal: One does; the detail names it.
    """
    for finding in check_wording(task):
        if finding.code in _SAME:
            detail = f"{finding.criterion_id} {finding.what}"
            raise StageRefusal(RejectionReason.REPEATED_CRITERION, detail)


def _check_weights(weights: list[float], config: QualityConfig) -> None:
    if len(weights) < config.min_criteria:
        detail = f"{len(weights)} criteria, below {config.limit('min_criteria')}"
        raise StageRefusal(RejectionReason.TOO_FEW_CRITERIA, detail)
    if len(weights) > config.max_criteria:
        detail = f"{len(weights)} criteria, above {config.limit('max_criteria')}"
        raise StageRefusal(RejectionReason.TOO_MANY_CRITERIA, detail)
    if any(not weight >= 0 or math.isinf(weight) for weight in weights):
        raise StageRefusal(RejectionReason.NEGATIVE_WEIGHT, "a weight is negative or not finite")
    # Plain addition, which overflows to infinity where `fsum` would raise.
    if sum(weights) < config.min_total_weight:
        detail = f"W = {sum(weights):g}, below {config.limit('min_total_weight')}"
        raise StageRefusal(RejectionReason.LOW_TOTAL_WEIGHT, detail)


def _check_range(weights: list[float]) -> None:
    greatest = max(weights)
    if greatest > _GREATEST_WEIGHT:
        detail = f"a weight of {greatest:g}, above {_GREATEST_WEIGHT:g}"
        raise StageRefusal(RejectionReason.WEIGHT_OUT_OF_RANGE, detail)
    if len(weights) > 1 and greatest > _GREATEST_SHARE * sum(weights):
        detail = f"one criterion has {greatest:g} of W = {sum(weights):g}"
        raise StageRefusal(RejectionReason.WEIGHT_OUT_OF_RANGE, detail)


def _check_lengths(draft: Draft) -> None:
    for name, limit in _LONGEST.items():
        length = len(getattr(draft, name))
        if length > limit:
            detail = f"{name}: {length} characters, above {limit}"
            raise StageRefusal(RejectionReason.FIELD_TOO_LONG, detail)
    for number, criterion in enumerate(draft.criteria, start=1):
        length = sum(len(getattr(criterion, name)) for name in _TEXT_FIELDS)
        # A term counts more than its characters, so that a list of empty ones ends too.
        terms = _terms(criterion)
        length += sum(map(len, terms)) + len(terms)
        if length > _LONGEST_CRITERION or len(criterion.id) > _LONGEST_ID:
            detail = f"criterion {number}: {length} characters, its id {len(criterion.id)}"
            raise StageRefusal(RejectionReason.FIELD_TOO_LONG, detail)


def _missing_field(criterion: CriterionDraft) -> str:
    """Return the name of the first component that a criterion lacks, or ""."""
    for name in _TEXT_FIELDS:
        if not getattr(criterion, name).strip():
            return name
    if any(map(str.strip, _terms(criterion))):
        return ""
    try:
        directive = parse_verification(criterion.verification_method)
    except VerificationError:
        return ""  # meant to be executed; whether it can be is found out by running it
    if directive is None or isinstance(directive, SentenceScope):  # a place without terms
        return ", ".join(_TERM_FIELDS[:2]) + " or an executable check"
    return ""


def _terms(criterion: CriterionDraft) -> tuple[str, ...]:
    return (
        *criterion.required_elements,
        *criterion.expected_keywords,
        *criterion.expected_concepts,
    )
