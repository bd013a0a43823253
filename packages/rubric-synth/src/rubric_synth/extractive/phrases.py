"""Phrases of two or three words that name the concepts of a text."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from rubric_judge.lexical.words import stem

from rubric_synth.extractive.wording import VERBS
from rubric_synth.language import STOP_WORDS

if TYPE_CHECKING:
    from rubric_synth.extractive.terms import CorpusTerms

_CHUNK = re.compile(r"[^\w\s-]+|\n+|\d\S*")
_TOKEN = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+)*")
_LENGTHS: Final = (3, 2)
_MIN_LETTERS: Final = 3
_NOT_NOUNS: Final = re.compile(r"(?:ly|ing|ed)$")


def noun_phrases(text: str, terms: CorpusTerms, *, limit: int) -> tuple[str, ...]:
    """Return the phrases that a text repeats most, weighted by the rarity of their words.

    A phrase is a run of two or three content words inside one clause that does not end in a verb
    form or an adverb.

    Args:
        text: Running text.
        terms: Weights of words in the collection.
        limit: At most this many.

    Returns:
        Lower-case phrases, best first; none is part of another.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    shown: dict[tuple[str, ...], str] = {}
    for chunk in _CHUNK.split(text):
        tokens = [word.lower() if word[1:].islower() else word for word in _TOKEN.findall(chunk)]
        for length in _LENGTHS:
            for start in range(len(tokens) - length + 1):
                run = tokens[start : start + length]
                if all(map(_is_content, run)) and _is_nominal(run):
                    key = tuple(map(stem, run))
                    counts[key] += 1
                    shown.setdefault(key, " ".join(run))
    weights = {
        key: math.log1p(count) * sum(terms.inverse_frequency(w) for w in key) / math.sqrt(len(key))
        for key, count in counts.items()
        if count > 1 and len(set(key)) == len(key)
    }
    chosen: list[tuple[str, ...]] = []
    for key in sorted(weights, key=lambda k: (-weights[k], k)):
        if len(chosen) == limit:
            break
        if not any(set(key) & set(other) for other in chosen):
            chosen.append(key)
    return tuple(shown[key] for key in chosen)


def _is_nominal(run: list[str]) -> bool:
    return not _NOT_NOUNS.search(run[-1]) and run[0].lower() not in VERBS


def _is_content(word: str) -> bool:
    return len(word) >= _MIN_LETTERS and word.lower() not in STOP_WORDS
