"""A model's reply in each stage: its fixed schema, and the reading of it, which repairs nothing.

The schema goes to the server, whose grammar follows its order: reasons come before what they are
reasons for, and the reference answer comes behind the rubric that it has to satisfy. What the
quality checks count with a reason of its own (too few criteria, a negative weight, a missing
element) is in the schema as a bound for the server, and is not refused here.

Of a check that a program runs, the model fills typed fields, never the grammar of directives; what
it fills is checked here for form, and `rubric_synth.quality` runs it.
"""

from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from rubric_core import CriterionKind
from rubric_core.errors import NotJsonError
from rubric_core.schema import sealed
from rubric_core.strict_json import breaks_off, decode
from rubric_judge import ChatReply, VerificationError, parse_verification
from rubric_judge.checks.numeric import read_numeric
from rubric_synth.config import Frozen, TaskType
from rubric_synth.document import RejectionReason
from rubric_synth.stages.stages import StageRefusal, refuse

_MOST_PHRASES = 8
_LONGEST_PHRASE = 100
_LONGEST_PATTERN = 500
_LONGEST_TESTS = 8_000
_LONGEST_UNIT = 50
_LOOSEST = 0.25
"""A tolerance above this share of the value would pay for a wrong method."""
_NO_UNIT = frozenset({"", "-", "1", "n/a", "none", "unitless", "dimensionless"})


_Number = Annotated[float, Field(strict=True)]


class _Reply(Frozen):
    """Closed, and every field required: what structured outputs of all servers can hold."""

    # Docstrings of replies are part of the schema that the model is sent, and so of the key of a
    # call: another wording asks again for answers that are known.
    # Bounds are checked by `to_directive`: some servers refuse their keywords in a schema.
    model_config = ConfigDict(allow_inf_nan=False, use_attribute_docstrings=True)


class NumericReply(_Reply):
    """A quantity that the answer must state."""

    kind: Literal["numeric"]
    value: _Number
    """The right value."""
    unit: str
    """Its unit in plain symbols, such as m/s^2; empty for a pure number."""
    tolerance: _Number
    """How far off is still right."""
    tolerance_as: Literal["percent", "absolute"]
    """In percent of the value, or in its unit."""
    where: Literal["answer", "any"]
    """The final answer; or any number of the text, for an intermediate result."""


class PhrasesReply(_Reply):
    """Words that the answer must hold."""

    kind: Literal["contains_all", "contains_any"]
    phrases: tuple[str, ...]
    """Names and terms that a right answer cannot do without."""


class RegexReply(_Reply):
    """A pattern that the answer must match."""

    kind: Literal["regex"]
    pattern: str
    """A regular expression on one line."""


class PythonTestsReply(_Reply):
    """Unit tests that the answer's code must pass."""

    kind: Literal["python_tests"]
    tests: str
    """Lines of Python: `assert ...`, or functions `test_...` without arguments."""


# No discriminator: it makes `oneOf` of the schema's `anyOf`, which hosted servers refuse.
CheckReply = NumericReply | PhrasesReply | RegexReply | PythonTestsReply


def to_directive(check: CheckReply) -> str:
    """Write a check as a directive of the verification grammar.

    Args:
        check: as the model filled it.

    Returns:
        The beginning of a `verification_method`. Further lines of prose may follow it, but not
        behind `python_tests:`, whose tests go on to the end.

    Raises:
        StageRefusal: `BROKEN_CHECK`, for what no program can run or what would pay for any answer;
            names the kind and the fault, never the check's text.
    """
    match check:
        case NumericReply():
            directive = _numeric(check)
        case PhrasesReply():
            phrases = [" ".join(phrase.split()) for phrase in check.phrases]
            problem = f"{len(phrases)} phrases, not 1 to {_MOST_PHRASES}"
            _refuse(check, problem, when=not 1 <= len(phrases) <= _MOST_PHRASES)
            wrong = any(
                "|" in phrase or len(phrase) > _LONGEST_PHRASE for phrase in phrases
            )
            _refuse(
                check,
                f"a phrase with `|` in it, or above {_LONGEST_PHRASE}",
                when=wrong,
            )
            directive = f"{check.kind}: {' | '.join(phrases)}"
        case RegexReply():
            pattern = check.pattern.strip()
            wrong = len(pattern) > _LONGEST_PATTERN or len(pattern.splitlines()) > 1
            problem = f"several lines, or more than {_LONGEST_PATTERN} characters"
            _refuse(check, problem, when=wrong)
            directive = f"regex: {pattern}"
        case PythonTestsReply():
            wrong = len(check.tests) > _LONGEST_TESTS
            _refuse(check, f"more than {_LONGEST_TESTS} characters", when=wrong)
            directive = "python_tests:\n" + check.tests.strip("\n")
    try:
        parse_verification(directive)
    except VerificationError as error:
        raise StageRefusal(RejectionReason.BROKEN_CHECK, error.problem) from None
    return directive


def _numeric(check: NumericReply) -> str:
    _refuse(check, "a negative tolerance", when=check.tolerance < 0)
    percent = check.tolerance_as == "percent"
    share = (
        check.tolerance / 100
        if percent
        else check.tolerance / (abs(check.value) or 1.0)
    )
    _refuse(
        check, f"a tolerance above {_LOOSEST:.0%} of its value", when=share > _LOOSEST
    )
    tolerance = f"{check.tolerance!r}{'%' if percent else ''}"
    return f"numeric: {check.value!r} ± {tolerance}{_unit(check)}; where={check.where}"


