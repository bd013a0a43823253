"""Detection of sentences that deny what the passage says, or say what it denies."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from rubric_core import Grounding
from rubric_core.files import toml_beside
from rubric_judge.judges.lexical.words import (
    FUNCTION_WORDS,
    WORD,
    Sentence,
    read_sentences,
    stem,
)

_PHRASES = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in toml_beside(__file__, "polarity.toml").items()
}
_FRAME = frozenset(map(stem, FUNCTION_WORDS))
_ENOUGH = 2
"""Fewest content words that two clauses share if they are about the same thing."""
_OPENING = 4
"""Most words before a denial that opens a sentence."""
_LONGEST_PASSAGE = 100_000
"""Most characters of a passage that are read."""


class _Clause(NamedTuple):
    stems: frozenset[str]
    denied: bool


class Statements:
    """Statements that a passage affirms and denies, clause by clause, found by content words."""

    def __init__(self, passage: Grounding) -> None:
        """Read a passage.

        Args:
            passage: prose or documentation, in English; empty if there is none.
        """
        text = passage.reveal()[:_LONGEST_PASSAGE]
        clauses: list[_Clause] = []
        for sentence in read_sentences(text):
            clauses += _clauses(sentence)
        self._clauses = list(dict.fromkeys(clauses))
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, clause in enumerate(self._clauses):
            for word in clause.stems:
                self._places[word].append(place)

    def contradicted_by(self, sentence: Sentence) -> bool:
        """Tell whether a sentence denies what the passage affirms, or affirms what it denies.

        A clause is compared with those of the passage that share at least half of its content
        words; a clause without a denial only with those that share the most. It is a contradiction
        if all of them say the opposite.

        Args:
            sentence: a sentence of a response.
        """
        if not self._clauses:
            return False
        return any(self._is_contradicted(clause) for clause in _clauses(sentence))

    def _is_contradicted(self, clause: _Clause) -> bool:
        shared = Counter(
            place for word in clause.stems for place in self._places.get(word, ())
        )
        # At least half of the words; a single word suffices only if the clause has no other.
        fewest = max(min(_ENOUGH, len(clause.stems)), -(-len(clause.stems) // 2))
        near = [place for place, count in shared.items() if count >= fewest]
        if not clause.denied:
            most = max(shared.values(), default=0)
            near = [place for place in near if shared[place] == most >= _ENOUGH]
        if not near:
            return False
        return all(self._clauses[place].denied is not clause.denied for place in near)


def disowns_itself(sentence: Sentence) -> bool:
    """Tell whether a sentence denies what follows its "that": "It is a myth that …"."""
    return _PHRASES["disowned"].search(sentence.text) is not None


def opens_by_disowning(sentence: Sentence) -> bool:
    """Tell whether a sentence does so from its first words on, so that it affirms nothing."""
    match = _PHRASES["disowned"].search(sentence.text)
    if match is None:
        return False
    words_before = WORD.findall(sentence.text[: match.start()])
    return len(words_before) <= _OPENING


def disowns_the_rest(sentence: Sentence) -> bool:
    """Tell whether a sentence says that nothing of the response is right."""
    match = _PHRASES["disowns_all"].search(sentence.text)
    return match is not None and _PHRASES["here"].search(match[0]) is not None


def _clauses(sentence: Sentence) -> Iterator[_Clause]:
    disowned = disowns_itself(sentence)
    for part in _PHRASES["clause_end"].split(sentence.text):
        stems = frozenset(map(stem, WORD.findall(part))) - _FRAME
        if stems:
            yield _Clause(
                stems, disowned or _PHRASES["denial"].search(part) is not None
            )
