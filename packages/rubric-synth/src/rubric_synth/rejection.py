"""Why a document or a question did not reach the dataset: one typed reason each, counted."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Iterable

Stage = Literal["collect", "analyse", "synthesise", "enrich", "quality"]


class RejectionReason(StrEnum):
    """Every way to be left out."""

    # collect
    UNREADABLE = "unreadable"
    UNSUPPORTED_TYPE = "unsupported_type"
    BINARY = "binary"
    WRONG_ENCODING = "wrong_encoding"
    BROKEN_RECORD = "broken_record"
    DUPLICATE_ID = "duplicate_id"
    IMPORT_FAILED = "import_failed"
    EMPTY = "empty"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    EXACT_DUPLICATE = "exact_duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    SAME_NAME = "same_name"
    # analyse, synthesise, enrich
    NOT_AN_API_ENTRY = "not_an_api_entry"
    NO_SUMMARY = "no_summary"
    NO_PARAMETERS = "no_parameters"
    NO_PASSAGE = "no_passage"
    NO_QUESTION = "no_question"
    STAGE_FAILED = "stage_failed"
    # quality
    EMPTY_QUESTION = "empty_question"
    TOO_FEW_CRITERIA = "too_few_criteria"
    TOO_MANY_CRITERIA = "too_many_criteria"
    LOW_TOTAL_WEIGHT = "low_total_weight"
    NEGATIVE_WEIGHT = "negative_weight"
    MISSING_FIELD = "missing_field"
    INVALID_SCHEMA = "invalid_schema"
    NO_REFERENCE = "no_reference"
    LEAK = "leak"
    DUPLICATE_QUESTION = "duplicate_question"
    JUDGE_UNAVAILABLE = "judge_unavailable"
    LOW_REFERENCE_REWARD = "low_reference_reward"
    REWARDED_EMPTY_ANSWER = "rewarded_empty_answer"
    REWARDED_QUESTION_ECHO = "rewarded_question_echo"


class Rejection(BaseModel):
    """One document or question that was left out."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    source: str
    """Where the document came from."""
    stage: Stage
    """The step that refused it."""
    reason: RejectionReason
    """The one reason."""
    detail: str = ""
    """Numbers, names and hashes that explain the reason; never text of the document."""
    doc_hash: str = ""
    """Hash of the document, where its text could be read."""
    draft: dict[str, Any] | None = Field(default=None, repr=False)
    """The refused question with its rubric, where one was made."""


def count_reasons(rejections: Iterable[Rejection]) -> dict[str, int]:
    """Count rejections by reason, most frequent first."""
    counts = Counter(str(rejection.reason) for rejection in rejections)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
