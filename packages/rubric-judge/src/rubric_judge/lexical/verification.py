"""The grammar of `verification_method`: which part of it a program can execute.

The first line is a directive when it starts with one of these heads; anything else is free text
for a language model, and the criterion's terms are then looked for in every sentence.

    sentences: first | lead | last | any | with(a|b|...) [; skip_first] [; one] [; presence]
    structure: order(a|b -> c|d) ; count 3..7 ; clean_end
    contains_all: a | b            contains_any: a | b
    regex: PATTERN                 numeric: 3.14 ± 0.01 [unit]
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from rubric_judge.errors import VerificationError

__all__ = [
    "ContainsCheck",
    "Directive",
    "NumericCheck",
    "RegexCheck",
    "SentenceScope",
    "StructureChecks",
    "parse_verification",
]

Place = Literal["first", "lead", "last", "any", "with"]


@dataclass(frozen=True, slots=True)
class SentenceScope:
    """Where the terms of a criterion count."""

    place: Place = "any"
    words: tuple[str, ...] = ()
    """For `with`: a sentence is in scope when it holds one of these."""
    skip_first: bool = False
    one: bool = False
    """Only the first sentence in scope counts."""
    presence: bool = False
    """A sentence in scope is itself one unit, credited only beside another unit."""


@dataclass(frozen=True, slots=True)
class StructureChecks:
    """Graded checks of form; each is one unit."""

    order: tuple[tuple[str, ...], ...] = ()
    """Groups of words: some sentence with each group, in this order."""
    count: tuple[int, int] | None = None
    """Bounds on the number of sentences, all of them well formed."""
    clean_end: bool = False
    """The last sentence is well formed."""


@dataclass(frozen=True, slots=True)
class ContainsCheck:
    """All, or any, of the phrases in well-formed sentences; all or nothing."""

    phrases: tuple[str, ...]
    every: bool


@dataclass(frozen=True, slots=True)
class RegexCheck:
    """A pattern that the response must match; all or nothing."""

    pattern: str


@dataclass(frozen=True, slots=True)
class NumericCheck:
    """A number that the response must state, with its unit if there is one; all or nothing."""

    value: float
    tolerance: float
    unit: str = ""


Directive = SentenceScope | StructureChecks | ContainsCheck | RegexCheck | NumericCheck

_HEAD = re.compile(r"\s*(sentences|structure|contains_all|contains_any|regex|numeric)\s*:\s*(.*)")
_PLACES = ("first", "lead", "last", "any")
_WITH = re.compile(r"with\s*\((.*)\)")
_OPTIONS = ("skip_first", "one", "presence")
_ORDER = re.compile(r"order\s*\((.*)\)")
_COUNT = re.compile(r"count\s+(\d{1,9})\s*\.\.\s*(\d{1,9})")
_NUMERIC = re.compile(
    r"(?P<value>[-+]?[\d.]+(?:[eE][-+]?\d+)?)"
    r"(?:\s*(?:±|\+/?-)\s*(?P<tolerance>[\d.]+(?:[eE][-+]?\d+)?)\s*(?P<percent>%)?)?"
    r"\s*(?:\[(?P<bracketed>[^\]]+)\]|(?P<unit>\S.*))?"
)


def parse_verification(method: str) -> Directive | None:
    """Read the executable part of a verification method.

    Args:
        method: a criterion's `verification_method`; only its first line is looked at.

    Returns:
        The directive, or None for free text.

    Raises:
        VerificationError: the line starts as a directive and does not parse; a typing error
            must not turn a check into free text unseen.
    """
    line = method.lstrip().partition("\n")[0]
    found = _HEAD.fullmatch(line.rstrip())
    if found is None:
        return None
    head, body = found.groups()
    match head:
        case "sentences":
            return _sentence_scope(body)
        case "structure":
            return _structure_checks(body)
        case "contains_all" | "contains_any":
            phrases = _alternatives(body, head)
            return ContainsCheck(phrases=phrases, every=head == "contains_all")
        case "regex":
            return _regex_check(body)
        case _:
            return _numeric_check(body)


def _sentence_scope(body: str) -> SentenceScope:
    place, *options = (part.strip() for part in body.split(";"))
    unknown = [number for number, option in enumerate(options, 1) if option not in _OPTIONS]
    if unknown:
        raise VerificationError(
            f"`sentences:` option {unknown[0]} is unknown; the options are {', '.join(_OPTIONS)}"
        )
    words: tuple[str, ...] = ()
    if found := _WITH.fullmatch(place):
        words = _alternatives(found[1], "with")
        place = "with"
    elif place not in _PLACES:
        raise VerificationError(
            f"`sentences:` needs one of {', '.join(_PLACES)} or with(word|word)"
        )
    return SentenceScope(
        place=place,
        words=words,
        skip_first="skip_first" in options,
        one="one" in options,
        presence="presence" in options,
    )


def _structure_checks(body: str) -> StructureChecks:
    order: tuple[tuple[str, ...], ...] = ()
    count: tuple[int, int] | None = None
    clean_end = False
    for number, part in enumerate((part.strip() for part in body.split(";")), 1):
        if found := _ORDER.fullmatch(part):
            order = tuple(_alternatives(group, "order") for group in found[1].split("->"))
        elif found := _COUNT.fullmatch(part):
            count = int(found[1]), int(found[2])
        elif part == "clean_end":
            clean_end = True
        else:
            msg = (
                f"`structure:` part {number} is unknown; "
                "the parts are order(a|b -> c), count 3..7 and clean_end"
            )
            raise VerificationError(msg)
    if order and len(order) == 1:
        raise VerificationError("order(...) needs at least two groups with `->` between them")
    if count is not None and count[0] > count[1]:
        raise VerificationError(
            f"count {count[0]}..{count[1]} is empty; write the smaller number first"
        )
    return StructureChecks(order=order, count=count, clean_end=clean_end)


def _alternatives(body: str, head: str) -> tuple[str, ...]:
    words = tuple(word.strip().strip("`") for word in body.split("|"))
    if not all(words):
        raise VerificationError(
            f"`{head}` needs words with `|` between them, and none of them empty"
        )
    return words


def _regex_check(body: str) -> RegexCheck:
    # Loaded when a rubric asks for it: most do not.
    import regex  # noqa: PLC0415

    if not body:
        raise VerificationError("`regex:` needs a pattern")
    try:
        regex.compile(body)
    except (RecursionError, OverflowError, MemoryError):
        raise VerificationError(
            f"`regex:` is no usable pattern: its {len(body)} characters nest too deep"
        ) from None
    except regex.error as error:
        raise VerificationError(
            f"`regex:` is no pattern: see its character {getattr(error, 'pos', 0)}"
        ) from None
    return RegexCheck(pattern=body)


def _numeric_check(body: str) -> NumericCheck:
    found = _NUMERIC.fullmatch(body)
    try:
        value = float(found["value"]) if found else math.nan
        tolerance = float(found["tolerance"] or 0) if found else math.nan
    except ValueError:
        value = tolerance = math.nan
    if found is None or not (math.isfinite(value) and math.isfinite(tolerance)):
        raise VerificationError(
            "`numeric:` needs VALUE ± TOLERANCE [unit], for example `numeric: 3.14 ± 0.01 m`"
        )
    if found["percent"]:
        tolerance *= abs(value) / 100
    unit = (found["bracketed"] or found["unit"] or "").strip()
    return NumericCheck(value=value, tolerance=tolerance, unit=unit)
