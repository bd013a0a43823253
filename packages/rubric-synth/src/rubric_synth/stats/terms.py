"""Which terms of a rubric occur in a text, by the stems of their words."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rubric_judge.lexical.words import WORD, stem

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


class Text(NamedTuple):
    """A text as its words are counted and matched."""

    words: int
    """How many there are."""
    stems: frozenset[str]
    """Their stems."""
    lowered: str
    """All of it in lower case, for terms without a word."""


def read_text(text: str) -> Text:
    """Return a text as its words are counted and matched; numbers are words too."""
    lowered = text.lower()
    parts = lowered.split()
    # Each different part once: of a passage most are known from others.
    return Text(len(parts), frozenset().union(*map(_stems, set(parts))), lowered)


def count_words(text: str) -> int:
    """Return the number of words, as white space parts them."""
    return len(text.split())


def occurring(terms: AbstractSet[str], text: Text) -> int:
    """Return how many terms have all of their words in the text, in whatever order and form."""
    return sum(
        needed <= text.stems if (needed := _stems(term)) else term.lower() in text.lowered
        for term in terms
    )


@lru_cache(maxsize=65_536)
def _stems(term: str) -> frozenset[str]:
    return frozenset(map(stem, WORD.findall(term.lower())))
