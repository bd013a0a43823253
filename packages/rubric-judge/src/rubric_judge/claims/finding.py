"""What an answer says of one claim: where, how much of it, and what contradicts it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from rubric_judge.claims.claim import Claim
from rubric_judge.claims.reading import Clause, Token
from rubric_judge.claims.verdicts import (
    Match,
    Stand,
    contradiction,
    match,
    other_value,
    same_value,
)

_NOTHING: Final = 0.12
"""Coverage up to which a clause says nothing of a claim."""
_ALL: Final = 0.3
"""Coverage from which it says all of it: other words are never all matched."""
_SEVERAL: Final = 2
_ONE_WORD: Final = 0.3
"""What a claim of which one word is met is worth."""
_REQUIRED: Final = 0.6
"""What the required elements of a claim are worth, where the answer holds one of them."""
_WITHOUT: Final = 0.2
"""What a claim is worth of which every required element is missing."""
_MISSING_SHOWN: Final = 4


class Finding(NamedTuple):
    """What an answer says of one claim."""

    stand: Stand
    credit: float
    """In [0, 1]."""
    where: str = ""
    """The sentence, or the part of one, that speaks of it."""
    why: str = ""
    """Which part is missing or wrong."""
    said: float = 0.0
    """How much of the claim is said, required elements aside, in [0, 1]."""
    is_value: bool = False
    """Whether a value stands where the claim has another one."""

    def may_be_more(self, claim: Claim) -> bool:
        """Whether the claim may be stated more fully than by the words that were found."""
        return (
            self.stand != "contradicted"
            and self.said < 1
            and bool(claim.clause.content)
        )

    def told(self) -> str:
        """Return the finding in words."""
        where = self.where and f" in “{self.where}”"
        return f"{self.stand} {self.credit:.2f}{where}{self.why and f': {self.why}'}"


@dataclass(frozen=True)
class Answer:
    """An answer, read."""

    clauses: tuple[Clause, ...]
    false: dict[int, str]
    """What is against the source, by position of the clause."""
    unsound: dict[int, str]
    """What is in a sentence that can state nothing."""
    support: tuple[float, ...]
    """How well the source supports each."""
    _matches: dict[tuple[str, int], Match] = field(
        default_factory=dict[tuple[str, int], Match]
    )

    def match(self, claim: Claim, window: Clause) -> Match:
        """Lay one of its windows on a claim, once.

        Args:
            claim: what is true.
            window: of this answer, which keeps it alive.
        """
        key = claim.id, id(window)
        if (found := self._matches.get(key)) is None:
            found = self._matches[key] = match(claim.clause, window)
        return found

    @cached_property
    def windows(self) -> tuple[Clause, ...]:
        """The clauses that can state a claim, and the sentences that they make up."""
        live = self._live
        parts = [clause.sentence for clause in live]
        return (
            *live,
            *(
                sentence
                for sentence in _sentences(live)
                if parts.count(sentence.sentence) > 1
            ),
        )

    @cached_property
    def sentences(self) -> tuple[Clause, ...]:
        """The sentences that are sound, whole."""
        return _sentences(
            [clause for i, clause in enumerate(self.clauses) if i not in self.unsound]
        )

    @cached_property
    def true_sentences(self) -> tuple[Clause, ...]:
        """The sentences that are sound, without the clauses that are against the source."""
        return _sentences(self._live)

    @property
    def _live(self) -> list[Clause]:
        dead = self.false.keys() | self.unsound.keys()
        return [clause for i, clause in enumerate(self.clauses) if i not in dead]


def _sentences(parts: Sequence[Clause]) -> tuple[Clause, ...]:
    """Return one clause for each sentence that the parts are of."""
    by_sentence: dict[int, list[Clause]] = {}
    for part in parts:
        by_sentence.setdefault(part.sentence, []).append(part)
    return tuple(map(_joined, by_sentence.values()))


def _joined(parts: Sequence[Clause]) -> Clause:
    return Clause(
        " ".join(part.text for part in parts),
        tuple(token for part in parts for token in part.tokens),
        parts[0].sentence,
        frozenset[str]().union(*(part.names for part in parts)),
    )


def is_about(claim: Claim, one: Clause) -> bool:
    """Tell whether a clause may speak of a claim: of its parameters, where it is about any."""
    return not claim.names or not one.names.isdisjoint(claim.names)


def contradicted(claim: Claim, answer: Answer) -> Finding | None:
    """Find a clause that contradicts a claim.

    Args:
        claim: what is true.
        answer: what is said.
    """
    for position, clause in enumerate(answer.clauses):
        if len(clause.content) < _SEVERAL or not is_about(claim, clause):
            continue
        found = answer.match(claim, clause)
        if found.reverse * min(1.0, 2 * found.coverage) < answer.support[position]:
            continue  # it speaks of something else, and is right there
        if why := contradiction(claim.clause, clause, found):
            is_value = why == other_value(claim.clause, clause)
            return Finding("contradicted", 0.0, clause.text, why, is_value=is_value)
    return None


def stated(
    claim: Claim, answer: Answer, nearness: Mapping[int, float] = MappingProxyType({})
) -> Finding:
    """Find the window that says most of a claim.

    Args:
        claim: what is true.
        answer: what is said.
        nearness: how much of the claim a sentence means, in [0, 1], by its position among
            `answer.true_sentences`.
    """
    best = 0.0
    where = ""
    why = ""
    for window in answer.windows:
        if is_about(claim, window):
            found = answer.match(claim, window)
            if (credit := _by_words(claim, found)) > best:
                best = credit
                where = window.text
                why = _missing(claim, found)
    for place, near in nearness.items():
        sentence = answer.true_sentences[place]
        if near > best and is_about(claim, sentence):
            best = near
            where = sentence.text
            why = "by its meaning"
    if not best:
        return Finding("absent", 0.0)
    credit, lacking = required_share(claim, answer, best)
    return Finding(
        "stated", credit, where, "; ".join(filter(None, (why, lacking))), best
    )


def required_share(claim: Claim, answer: Answer, said: float) -> tuple[float, str]:
    """Return what a claim earns by its required elements, and which are missing.

    Args:
        claim: what is true.
        answer: what is said.
        said: how much of the claim it says, in [0, 1].
    """
    about = [window for window in answer.windows if is_about(claim, window)]
    lacking = [
        "|".join(" ".join(token.text for token in option) for option in options)
        for options in claim.required
        if not any(_holds(window, option) for window in about for option in options)
    ]
    if not lacking:
        share = (1 - _REQUIRED) * said + _REQUIRED if claim.required else said
        return share, ""
    held = 1 - len(lacking) / len(claim.required)
    credit = (1 - _REQUIRED) * said + _REQUIRED * held if held else _WITHOUT * said
    return credit, f"without the required {', '.join(lacking)}"


def _by_words(claim: Claim, found: Match) -> float:
    own = {id(said) for token, said in found.pairs if token.root not in claim.given}
    enough = len(own) >= min(_SEVERAL, claim.own)
    coverage = found.coverage * (1.0 if enough else _ONE_WORD)
    return min(1.0, max(0.0, (coverage - _NOTHING) / (_ALL - _NOTHING)))


def _missing(claim: Claim, found: Match) -> str:
    """Say which of the claim's own words of weight that a window lacks, the heaviest first."""
    said = {id(token) for token, _ in found.pairs}
    left = [
        token
        for token in claim.clause.content
        if id(token) not in said and token.root not in claim.given
    ]
    left.sort(key=lambda token: -token.weight)
    words = ", ".join(token.text for token in left[:_MISSING_SHOWN])
    return words and f"without {words}"


def _holds(window: Clause, option: tuple[Token, ...]) -> bool:
    return all(
        any(same_value(token, other) for other in window.tokens) for token in option
    )
