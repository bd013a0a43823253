"""Weight that no answer can earn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rubric_core import Criterion, Task
from rubric_judge.errors import VerificationError
from rubric_judge.lexical.words import WORD
from rubric_judge.lint.finding import Finding
from rubric_judge.lint.reading import demanded_terms, directive_of
from rubric_judge.verification import parse_verification
from rubric_judge.verification.scope import SentenceScope, StructureChecks

__all__ = ["check_reach"]

_LONGEST_SENTENCE_WORDS: Final = 45
"""What the lexical judge takes for one sentence."""

_BUDGET: Final = re.compile(
    r"\b(?:at most|no more than|not more than|fewer than|less than|under|up to|within|maximum of)"
    r"\s+(\d{1,6})\s+words\b",
    re.IGNORECASE,
)


def check_reach(task: Task) -> Iterator[Finding]:
    """Find `bad_directive` and `unreachable`."""
    for criterion in task.rubric:
        try:
            parse_verification(criterion.verification_method)
        except VerificationError as error:
            yield Finding(
                code="bad_directive",
                severity="error",
                criterion_id=criterion.id,
                what=f"verification_method: {error.problem}",
                remedy="correct it: a program judge refuses the whole rubric",
            )
        problem = _problem(criterion)
        if problem:
            yield _unreachable(criterion.id, problem)
    yield from _past_the_budget(task)


def _unreachable(criterion_id: str, what: str) -> Finding:
    return Finding(
        code="unreachable",
        severity="error",
        criterion_id=criterion_id,
        what=what,
        remedy="loosen one of the two: the full weight can never be earned",
    )


def _problem(criterion: Criterion) -> str:
    check = directive_of(criterion)
    match check:
        case SentenceScope(place="first", skip_first=True):
            return "looks in the first sentence and skips the first sentence"
        case SentenceScope(one=True) | SentenceScope(place="first" | "last"):
            words = _words(criterion)
            if words > _LONGEST_SENTENCE_WORDS:
                return f"wants {words} words of required elements in one sentence"
        case StructureChecks(order=order, count=(_, most)) if len(order) > most:
            return f"wants {len(order)} sentences in order and at most {most} sentences"
        case _:
            pass
    return ""


def _words(criterion: Criterion) -> int:
    return sum(len(WORD.findall(term)) for term in set(demanded_terms(criterion)))


def _past_the_budget(task: Task) -> Iterator[Finding]:
    """Find a limit of words, in the question or a criterion, below what all criteria demand."""
    demanded = sum(
        len(WORD.findall(term))
        for term in {term for criterion in task.rubric for term in demanded_terms(criterion)}
    )
    texts = [("", task.question)] + [(c.id, c.description) for c in task.rubric]
    for criterion_id, text in texts:
        limits = [int(words) for words in _BUDGET.findall(text)]
        if limits and min(limits) < demanded:
            whose = "this criterion" if criterion_id else "the question"
            yield _unreachable(
                criterion_id,
                f"{whose} allows {min(limits)} words, the required elements alone are {demanded}",
            )
