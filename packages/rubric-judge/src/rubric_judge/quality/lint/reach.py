"""Weight that no answer can earn."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from rubric_core import Criterion, Task
from rubric_judge.checks import directive
from rubric_judge.errors import VerificationError
from rubric_judge.judges.lexical.words import WORD
from rubric_judge.quality.lint.criterion_words import (
    PHRASES,
    demanded_terms,
    directive_of,
)
from rubric_judge.quality.lint.findings import Finding, as_error, as_warning

_LONGEST_SENTENCE_WORDS = 45
"""Most words that the lexical judge takes for one sentence."""

_HEAD = re.compile(r"\s*([A-Za-z][\w -]{0,20}?)\s*:")
"""A word or two before a colon, at the start."""
_LIKELY_MEANT = 0.75

_BUDGET = PHRASES["budget"]


def check_reach(task: Task) -> Iterator[Finding]:
    """Find `bad_directive`, `free_text` and `unreachable`."""
    for criterion in task.rubric:
        try:
            directive.parse_verification(criterion.verification_method)
        except VerificationError as error:
            yield as_error(
                "bad_directive",
                f"verification_method: {error.problem}",
                remedy="correct it: a program judge refuses the whole rubric",
                criterion_id=criterion.id,
            )
        else:
            yield from _misspelt(criterion)
        problem = _problem(criterion)
        if problem:
            yield _unreachable(problem, criterion.id)
    yield from _past_the_budget(task)


def _unreachable(problem: str, criterion_id: str) -> Finding:
    return as_error(
        "unreachable",
        problem,
        remedy="loosen one of the two: the full weight can never be earned",
        criterion_id=criterion_id,
    )


def _misspelt(criterion: Criterion) -> Iterator[Finding]:
    match = _HEAD.match(criterion.verification_method)
    if match is None or directive_of(criterion) is not None:
        return
    word = re.sub(r"\W+", "_", match[1].lower())
    parts = [head for head in directive.HEADS if word in head.split("_")]
    close = get_close_matches(word, directive.HEADS, n=1, cutoff=_LIKELY_MEANT)
    close = close or parts[:1]
    if close:
        yield as_warning(
            "free_text",
            "verification_method starts almost as a directive: did you mean "
            f"`{close[0]}:`?",
            remedy="correct the word, or reword the line: as it is, no program reads it",
            criterion_id=criterion.id,
        )


def _problem(criterion: Criterion) -> str:
    match directive_of(criterion):
        case directive.SentenceScope(place="first", skip_first=True):
            return "looks in the first sentence and skips the first sentence"
        case (
            directive.SentenceScope(one=True)
            | directive.SentenceScope(place="first" | "last")
        ):
            words = _n_words(demanded_terms(criterion))
            what = f"wants {words} words of required elements in one sentence"
            return what if words > _LONGEST_SENTENCE_WORDS else ""
        case directive.StructureChecks(order=order, count=(_, most)) if (
            len(order) > most
        ):
            return f"wants {len(order)} sentences in order and at most {most} sentences"
        case _:
            return ""


def _n_words(terms: Iterable[str]) -> int:
    return sum(len(WORD.findall(term)) for term in set(terms))


def _past_the_budget(task: Task) -> Iterator[Finding]:
    """Find a limit of words, in the question or a criterion, below the words of all criteria."""
    terms = [term for criterion in task.rubric for term in demanded_terms(criterion)]
    demanded = _n_words(terms)
    texts = [("", task.question)]
    texts += [(criterion.id, criterion.description) for criterion in task.rubric]
    for criterion_id, text in texts:
        limits = [int(words) for words in _BUDGET.findall(text)]
        if limits and min(limits) < demanded:
            whose = "this criterion" if criterion_id else "the question"
            what = f"{whose} allows {min(limits)} words, the required elements alone are {demanded}"
            yield _unreachable(what, criterion_id)


_DOMINANT_SHARE = 0.5
_FEWEST_CRITERIA = 3
"""Fewest criteria to compare; one of two always has half of the weight."""


def check_weights(task: Task) -> Iterator[Finding]:
    """Find `zero_weight`, `dominant_weight` and `few_effective_criteria`."""
    rubric = task.rubric
    for criterion in rubric:
        if criterion.weight == 0:
            yield as_error(
                "zero_weight",
                "the weight is 0: the judge is asked and nothing is awarded",
                remedy="give it a weight or leave the criterion out",
                criterion_id=criterion.id,
            )
    weighty = [criterion for criterion in rubric if criterion.weight > 0]
    if len(weighty) < _FEWEST_CRITERIA:
        return
    heaviest = max(weighty, key=lambda criterion: criterion.weight)
    share = heaviest.weight / rubric.total_weight
    if share > _DOMINANT_SHARE:
        yield as_warning(
            "dominant_weight",
            f"has {share:.0%} of the weight of {len(weighty)} criteria",
            remedy="split it, or lower its weight: its noise is the reward's noise",
            criterion_id=heaviest.id,
        )
    elif rubric.effective_criteria < len(weighty) / 2:
        yield as_warning(
            "few_effective_criteria",
            f"{len(weighty)} criteria weigh as {rubric.effective_criteria:.1f} equal ones",
            remedy="bring the weights closer, or merge the light criteria",
        )
