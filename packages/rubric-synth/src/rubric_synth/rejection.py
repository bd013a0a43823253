"""Why a document or a question did not reach the dataset, counted, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from rubric_synth.config import Frozen, SynthConfig
from rubric_synth.errors import SynthError
from rubric_synth.tables import read_table

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
        return self not in {RejectionReason.MODEL_UNAVAILABLE, RejectionReason.JUDGE_UNAVAILABLE}


_KEY: Final = re.compile(r"\b(?:collect|quality|synthesiser)(?:\.\w+)+")


class RefusedError(SynthError, ValueError):
    """Input that does not become a task; it becomes a counted rejection."""

    def __init__(self, reason: RejectionReason, detail: str = "") -> None:
        """Keep the reason and its detail."""
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        """Name the reason and, where there is one, the detail."""
        return f"{self.reason}: {self.detail}" if self.detail else str(self.reason)


class Rejection(Frozen):
    """One document or question that was left out."""

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


def left_out(source: str, reason: RejectionReason, detail: str, doc_hash: str = "") -> Rejection:
    """Return the rejection of what does not enter a collection."""
    return Rejection(
        source=source, stage="collect", reason=reason, detail=detail, doc_hash=doc_hash
    )


def most_first(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts with the highest first; equal ones by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def what_to_do(reason: str, config: SynthConfig) -> str:
    """Say what to do about a reason, with the present value of each key that it names."""
    table = read_table("remedies")
    said = table["remedy"].get(reason) or table["nothing"][reason]
    return _KEY.sub(lambda key: key[0] + _value(key[0], config), said)


def _value(key: str, config: SynthConfig) -> str:
    """Return the value of a key in brackets; "" for a part, and for one of another synthesiser."""
    value: object = config
    for name in key.split("."):
        value = getattr(value, name, None)
    return "" if value is None or isinstance(value, BaseModel | tuple) else f" (now {value})"


def remedies(reasons: Iterable[str]) -> str:
    """Say what to do about some reasons, each thing once; "" where nothing can be done."""
    table: dict[str, str] = read_table("remedies")["remedy"]
    return "; ".join(dict.fromkeys(table[reason] for reason in reasons if reason in table))
