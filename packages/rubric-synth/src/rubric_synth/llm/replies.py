"""What the model is asked to reply with in each stage, as pydantic models with a fixed schema.

The schema goes to the server, whose grammar follows its order: reasons come before what they are
reasons for, and the reference answer comes behind the rubric that it has to satisfy. What the
quality checks count with a reason of its own (too few criteria, a negative weight, a missing
element) is in the schema as a bound for the server, and is not refused here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from rubric_core import fields
from rubric_synth.config import TaskType
from rubric_synth.llm.executable import CheckReply

Depth = Literal["introductory", "intermediate", "advanced", "research"]
ReasoningMode = Literal[
    "descriptive",
    "definitional",
    "procedural",
    "causal",
    "comparative",
    "derivation",
    "empirical",
    "argumentative",
]

# Hosted servers refuse a schema with the length that `fields.Text` states.
Text = Annotated[fields.Text, WithJsonSchema({"type": "string"})]
CriterionId = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,47}$")]
"""Stands in messages and keys, so that it may hold no text."""


def _whole(value: object) -> object:
    # The strict reader gives every number as a float.
    return int(value) if isinstance(value, float) and value.is_integer() else value


ParagraphNumber = Annotated[int, BeforeValidator(_whole), Field(strict=True)]
Weight = Annotated[float, Field(strict=True, allow_inf_nan=False)]


def _bounds(**keywords: float) -> dict[str, Any]:
    return dict(keywords)


def _items(fewest: int, most: int) -> Any:
    return Field(json_schema_extra=_bounds(minItems=fewest, maxItems=most))


class Reply(BaseModel):
    """A model that refuses what is not asked for, shows no value, and writes its schema once."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the schema, the same object every time: clients ask for it at every call."""
        if "_json_schema" not in cls.__dict__:
            cls._json_schema = super().model_json_schema(*args, **kwargs)
        return cls._json_schema


class AnalysisReply(Reply):
    """Stage 1."""

    genre: Text
    contribution: Text
    concepts: tuple[Text, ...] = _items(1, 10)
    depth: Depth
    reasoning_mode: ReasoningMode


class CriterionReply(Reply):
    """A criterion of stage 2: the five components of the paper's definition, with id and name."""

    id: CriterionId
    name: Text
    description: Text
    required_elements: tuple[Text, ...] = _items(1, 6)
    expected_keywords: tuple[Text, ...] = _items(1, 8)
    verification_method: Text
    scoring_guide: Text
    weight: Weight = Field(json_schema_extra=_bounds(minimum=0, maximum=10))


class DraftReply(Reply):
    """One draft of stage 2."""

    question_rationale: Text
    first_paragraph: ParagraphNumber = Field(json_schema_extra=_bounds(minimum=1))
    last_paragraph: ParagraphNumber = Field(json_schema_extra=_bounds(minimum=1))
    question: Text
    criteria: tuple[CriterionReply, ...] = _items(5, 10)
    reference_answer: Text


class SynthesisReply(Reply):
    """Stage 2, for open questions."""

    drafts: tuple[DraftReply, ...] = _items(0, 10)


class CheckedCriterionReply(Reply):
    """A criterion that a program may check."""

    id: CriterionId
    name: Text
    description: Text
    required_elements: tuple[Text, ...] = _items(1, 6)
    expected_keywords: tuple[Text, ...] = _items(1, 8)
    verification_method: Text
    check: CheckReply | None
    scoring_guide: Text
    weight: Weight = Field(json_schema_extra=_bounds(minimum=0, maximum=10))


class CheckedDraftReply(Reply):
    """One draft of stage 2 with its type."""

    question_rationale: Text
    task_type: TaskType
    first_paragraph: ParagraphNumber = Field(json_schema_extra=_bounds(minimum=1))
    last_paragraph: ParagraphNumber = Field(json_schema_extra=_bounds(minimum=1))
    question: Text
    criteria: tuple[CheckedCriterionReply, ...] = _items(5, 10)
    reference_answer: Text


class CheckedSynthesisReply(Reply):
    """Stage 2, for questions of several types."""

    drafts: tuple[CheckedDraftReply, ...] = _items(0, 10)


class CuesReply(Reply):
    """What tells full, partial and no credit apart."""

    full_credit: Text
    partial_credit: Text
    no_credit: Text


class EnrichedReply(Reply):
    """What stage 3 adds to one criterion."""

    id: CriterionId
    cues: CuesReply
    expected_keywords: tuple[Text, ...] = _items(0, 5)
    expected_concepts: tuple[Text, ...] = _items(1, 3)
    verification_patterns: tuple[Text, ...] = _items(1, 3)


class EnrichmentReply(Reply):
    """Stage 3."""

    criteria: tuple[EnrichedReply, ...] = _items(1, 10)
