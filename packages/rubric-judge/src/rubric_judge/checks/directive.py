"""The grammar of `verification_method`: what a program can execute, and where terms count."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from rubric_core import Criterion
from rubric_judge.checks.deciding import QuickCheck
from rubric_judge.checks.numeric import read_numeric
from rubric_judge.checks.pattern import read_pattern
from rubric_judge.checks.phrases import alternatives, read_contains
from rubric_judge.checks.python_tests import PythonTests, read_python_tests
from rubric_judge.checks.schema import read_schema
from rubric_judge.errors import VerificationError

Place = Literal["first", "lead", "last", "any", "with"]

_PLACES = ("first", "lead", "last", "any")
_WITH = re.compile(r"with\s*\((.*)\)")
_OPTIONS = ("skip_first", "one", "presence")
_ORDER = re.compile(r"order\s*\((.*)\)")
_COUNT = re.compile(r"count\s+(\d{1,9})\s*\.\.\s*(\d{1,9})")


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class StructureChecks:
    """Graded checks of form; each is one unit."""

    order: tuple[tuple[str, ...], ...] = ()
    """Groups of words: some sentence with each group, in this order."""
    count: tuple[int, int] | None = None
    """Bounds on the number of sentences, all of them well formed."""
    clean_end: bool = False
    """The last sentence is well formed."""


ProgramCheck = QuickCheck | PythonTests
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
    match = _HEAD.fullmatch(line.rstrip())
    if match is None:
        return None
    head, body = match.groups()
    return _READERS[head](f"{body}\n{rest}" if head in _OF_SEVERAL_LINES else body)


def read_directive(criterion: Criterion) -> Directive | None:
    """Read a criterion's verification method.

    Raises:
        VerificationError: as `parse_verification`; names the criterion.
    """
    try:
        return parse_verification(criterion.verification_method)
    except VerificationError as error:
        raise VerificationError(error.problem, criterion_id=criterion.id) from None


def check_executable(
    criterion: Criterion, *, python_tests: bool = False
) -> ProgramCheck | None:
    """Read what a program can decide a criterion by.

    Args:
        criterion: the criterion.
        python_tests: whether unit tests are run.

    Returns:
        The check; None where a judge has to read: free text, `sentences:` and `structure:`, which
        only weigh words, and unit tests that are not run.

    Raises:
        VerificationError: a directive that cannot run; names the criterion.
    """
    directive = read_directive(criterion)
    if isinstance(directive, SentenceScope | StructureChecks):
        return None
    return (
        None if isinstance(directive, PythonTests) and not python_tests else directive
    )


def _read_scope(body: str) -> SentenceScope:
    """Read `first | lead | last | any | with(a|b) [; skip_first] [; one] [; presence]`."""
    place, *options = (part.strip() for part in body.split(";"))
    unknown = [
        number for number, option in enumerate(options, 1) if option not in _OPTIONS
    ]
    if unknown:
        known = ", ".join(_OPTIONS)
        raise VerificationError(
            f"`sentences:` option {unknown[0]} is unknown; the options are {known}"
        )
    words: tuple[str, ...] = ()
    if match := _WITH.fullmatch(place):
        place = "with"
        words = alternatives(match[1], head="with")
    elif place not in _PLACES:
        raise VerificationError(
            f"`sentences:` needs one of {', '.join(_PLACES)} or with(word|word)"
        )
    return SentenceScope(place, words, *(option in options for option in _OPTIONS))


def _read_structure(body: str) -> StructureChecks:
    """Read `order(a|b -> c|d) ; count 3..7 ; clean_end`, any of them."""
    checks = StructureChecks()
    for number, part in enumerate((part.strip() for part in body.split(";")), 1):
        if match := _ORDER.fullmatch(part):
            groups = tuple(
                alternatives(group, head="order") for group in match[1].split("->")
            )
            if len(groups) == 1:
                raise VerificationError(
                    "order(...) needs at least two groups with `->` between them"
                )
            checks = replace(checks, order=groups)
        elif match := _COUNT.fullmatch(part):
            low = int(match[1])
            high = int(match[2])
            if low > high:
                raise VerificationError(
                    f"count {low}..{high} is empty; write the smaller number first"
                )
            checks = replace(checks, count=(low, high))
        elif part == "clean_end":
            checks = replace(checks, clean_end=True)
        else:
            raise VerificationError(
                f"`structure:` part {number} is unknown; the parts are order(a|b -> c), count "
                "3..7 and clean_end"
            )
    return checks


_OF_SEVERAL_LINES = ("json_schema", "python_tests")
_READERS: dict[str, Callable[[str], Directive]] = {
    "sentences": _read_scope,
    "structure": _read_structure,
    "contains_all": partial(read_contains, every=True),
    "contains_any": partial(read_contains, every=False),
    "regex": read_pattern,
    "numeric": read_numeric,
    "json_schema": read_schema,
    "python_tests": read_python_tests,
}
HEADS = tuple(_READERS)
"""The words that a directive starts with, before its colon."""
_HEAD = re.compile(rf"\s*({'|'.join(_READERS)})\s*:\s*(.*)")
