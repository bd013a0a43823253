"""Hedged statements: clauses of an answer that finish one opening in different ways."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from rubric_judge.judges.claims import lexicon
from rubric_judge.judges.claims.reading import Clause

_LINKS = frozenset(lexicon.GRAMMAR["links"].split())
_CONDITIONS = frozenset(lexicon.GRAMMAR["conditions"].split())
_ORDINALS = frozenset(lexicon.GRAMMAR["ordinals"].split())
"""Clauses that count, as in "second of 4 results", may say several things of one subject."""
_DEFAULT = "default"
_MOST_DEFAULTS = 1
_MOST_ENDS = 2
"""A thing may be described twice, by its type and by its meaning."""
_ALIKE = 0.5
"""Share of words from which two ends say the same."""


class _Opening(NamedTuple):
    """The words of a clause up to its verb."""

    words: tuple[str, ...]
    names: frozenset[str]
    """Identifiers that the words speak of, where none of the words names them."""

    @property
    def most_ends(self) -> int:
        return _MOST_DEFAULTS if _DEFAULT in self.words else _MOST_ENDS


def hedged(said: Sequence[Clause], claims: Sequence[Clause]) -> dict[int, str]:
    """Find the clauses that say one of several different things of a subject, and why.

    "By default `x` is None. By default `x` is 3." holds what is right and tells nobody what it is:
    an answer that lists everything that may be right has said nothing.

    Args:
        said: the clauses of an answer, in order.
        claims: the clauses of the rubric's claims; an answer may have as many different ends.

    Returns:
        Reasons by position of the clause.
    """
    in_claims = _ends(claims)
    why: dict[int, str] = {}
    for opening, by_place in _ends(said).items():
        different = _count_different([*by_place.values()])
        allowed = _count_different([*in_claims.get(opening, {}).values()])
        if different > max(opening.most_ends, allowed):
            text = f"one of {different} ends of “{' '.join(opening.words)} …”"
            why |= dict.fromkeys(by_place, text)
    return why


def _ends(clauses: Sequence[Clause]) -> dict[_Opening, dict[int, frozenset[str]]]:
    """Return the words after each opening, by position of the clause."""
    ends: defaultdict[_Opening, dict[int, frozenset[str]]] = defaultdict(dict)
    for place, clause in enumerate(clauses):
        length = _length_of_opening(clause)
        opening = _opening(clause, length)
        end = frozenset(
            token.root.lower() for token in clause.tokens[length:] if token.weight > 0
        )
        if opening is not None and end and end.isdisjoint(_ORDINALS):
            ends[opening][place] = end
    return ends


def _length_of_opening(clause: Clause) -> int:
    """Count the words of a clause up to its verb, a condition before it included."""
    texts = [token.text.lower() for token in clause.tokens]
    start = 0
    if texts and texts[0] in _CONDITIONS and "," in clause.text:
        start = len(clause.text.partition(",")[0].split())
    for place in range(start, len(texts)):
        if texts[place] in _LINKS:
            return place + 1
    return 0


def _opening(clause: Clause, length: int) -> _Opening | None:
    """Return the opening of a clause; None where its words name no subject."""
    tokens = clause.tokens[:length]
    words = tuple(token.root.lower() for token in tokens)
    if any(token.text in clause.names for token in tokens):
        return _Opening(words, frozenset())
    telling = {token.root for token in tokens if token.weight > 0}
    if telling == {_DEFAULT}:
        return _Opening(words, clause.names)
    return _Opening(words, frozenset()) if telling else None


def _count_different(ends: Sequence[frozenset[str]]) -> int:
    """Count ends that do not say the same; of two that share enough words the first counts."""
    distinct: list[frozenset[str]] = []
    for end in ends:
        if not any(
            len(end & other) >= _ALIKE * min(len(end), len(other)) for other in distinct
        ):
            distinct.append(end)
    return len(distinct)
