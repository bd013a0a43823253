"""Checks that a program can run: as the model writes them, and as directives of a criterion.

The model fills typed fields, never the grammar of directives; what it fills is checked here for
form, and `rubric_synth.quality` runs it.
"""

from __future__ import annotations

from typing import Annotated, Literal, assert_never

from pydantic import ConfigDict, Field

from rubric_judge import VerificationError, parse_verification
from rubric_judge.verification.numeric import read_numeric
from rubric_synth.config import Frozen
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

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
            if not 1 <= len(phrases) <= _MOST_PHRASES:
                raise _broken(
                    f"`{check.kind}:` has {len(phrases)} phrases, not 1 to {_MOST_PHRASES}"
                )
            if any("|" in phrase or len(phrase) > _LONGEST_PHRASE for phrase in phrases):
                problem = f"has a phrase with `|` in it, or above {_LONGEST_PHRASE}"
                raise _broken(f"`{check.kind}:` {problem}")
            directive = f"{check.kind}: {' | '.join(phrases)}"
        case RegexReply():
            pattern = check.pattern.strip()
            if len(pattern) > _LONGEST_PATTERN or len(pattern.splitlines()) > 1:
                problem = f"has several lines, or more than {_LONGEST_PATTERN} characters"
                raise _broken(f"`regex:` {problem}")
            directive = f"regex: {pattern}"
        case PythonTestsReply():
            if len(check.tests) > _LONGEST_TESTS:
                raise _broken(f"`python_tests:` has more than {_LONGEST_TESTS} characters")
            directive = "python_tests:\n" + check.tests.strip("\n")
        case _:
            assert_never(check)
    try:
        parse_verification(directive)
    except VerificationError as error:
        raise _broken(error.problem) from None
    return directive


def _numeric(check: NumericReply) -> str:
    if check.tolerance < 0:
        raise _broken("`numeric:` has a negative tolerance")
    percent = check.tolerance_as == "percent"
    share = check.tolerance / 100 if percent else check.tolerance / (abs(check.value) or 1.0)
    if share > _LOOSEST:
        raise _broken(f"`numeric:` has a tolerance above {_LOOSEST:.0%} of its value")
    tolerance = f"{check.tolerance!r}{'%' if percent else ''}"
    unit = check.unit.strip()
    if unit.lower() in _NO_UNIT:
        unit = ""
    return f"numeric: {check.value!r} ± {tolerance}{_unit(unit)}; where={check.where}"


def _unit(unit: str) -> str:
    if not unit:
        return ""
    if len(unit) > _LONGEST_UNIT or any(mark in unit for mark in ";[]=\n"):
        raise _broken("`numeric:` has a unit that cannot be written as one")
    try:
        read_numeric(f"1; unit={unit}")
    except VerificationError:
        if any(map(str.isdigit, unit)):
            raise _broken("`numeric:` has a unit that is none of physics") from None
        return f" [{unit}]"
    return f"; unit={unit}"


def _broken(problem: str) -> StageRefusal:
    return StageRefusal(RejectionReason.BROKEN_CHECK, problem)
