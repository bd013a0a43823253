"""A model's reply in each stage: its fixed schema, and the reading of it, which repairs nothing.

The schema goes to the server, whose grammar follows its order: reasons come before what they are
reasons for, and the reference answer comes behind the rubric that it has to satisfy. What the
quality checks count with a reason of its own (too few criteria, a negative weight, a missing
element) is in the schema as a bound for the server, and is not refused here.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema

from rubric_core.errors import RepeatedKeyError
from rubric_core.files import decode
from rubric_core.schema import sealed
from rubric_judge import ChatReply
from rubric_synth.config import Frozen, TaskType
from rubric_synth.llm.executable import CheckReply
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

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

# Hosted servers refuse a schema with the length that `sealed.Text` states.
Text = Annotated[sealed.Text, WithJsonSchema({"type": "string"})]
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


class StageReply(Frozen):
    """A model that refuses what is not asked for, shows no value, and writes its schema once."""

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the schema, the same object every time: clients ask for it at every call."""
        if "_json_schema" not in cls.__dict__:
            cls._json_schema = super().model_json_schema(*args, **kwargs)
        return cls._json_schema


class AnalysisReply(StageReply):
    """Stage 1."""

    genre: Text
    contribution: Text
    concepts: tuple[Text, ...] = _items(1, 10)
    depth: Depth
    reasoning_mode: ReasoningMode


class _Asked(StageReply):
    id: CriterionId
    name: Text
    description: Text
    required_elements: tuple[Text, ...] = _items(1, 6)
    expected_keywords: tuple[Text, ...] = _items(1, 8)
    verification_method: Text


class _Check(StageReply):
    check: CheckReply | None


class _Credit(StageReply):
    scoring_guide: Text
    weight: Weight = Field(json_schema_extra=_bounds(minimum=0, maximum=10))


# The fields of the last class come first in a schema.
class CriterionReply(_Credit, _Asked):
    """A criterion of stage 2: the five components of the paper's definition, with id and name."""


class CheckedCriterionReply(_Credit, _Check, _Asked):
    """A criterion that a program may check."""


class DraftReply(StageReply):
    """One draft of stage 2."""

    question_rationale: Text
    first_paragraph: ParagraphNumber = Field(json_schema_extra=_bounds(minimum=1))
    last_paragraph: ParagraphNumber = Field(json_schema_extra=_bounds(minimum=1))
    question: Text
    criteria: tuple[CriterionReply, ...] = _items(5, 10)
    reference_answer: Text


class SynthesisReply(StageReply):
    """Stage 2, for open questions."""

    drafts: tuple[DraftReply, ...] = _items(0, 10)


class CheckedDraftReply(StageReply):
    """One draft of stage 2 with its type."""

    question_rationale: Text
    task_type: TaskType
    first_paragraph: ParagraphNumber = Field(json_schema_extra=_bounds(minimum=1))
    last_paragraph: ParagraphNumber = Field(json_schema_extra=_bounds(minimum=1))
    question: Text
    criteria: tuple[CheckedCriterionReply, ...] = _items(5, 10)
    reference_answer: Text


class CheckedSynthesisReply(StageReply):
    """Stage 2, for questions of several types."""

    drafts: tuple[CheckedDraftReply, ...] = _items(0, 10)


class CuesReply(StageReply):
    """What tells full, partial and no credit apart."""

    full_credit: Text
    partial_credit: Text
    no_credit: Text


class EnrichedReply(StageReply):
    """What stage 3 adds to one criterion."""

    id: CriterionId
    cues: CuesReply
    expected_keywords: tuple[Text, ...] = _items(0, 5)
    expected_concepts: tuple[Text, ...] = _items(1, 3)
    verification_patterns: tuple[Text, ...] = _items(1, 3)


class EnrichmentReply(StageReply):
    """Stage 3."""

    criteria: tuple[EnrichedReply, ...] = _items(1, 10)


LONGEST_REPLY_CHARS: Final = 1_000_000
"""No model writes as much in its tokens."""

_LONGEST_PATH: Final = 4
_Model = TypeVar("_Model", bound=BaseModel)


def decoded(answer: ChatReply) -> object:
    """Return what a reply's JSON holds.

    Raises:
        StageRefusal: it was refused, cut off, or is not one JSON document without repeated keys.
    """
    text = answer.text
    match answer.finish:
        case "refused":
            raise StageRefusal(RejectionReason.MODEL_REFUSED)
        case "truncated":
            raise _cut_off(f"cut off at {len(text)} characters; raise max_tokens")
        case "oversized":
            raise _not_json("larger than what is read of an answer")
        case "complete":
            return _json(text)


def _json(text: str) -> object:
    if len(text) > LONGEST_REPLY_CHARS:
        raise _not_json(f"{len(text)} characters, more than {LONGEST_REPLY_CHARS}")
    if not text.strip():
        raise _not_json("empty")
    try:
        return decode(text)
    except RepeatedKeyError:
        refusal = _not_json("an object holds a key twice")
    except json.JSONDecodeError as error:
        # Whether the reply begins as an object and is well formed as far as it goes.
        at_end = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        if at_end and text.lstrip().startswith("{"):
            refusal = _cut_off(f"breaks off at {len(text)} characters")
        else:
            refusal = _not_json(f"{error.msg.removesuffix(' at')} at character {error.pos}")
    except RecursionError:
        refusal = _not_json("nested too deeply")
    # Out here: the error that `from None` would hide holds the whole reply.
    raise refusal


def checked(model: type[_Model], value: object) -> _Model:
    """Return a decoded value as the model it should be.

    Raises:
        StageRefusal: it is not; names the first field that is wrong.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
    first = problems[0]
    # The name of an unknown field is text of the reply.
    known = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
    path = ".".join(str(part) for part in known[:_LONGEST_PATH]) or "the reply"
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    raise StageRefusal(RejectionReason.REPLY_OFF_SCHEMA, f"{path}: {first['type']}{more}")


def items_of(value: object, *, name: str) -> list[object]:
    """Return the list that a reply holds under its only key.

    Raises:
        StageRefusal: it is not such an object.
    """
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    found = fields.get(name)
    if not isinstance(found, list) or len(fields) != 1:
        raise StageRefusal(RejectionReason.REPLY_OFF_SCHEMA, f"no object with only a list {name!r}")
    return cast("list[object]", found)


def _cut_off(detail: str) -> StageRefusal:
    return StageRefusal(RejectionReason.REPLY_TRUNCATED, detail)


def _not_json(detail: str) -> StageRefusal:
    return StageRefusal(RejectionReason.REPLY_NOT_JSON, detail)
