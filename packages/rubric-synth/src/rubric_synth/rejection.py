"""Why a document or a question did not reach the dataset: one typed reason each, counted."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Mapping

Stage = Literal["collect", "analyse", "synthesise", "enrich", "quality"]


class RejectionReason(StrEnum):
    """Every way to be left out."""

    # collect
    UNREADABLE = "unreadable"
    OUTSIDE_FOLDER = "outside_folder"
    UNSUPPORTED_TYPE = "unsupported_type"
    BINARY = "binary"
    WRONG_ENCODING = "wrong_encoding"
    BROKEN_RECORD = "broken_record"
    DUPLICATE_ID = "duplicate_id"
    IMPORT_FAILED = "import_failed"
    BROKEN_PDF = "broken_pdf"
    ENCRYPTED = "encrypted"
    NO_TEXT_LAYER = "no_text_layer"
    CONVERSION_FAILED = "conversion_failed"
    MISSING_EXTRA = "missing_extra"
    OTHER_LANGUAGE = "other_language"
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
    MODEL_UNAVAILABLE = "model_unavailable"
    MODEL_REFUSED = "model_refused"
    REPLY_TRUNCATED = "reply_truncated"
    REPLY_NOT_JSON = "reply_not_json"
    REPLY_OFF_SCHEMA = "reply_off_schema"
    PASSAGE_NOT_IN_DOCUMENT = "passage_not_in_document"
    # quality
    EMPTY_QUESTION = "empty_question"
    TOO_FEW_CRITERIA = "too_few_criteria"
    TOO_MANY_CRITERIA = "too_many_criteria"
    LOW_TOTAL_WEIGHT = "low_total_weight"
    NEGATIVE_WEIGHT = "negative_weight"
    WEIGHT_OUT_OF_RANGE = "weight_out_of_range"
    MISSING_FIELD = "missing_field"
    FIELD_TOO_LONG = "field_too_long"
    REPEATED_CRITERION = "repeated_criterion"
    INVALID_SCHEMA = "invalid_schema"
    NO_REFERENCE = "no_reference"
    NOT_SELF_CONTAINED = "not_self_contained"
    LEAK = "leak"
    DUPLICATE_QUESTION = "duplicate_question"
    JUDGE_UNAVAILABLE = "judge_unavailable"
    JUDGE_INVALID = "judge_invalid"
    LOW_REFERENCE_REWARD = "low_reference_reward"
    REWARDED_EMPTY_ANSWER = "rewarded_empty_answer"
    REWARDED_QUESTION_ECHO = "rewarded_question_echo"
    NOT_DISCRIMINATING = "not_discriminating"
    BROKEN_CHECK = "broken_check"

    @property
    def is_settled(self) -> bool:
        """Whether another run would end the same: False where a model or a judge gave no answer."""
        return self not in _UNSETTLED


_UNSETTLED = frozenset({RejectionReason.MODEL_UNAVAILABLE, RejectionReason.JUDGE_UNAVAILABLE})


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


def most_first(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts with the highest first; equal ones by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
