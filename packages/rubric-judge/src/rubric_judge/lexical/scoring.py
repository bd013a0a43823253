"""From a compiled rubric and a response to credited units per criterion.

A unit counts in a well-formed sentence that copies neither the question nor the rubric, nor an
earlier sentence of the response: said again, it would be found in places it was not put. Each
sentence earns at most one unit for every two of its words, over all criteria together, and every
share is scaled by what is not repetition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from rubric_judge.lexical.compiled import CompiledCriterion, CompiledRubric, SentenceTest
from rubric_judge.lexical.sentences import Sentence, read_sentences, repeated_share
from rubric_judge.verification.deciding import Verdict
from rubric_judge.verification.excerpts import head
from rubric_judge.verification.phrases import ContainsCheck

LONGEST_RESPONSE = 100_000
"""Characters of a response that are read, as if it ended there: some 20,000 words. A longer one is
a loop or an attack, and would only take time."""

_ECHO_SHARE = 0.8
_LEAD = 2


class Credit(NamedTuple):
    """Units that a criterion was credited, of the units that it has."""

    earned: int
    units: int
    note: str = ""
    """What else there is to say of it."""


@dataclass(slots=True)
class Reading:
    """A response while it is scored; `capacity` falls as sentences earn."""

    text: str
    sentences: list[Sentence]
    live: list[int]
    """Positions of the sentences that can earn."""
    capacity: list[int]
    """Units that each sentence can still earn."""
    original_share: float
    """1 − the share of repeated three-word runs."""
    flaws: Counter[str]
    """Why the other sentences cannot earn, and how many cannot for each reason."""

    def earn(self, term: SentenceTest, where: Sequence[int]) -> bool:
        """Credit a term to the first sentence that holds it and can still earn."""
        for position in where:
            if self.capacity[position] > 0 and term(self.sentences[position]):
                self.capacity[position] -= 1
                return True
        return False


def read_response(rubric: CompiledRubric, *, question: str, response: str) -> Reading:
    """Split a response and find the sentences that can earn credit.

    Args:
        rubric: the compiled rubric, for its own sentences.
        question: the question; repeating it earns nothing.
        response: the policy's text.

    Returns:
        The reading that every criterion of the rubric draws its credit from.
    """
    sentences = read_sentences(head(response, LONGEST_RESPONSE))
    asked = _framed_runs(question)
    first_at: dict[tuple[str, ...], int] = {}
    for position, sentence in enumerate(sentences):
        first_at.setdefault(sentence.lowered, position)
    flaws = [
        sentence.flaw
        or (sentence.lowered in rubric.own_sentences and "copied from the rubric")
        or (_repeats(sentence, asked) and "copied from the question")
        or (first_at[sentence.lowered] != position and "said before")
        or None
        for position, sentence in enumerate(sentences)
    ]
    return Reading(
        text=response,
        sentences=sentences,
        live=[position for position, flaw in enumerate(flaws) if flaw is None],
        capacity=[sentence.capacity for sentence in sentences],
        original_share=1 - repeated_share(sentences),
        flaws=Counter(flaw for flaw in flaws if flaw is not None),
    )


@lru_cache(maxsize=4096)
def _framed_runs(question: str) -> frozenset[tuple[str, str, str]]:
    return frozenset(run for sentence in read_sentences(question) for run in sentence.framed_runs)


def _repeats(sentence: Sentence, asked: frozenset[tuple[str, str, str]]) -> bool:
    # Names listed in the question's order are an answer; its wording around them is an echo.
    runs = sentence.framed_runs
    return bool(runs) and sum(run in asked for run in runs) >= _ECHO_SHARE * len(runs)


def credit_criterion(
    criterion: CompiledCriterion, reading: Reading, *, verdict: Verdict | None
) -> Credit:
    """Credit one criterion and spend the capacity of the sentences that earned it.

    Args:
        criterion: the compiled criterion.
        reading: the response; changed.
        verdict: of its check, where it has one that is no matter of sentences.

    Returns:
        Credited units and units; 0 of 0 for a criterion with nothing to look for.
    """
    if verdict is not None:
        return Credit(int(verdict.share), 1, note=verdict.note)
    if isinstance(criterion.check, ContainsCheck):
        return Credit(int(_contains(criterion, criterion.check, reading)), 1)
    return _credit_terms(criterion, reading)


def _credit_terms(criterion: CompiledCriterion, reading: Reading) -> Credit:
    where = _in_scope(criterion, reading)
    earned = sum(reading.earn(term, where) for term in criterion.terms)
    units = len(criterion.terms)
    if criterion.scope.presence:
        # Alone it would pay for any sentence with the right opening.
        earned += bool(earned)
        units += 1
    passed = _structure(criterion, reading)
    return Credit(earned + sum(passed), units + len(passed))


def _in_scope(criterion: CompiledCriterion, reading: Reading) -> list[int]:
    scope = criterion.scope
    match scope.place:
        case "first":
            where = [position for position in reading.live if position == 0]
        case "lead":
            where = [position for position in reading.live if position < _LEAD]
        case "last":
            last = len(reading.sentences) - 1
            where = [position for position in reading.live if position == last]
        case "any":
            where = reading.live
        case "with":
            where = [
                position
                for position in reading.live
                if _holds_any(reading.sentences[position], criterion.scope_tests)
            ]
    if scope.skip_first:
        where = [position for position in where if position > 0]
    return where[:1] if scope.one else where


def _holds_any(sentence: Sentence, tests: Sequence[SentenceTest]) -> bool:
    return any(test(sentence) for test in tests)


def _structure(criterion: CompiledCriterion, reading: Reading) -> list[bool]:
    checks = criterion.structure
    if checks is None:
        return []
    passed: list[bool] = []
    n_live, n_sentences = len(reading.live), len(reading.sentences)
    if checks.order:
        passed.append(_in_order(criterion.order_tests, reading))
    if checks.count is not None:
        low, high = checks.count
        passed.append(n_live == n_sentences and low <= n_sentences <= high)
    if checks.clean_end:
        passed.append(bool(reading.live) and reading.live[-1] == n_sentences - 1)
    return passed


def _in_order(groups: tuple[tuple[SentenceTest, ...], ...], reading: Reading) -> bool:
    remaining = iter(reading.live)
    # `any` over one shared iterator: each group is looked for behind the sentence of the last.
    return all(
        any(_holds_any(reading.sentences[position], group) for position in remaining)
        for group in groups
    )


def _contains(criterion: CompiledCriterion, check: ContainsCheck, reading: Reading) -> bool:
    before = reading.capacity.copy()
    found = (reading.earn(phrase, reading.live) for phrase in criterion.phrases)
    passed = all(found) if check.every else any(found)
    if not passed:
        reading.capacity = before
    return passed
