"""The grammar of `verification_method`: what a program can execute, and where terms count."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from rubric_judge.errors import VerificationError
from rubric_judge.verification.numeric import NumericCheck, read_numeric
from rubric_judge.verification.pattern import RegexCheck, read_pattern
from rubric_judge.verification.phrases import ContainsCheck, alternatives, read_contains
from rubric_judge.verification.python_tests import PythonTests, read_python_tests
from rubric_judge.verification.schema import SchemaCheck, read_schema

Place = Literal["first", "lead", "last", "any", "with"]

_PLACES = ("first", "lead", "last", "any")
_WITH = re.compile(r"with\s*\((.*)\)")
_OPTIONS = ("skip_first", "one", "presence")
_ORDER = re.compile(r"order\s*\((.*)\)")
_COUNT = re.compile(r"count\s+(\d{1,9})\s*\.\.\s*(\d{1,9})")


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


def read_scope(body: str) -> SentenceScope:
    """Read `first | lead | last | any | with(a|b) [; skip_first] [; one] [; presence]`.

    Args:
        body: what follows the colon.

    Returns:
        The scope.

    Raises:
        VerificationError: no such place or option.
    """
    place, *options = (part.strip() for part in body.split(";"))
    unknown = [number for number, option in enumerate(options, 1) if option not in _OPTIONS]
    if unknown:
        raise VerificationError(
            f"`sentences:` option {unknown[0]} is unknown; the options are {', '.join(_OPTIONS)}"
        )
    words: tuple[str, ...] = ()
    if found := _WITH.fullmatch(place):
        words = alternatives(found[1], head="with")
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


def read_structure(body: str) -> StructureChecks:
    """Read `order(a|b -> c|d) ; count 3..7 ; clean_end`, any of them.

    Args:
        body: what follows the colon.

    Returns:
        The checks.

    Raises:
        VerificationError: no such part, or a part that no response can pass.
    """
    order: tuple[tuple[str, ...], ...] = ()
    count: tuple[int, int] | None = None
    clean_end = False
    for number, part in enumerate((part.strip() for part in body.split(";")), 1):
        if found := _ORDER.fullmatch(part):
            order = tuple(alternatives(group, head="order") for group in found[1].split("->"))
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


ProgramCheck = ContainsCheck | RegexCheck | NumericCheck | SchemaCheck | PythonTests
"""A check that decides a criterion by itself."""

Directive = ProgramCheck | SentenceScope | StructureChecks


def parse_verification(method: str) -> Directive | None:
    """Read the executable part of a verification method.

    Args:
        method: a criterion's `verification_method`; only its first line is looked at, except by
            `json_schema:` and `python_tests:`.

    Returns:
        The directive, or None for free text.

    Raises:
        VerificationError: the line starts as a directive and does not parse; a typing error
            must not turn a check into free text unseen.
    """
    line, _, rest = method.lstrip().partition("\n")
    found = _HEAD.fullmatch(line.rstrip())
    if found is None:
        return None
    head, body = found.groups()
    return _READERS[head](f"{body}\n{rest}" if head in _OF_SEVERAL_LINES else body)


_OF_SEVERAL_LINES = ("json_schema", "python_tests")
_READERS: dict[str, Callable[[str], Directive]] = {
    "sentences": read_scope,
    "structure": read_structure,
    "contains_all": partial(read_contains, every=True),
    "contains_any": partial(read_contains, every=False),
    "regex": read_pattern,
    "numeric": read_numeric,
    "json_schema": read_schema,
    "python_tests": read_python_tests,
}
HEADS: Final = tuple(_READERS)
"""The words that a directive starts with, before its colon."""
_HEAD = re.compile(rf"\s*({'|'.join(_READERS)})\s*:\s*(.*)")
