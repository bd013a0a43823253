"""Findings on one claim: where and how far an answer states it, and what contradicts it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from rubric_judge.judges.claims.claim import Claim
from rubric_judge.judges.claims.reading import Clause, Token
from rubric_judge.judges.claims.verdicts import (
    Match,
    Stand,
    contradiction,
    is_same_bound,
    match,
    other_value,
    same_value,
)

_NOTHING = 0.12
"""Coverage up to which a clause earns nothing."""
_ALL = 0.3
"""Coverage from which a clause earns full credit: a paraphrase never matches every word."""
_SEVERAL = 2
_ONE_WORD = 0.3
"""Share of its coverage that a match of only one word counts."""
_REQUIRED = 0.6
"""Share of the credit that depends on the required elements, where the answer holds one."""
_WITHOUT = 0.2
"""Factor on the credit where every required element is missing."""
_MISSING_SHOWN = 4


class Finding(NamedTuple):
    """The stand of an answer on one claim, with its credit."""

    stand: Stand
    credit: float
    """Credit for the claim, in [0, 1]."""
    where: str = ""
    """The sentence, or the part of one, that speaks of it."""
    why: str = ""
    """The missing or wrong part."""
    said: float = 0.0
    """Share of the claim that is said, required elements aside, in [0, 1]."""
    is_value: bool = False
    """Whether a value stands where the claim has another one."""

    def may_be_more(self, claim: Claim) -> bool:
        """Whether the claim may be stated more fully than by the words that were found."""
        return (
            self.stand != "contradicted"
            and self.said < 1
            and bool(claim.clause.content)
        )

    def in_words(self) -> str:
        """Return the finding in words."""
        text = f"{self.stand} {self.credit:.2f}"
        if self.where:
            text += f" in “{self.where}”"
        if self.why:
            text += f": {self.why}"
        return text


@dataclass(frozen=True)
class Answer:
    """An answer split into clauses, with the faults of each."""

    clauses: tuple[Clause, ...]
    false: dict[int, str]
    """Contradictions of the source, by position of the clause."""
    unsound: dict[int, str]
    """Reasons why a clause's sentence can state nothing, by position of the clause."""
    support: tuple[float, ...]
    """Support of each clause by the source."""
    _matches: dict[tuple[str, int], Match] = field(
        default_factory=dict[tuple[str, int], Match]
    )

    def match(self, claim: Claim, window: Clause) -> Match:
        """Match one window of this answer with a claim; the result is cached.

        Args:
            claim: a true statement.
            window: a window of this answer, which keeps it alive.
        """
        key = claim.id, id(window)
        answer_match = self._matches.get(key)
        if answer_match is None:
            answer_match = match(claim.clause, window)
            self._matches[key] = answer_match
        return answer_match

    @cached_property
    def windows(self) -> tuple[Clause, ...]:
        """The clauses that can state a claim, and the sentences of several of them."""
        live = self._live
        parts = [clause.sentence for clause in live]
        several = [
            sentence
            for sentence in _sentences(live)
            if parts.count(sentence.sentence) > 1
        ]
        return (*live, *several)

    @cached_property
    def sentences(self) -> tuple[Clause, ...]:
        """The sound sentences, with all of their clauses."""
        sound = [
            clause
            for place, clause in enumerate(self.clauses)
            if place not in self.unsound
        ]
        return _sentences(sound)

    @cached_property
    def true_sentences(self) -> tuple[Clause, ...]:
        """The sentences that are sound, without the clauses that are against the source."""
        return _sentences(self._live)

    @property
    def _live(self) -> list[Clause]:
        dead = self.false.keys() | self.unsound.keys()
        return [
            clause for place, clause in enumerate(self.clauses) if place not in dead
        ]


def _sentences(parts: Sequence[Clause]) -> tuple[Clause, ...]:
    """Join the parts of each sentence into one clause."""
    by_sentence: dict[int, list[Clause]] = {}
    for part in parts:
        by_sentence.setdefault(part.sentence, []).append(part)
    return tuple(_joined(clauses) for clauses in by_sentence.values())


def _joined(parts: Sequence[Clause]) -> Clause:
    tokens: list[Token] = []
    names = set[str]()
    for part in parts:
        tokens += part.tokens
        names |= part.names
    return Clause(
        text=" ".join(part.text for part in parts),
        tokens=tuple(tokens),
        sentence=parts[0].sentence,
        names=frozenset(names),
    )


