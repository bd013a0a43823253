"""Criteria of which no answer can meet both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from rubric_core import Criterion, Task
from rubric_judge.lint.finding import Finding
from rubric_judge.lint.reading import (
    content,
    demanded_terms,
    directive_of,
    is_negated,
    numbers,
    overlap,
    pairs_of,
    said,
)
from rubric_judge.verification.directive import StructureChecks
from rubric_judge.verification.numeric import NumericCheck
from rubric_judge.verification.pattern import ProcessorTime, RegexCheck, matches_pattern

_SAME_MATTER: Final = 0.75
_SAME_QUANTITY: Final = 0.6
_FEWEST_WORDS: Final = 2
_PATTERN_TIMEOUT_S: Final = 0.25

_FORBIDDING: Final = re.compile(
    r"\b(?:must|should|does|do|may|can)\s*n(?:o|['’])t\s+"
    r"(?:mention|contain|use|include|say|name|state|refer to|discuss|give)\b([^.;:]*)"
    r"|\bavoids?\s+(?:mentioning|using|naming|saying|stating|discussing|giving)?\b([^.;:]*)",
    re.IGNORECASE,
)


def check_contradictions(task: Task) -> Iterator[Finding]:
    """Find `contradiction`: two criteria that exclude each other."""
    for one, other in pairs_of(task.rubric.criteria):
        problem = _problem(one, other)
        if problem:
            yield Finding(
                code="contradiction",
                severity="error",
                criterion_id=other.id,
                what=f"{problem} {one.id!r}",
                remedy="change or drop one: no answer can earn the whole weight",
            )


def _problem(one: Criterion, other: Criterion) -> str:
    checks = directive_of(one), directive_of(other)
    match checks:
        case StructureChecks(count=(int(), int()) as first), StructureChecks(
            count=(int(), int()) as second
        ) if max(first[0], second[0]) > min(first[1], second[1]):
            return "asks for another number of sentences than"
        case NumericCheck(), NumericCheck() if _disagree(one, other, *checks):
            return "asks for another value of the same quantity than"
        case _:
            pass
    if _forbids(one, other) or _forbids(other, one):
        return "one demands what the other forbids: this and"
    return "says the opposite of" if _opposite(one, other) else ""


def _disagree(one: Criterion, other: Criterion, first: NumericCheck, second: NumericCheck) -> bool:
    apart = abs(first.value - second.value) > first.tolerance + second.tolerance
    words = content(one.description), content(other.description)
    same = overlap(words[0] - numbers(one.description), words[1] - numbers(other.description))
    return apart and first.unit == second.unit and same >= _SAME_QUANTITY


def _forbids(one: Criterion, other: Criterion) -> bool:
    """Whether `one` forbids a term that `other` demands."""
    demanded = demanded_terms(other)
    check = directive_of(one)
    if isinstance(check, RegexCheck) and check.pattern.lstrip("^").startswith(("(?!", "(?s)(?!")):
        return any(not _passes(check.pattern, term) for term in demanded)
    return any(
        words and words <= clause and len(words) > len(clause) / 2
        for words in map(content, demanded)
        for clause in _forbidden(one.description)
    )


@lru_cache(maxsize=4096)
def _forbidden(description: str) -> tuple[frozenset[str], ...]:
    clauses = (
        content(clause)
        for found in _FORBIDDING.finditer(description)
        for clause in found.groups("")
    )
    return tuple(clause for clause in clauses if clause)


def _passes(pattern: str, term: str) -> bool:
    try:
        return matches_pattern(
            pattern, f"It is {term} here.", time_left=ProcessorTime(_PATTERN_TIMEOUT_S)
        )
    except TimeoutError:
        return True


def _opposite(one: Criterion, other: Criterion) -> bool:
    """Whether two descriptions have the same content words and one of them a negation."""
    if is_negated(one.description) == is_negated(other.description):
        return False
    words = content(one.description), content(other.description)
    if min(map(len, words)) < _FEWEST_WORDS:
        # So short, they say the opposite only if they say it with the same verb.
        return bool(words[0]) and said(one.description) == said(other.description)
    return overlap(*words) >= _SAME_MATTER