def _unit(check: NumericReply) -> str:
    unit = check.unit.strip()
    if unit.lower() in _NO_UNIT:
        return ""
    wrong = len(unit) > _LONGEST_UNIT or any(mark in unit for mark in ";[]=\n")
    _refuse(check, "a unit that cannot be written as one", when=wrong)
    try:
        read_numeric(f"1; unit={unit}")
    except VerificationError:
        _refuse(
            check, "a unit that is none of physics", when=any(map(str.isdigit, unit))
        )
        return f" [{unit}]"
    return f"; unit={unit}"


def _refuse(check: CheckReply, problem: str, *, when: bool) -> None:
    refuse(RejectionReason.BROKEN_CHECK, f"`{check.kind}:` has {problem}", when=when)


Depth = Literal["introductory", "intermediate", "advanced", "research"]
ReasoningMode = Literal[
    "descriptive", "definitional", "procedural", "causal", "comparative", "derivation", "empirical",
    "argumentative",
]  # fmt: skip

# Hosted servers refuse a schema with the length that `sealed.Text` states.
Text = Annotated[sealed.Text, WithJsonSchema({"type": "string"})]
# Written out: a reference to an enumeration is no object that a schema closes.
_KINDS = [kind.value for kind in CriterionKind]
Kind = Annotated[CriterionKind, WithJsonSchema({"type": "string", "enum": _KINDS})]
CriterionId = Annotated[
    str, Field(strict=True, pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,47}$")
]
"""Stands in messages and keys, so that it may hold no text."""


def _whole(value: object) -> object:
    # The strict reader gives every number as a float.
    return int(value) if isinstance(value, float) and value.is_integer() else value


ParagraphNumber = Annotated[int, BeforeValidator(_whole), Field(strict=True)]
Weight = Annotated[float, Field(strict=True, allow_inf_nan=False)]


def _items(fewest: int, most: int) -> Any:
    return Field(json_schema_extra={"minItems": fewest, "maxItems": most})


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
    kind: Kind
    name: Text
    description: Text
    wrong_answer: Text
    required_elements: tuple[Text, ...] = _items(0, 6)
    expected_keywords: tuple[Text, ...] = _items(1, 8)
    verification_method: Text


class _Check(StageReply):
    check: CheckReply | None


class _Credit(StageReply):
    scoring_guide: Text
    weight: Weight = Field(json_schema_extra={"minimum": 0, "maximum": 10})


# The fields of the last class come first in a schema.
class CriterionReply(_Credit, _Asked):
    """A criterion of stage 2: the five components of the paper's definition, with id and name."""


class CheckedCriterionReply(CriterionReply, _Check, _Asked):
    """A criterion that a program may check."""


class DraftReply(StageReply):
    """One draft of stage 2."""

    question_rationale: Text
    first_paragraph: ParagraphNumber = Field(json_schema_extra={"minimum": 1})
    last_paragraph: ParagraphNumber = Field(json_schema_extra={"minimum": 1})
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
    first_paragraph: ParagraphNumber = Field(json_schema_extra={"minimum": 1})
    last_paragraph: ParagraphNumber = Field(json_schema_extra={"minimum": 1})
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


LONGEST_REPLY_CHARS = 1_000_000
"""No model writes as much in its tokens."""

_FULL = "the context is full ({n} characters came); lower synthesiser.document_chars"

_Model = TypeVar("_Model", bound=BaseModel)


def decoded(answer: ChatReply) -> object:
    """Return what a reply's JSON holds.

    Raises:
        StageRefusal: it was refused, cut off, or is not one JSON document without repeated keys.
    """
    text = answer.text
    finish = answer.finish
    cut_off = RejectionReason.REPLY_TRUNCATED
    not_json = RejectionReason.REPLY_NOT_JSON
    refuse(RejectionReason.MODEL_REFUSED, when=finish == "refused")
    detail = f"cut off at {len(text)} characters; raise max_tokens"
    refuse(cut_off, detail, when=finish == "truncated")
    refuse(cut_off, _FULL.format(n=len(text)), when=finish == "full")
    refuse(
        not_json, "larger than what is read of an answer", when=finish == "oversized"
    )
    detail = f"{len(text)} characters, more than {LONGEST_REPLY_CHARS}"
    refuse(not_json, detail, when=len(text) > LONGEST_REPLY_CHARS)
    refuse(
        not_json,
        "empty: its text stands in reasoning_content",
        when=answer.beside == "reasoning",
    )
    refuse(not_json, "empty", when=not text.strip())
    try:
        return decode(text)
    except NotJsonError as error:
        # Half a reply that nobody calls one is the server's fault.
        unsaid = "the finish_reason is missing or unknown"
        refuse(RejectionReason.MODEL_UNAVAILABLE, unsaid, when=finish == "unsaid")
        refuse(cut_off, f"breaks off at {len(text)} characters", when=breaks_off(text))
        raise StageRefusal(not_json, str(error)) from None


def checked(model: type[_Model], value: object) -> _Model:
    """Return a decoded value as the model it should be.

    Raises:
        StageRefusal: it is not; names the first field that is wrong.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = error.errors(
            include_url=False, include_context=False, include_input=False
        )
    first = problems[0]
    # The name of an unknown field is text of the reply.
    known = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
    path = ".".join(str(part) for part in known[:4]) or "the reply"
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    raise StageRefusal(
        RejectionReason.REPLY_OFF_SCHEMA, f"{path}: {first['type']}{more}"
    )


def items_of(value: object, *, name: str) -> list[object]:
    """Return the list that a reply holds under its only key.

    Raises:
        StageRefusal: The reply is not such an object.
    """
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    items = fields.get(name)
    if not isinstance(items, list) or len(fields) != 1:
        raise StageRefusal(
            RejectionReason.REPLY_OFF_SCHEMA, f"no object with only a list {name!r}"
        )
    return cast("list[object]", items)