def is_about(claim: Claim, clause: Clause) -> bool:
    """Tell whether a clause may speak of a claim: of its parameters, where it is about any."""
    return not claim.names or not clause.names.isdisjoint(claim.names)


def contradicted(claim: Claim, answer: Answer) -> Finding | None:
    """Find a clause that contradicts a claim.

    Args:
        claim: a true statement.
        answer: the answer to check.
    """
    for position, clause in enumerate(answer.clauses):
        if len(clause.content) < _SEVERAL or not is_about(claim, clause):
            continue
        overlap = answer.match(claim, clause)
        score = overlap.reverse * min(1.0, 2 * overlap.coverage)
        is_bound = is_same_bound(claim.clause, clause)
        if score < answer.support[position] and not is_bound:
            continue  # it speaks of something else, and is right there
        why = contradiction(claim.clause, clause, overlap)
        if why:
            is_value = why == other_value(claim.clause, clause)
            return Finding("contradicted", 0.0, clause.text, why, is_value=is_value)
    return None


def stated(
    claim: Claim, answer: Answer, nearness: Mapping[int, float] = MappingProxyType({})
) -> Finding:
    """Find the window that says most of a claim.

    Args:
        claim: a true statement.
        answer: the answer to check.
        nearness: share of the claim that a sentence means, in [0, 1], by its position among
            `answer.true_sentences`.
    """
    best = 0.0
    where = ""
    why = ""
    for window in answer.windows:
        if is_about(claim, window):
            overlap = answer.match(claim, window)
            credit = _by_words(claim, overlap)
            if credit > best:
                best = credit
                where = window.text
                why = _missing(claim, overlap)
    for place, near in nearness.items():
        sentence = answer.true_sentences[place]
        if near > best and is_about(claim, sentence):
            best = near
            where = sentence.text
            why = "by its meaning"
    if not best:
        return Finding("absent", 0.0)
    credit, lacking = required_share(claim, answer, best)
    reasons = "; ".join(reason for reason in (why, lacking) if reason)
    return Finding("stated", credit, where, reasons, best)


def required_share(claim: Claim, answer: Answer, said: float) -> tuple[float, str]:
    """Return the credit of a claim by its required elements, and the missing ones in words.

    Args:
        claim: a true statement.
        answer: the answer to check.
        said: share of the claim that the answer says, in [0, 1].
    """
    about = [window for window in answer.windows if is_about(claim, window)]
    lacking: list[str] = []
    for options in claim.required:
        if not any(_holds(window, option) for window in about for option in options):
            texts = [" ".join(token.text for token in option) for option in options]
            lacking.append("|".join(texts))
    if not claim.required:
        return said, ""
    if not lacking:
        return (1 - _REQUIRED) * said + _REQUIRED, ""
    share_held = 1 - len(lacking) / len(claim.required)
    credit = (
        (1 - _REQUIRED) * said + _REQUIRED * share_held
        if share_held
        else _WITHOUT * said
    )
    return credit, f"without the required {', '.join(lacking)}"


def _by_words(claim: Claim, overlap: Match) -> float:
    own_words = {
        id(word)
        for token, word in overlap.pairs
        if token.root not in claim.question_stems
    }
    coverage = overlap.coverage
    if len(own_words) < min(_SEVERAL, claim.own):
        coverage *= _ONE_WORD
    credit = (coverage - _NOTHING) / (_ALL - _NOTHING)
    return min(1.0, max(0.0, credit))


def _missing(claim: Claim, overlap: Match) -> str:
    """Say which of the claim's own words of weight that a window lacks, the heaviest first."""
    matched = {id(token) for token, _ in overlap.pairs}
    missing_tokens = [
        token
        for token in claim.clause.content
        if id(token) not in matched and token.root not in claim.question_stems
    ]
    missing_tokens.sort(key=lambda token: -token.weight)
    words = ", ".join(token.text for token in missing_tokens[:_MISSING_SHOWN])
    return f"without {words}" if words else ""


def _holds(window: Clause, option: tuple[Token, ...]) -> bool:
    return all(
        any(same_value(token, other) for other in window.tokens) for token in option
    )
