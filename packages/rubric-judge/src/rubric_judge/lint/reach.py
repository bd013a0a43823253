"""Weight that no answer can earn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from rubric_core import Criterion, Task
from rubric_judge.errors import VerificationError
from rubric_judge.lexical.words import WORD
from rubric_judge.lint.finding import Finding
from rubric_judge.lint.reading import demanded_terms, directive_of
from rubric_judge.verification import parse_verification
from rubric_judge.verification.directive import HEADS, SentenceScope, StructureChecks

_LONGEST_SENTENCE_WORDS: Final = 45
"""What the lexical judge takes for one sentence."""

_HEAD: Final = re.compile(r"\s*([A-Za-z][\w -]{0,20}?)\s*:")
"""A word or two before a colon, at the start."""
_LIKELY_MEANT: Final = 0.75

_BUDGET: Final = re.compile(
    r"\b(?:at most|no more than|not more than|fewer than|less than|under|up to|within|maximum of)"
    r"\s+(\d{1,6})\s+words\b",
    re.IGNORECASE,
)


def check_reach(task: Task) -> Iterator[Finding]:
    """Find `bad_directive`, `free_text` and `unreachable`."""
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
        else:
            yield from _misspelt(criterion)
        problem = _problem(criterion)
        if problem:
            yield _unreachable(criterion.id, problem)
    yield from _past_the_budget(task)


def _misspelt(criterion: Criterion) -> Iterator[Finding]:
    found = _HEAD.match(criterion.verification_method)
    if found is None or directive_of(criterion) is not None:
        return
    word = re.sub(r"\W+", "_", found[1].lower())
    parts = [head for head in HEADS if word in head.split("_")]
    close = get_close_matches(word, HEADS, n=1, cutoff=_LIKELY_MEANT) or parts[:1]
    if close:
        yield Finding(
            code="free_text",
            severity="warning",
            criterion_id=criterion.id,
            what=f"verification_method starts almost as a directive: did you mean `{close[0]}:`?",
            remedy="correct the word, or reword the line: as it is, no program reads it",
        )


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


_DOMINANT_SHARE: Final = 0.5
_FEWEST_CRITERIA: Final = 3
"""Of two criteria, one always has half of the weight."""


def check_weights(task: Task) -> Iterator[Finding]:
    """Find `zero_weight`, `dominant_weight` and `few_effective_criteria`."""
    rubric = task.rubric
    for criterion in rubric:
        if criterion.weight == 0:
            yield Finding(
                code="zero_weight",
                severity="error",
                criterion_id=criterion.id,
                what="the weight is 0: the judge is asked and nothing is awarded",
                remedy="give it a weight or leave the criterion out",
            )
    weighty = [criterion for criterion in rubric if criterion.weight > 0]
    if len(weighty) < _FEWEST_CRITERIA:
        return
    heaviest = max(weighty, key=lambda criterion: criterion.weight)
    share = heaviest.weight / rubric.total_weight
    if share > _DOMINANT_SHARE:
        yield Finding(
            code="dominant_weight",
            severity="warning",
            criterion_id=heaviest.id,
            what=f"has {share:.0%} of the weight of {len(weighty)} criteria",
            remedy="split it, or lower its weight: its noise is the reward's noise",
        )
    elif rubric.effective_criteria < len(weighty) / 2:
        yield Finding(
            code="few_effective_criteria",
            severity="warning",
            what=f"{len(weighty)} criteria weigh as {rubric.effective_criteria:.1f} equal ones",
            remedy="bring the weights closer, or merge the light criteria",
        )
