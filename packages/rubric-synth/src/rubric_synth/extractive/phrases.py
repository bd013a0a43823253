"""Phrases of two or three words that name the concepts of a text."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rubric_judge.lexical.words import stem
from rubric_synth.extractive.cues import ADVERBS, PROSE_VERBS, VERBS
from rubric_synth.extractive.wording import base_form
from rubric_synth.language import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_synth.extractive.terms import CorpusTerms

_CHUNK = re.compile(r"[^\w\s-]+|\n+|\d\S*")
_TOKEN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LENGTHS: Final = (3, 2)
_MIN_LETTERS: Final = 3
_SINGLE_WORDS: Final = 4
_NOT_NOUNS: Final = re.compile(r"(?:ly|ing|ed)$")


def noun_phrases(
    text: str, terms: CorpusTerms, *, limit: int, prose: bool = False
) -> tuple[str, ...]:
    """Return the phrases that a text repeats most, weighted by the rarity of their words.

    A phrase is a run of two or three content words inside one clause that does not end in a verb
    form or an adverb.

    Args:
        text: Running text.
        terms: Weights of words in the collection.
        limit: At most this many.
        prose: Keep the capitals of names, and take only what a question can ask about.

    Returns:
        Lower-case phrases, best first; none is part of another.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    shown: dict[tuple[str, ...], str] = {}
    for chunk in _CHUNK.split(text):
        tokens = [
            word.lower() if word[1:].islower() and not (prose and terms.is_name(word)) else word
            for word in _TOKEN.findall(chunk)
        ]
        for length in _LENGTHS:
            for start in range(len(tokens) - length + 1):
                run = tokens[start : start + length]
                usable = all(map(_is_content, run)) and _is_nominal(run, terms)
                if usable and (not prose or _is_nameable(run, terms)):
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


def _is_nominal(run: Sequence[str], terms: CorpusTerms) -> bool:
    last = run[-1].rpartition("-")[2]
    return terms.is_noun(last) and not _NOT_NOUNS.search(last) and run[0].lower() not in VERBS


def _is_nameable(run: Sequence[str], terms: CorpusTerms) -> bool:
    """Tell whether a run can be the object of a question: no clause, no adverb, a noun at the end.

    "measurements varies", "plays middle" and "planets orbit" are cut out of a clause.
    """
    words = [word.lower() for word in run]
    *before, last = words
    verbs = {form for word in words for form in (word, base_form(word, PROSE_VERBS)) if form}
    return (
        ADVERBS.isdisjoint(words)
        and PROSE_VERBS.isdisjoint(verbs)
        and (terms.is_name(run[-1]) or terms.is_clear_noun(last))
        and not any(word.endswith("ly") or terms.is_verb(word) for word in before)
        and not (any(map(_is_plural, before)) and terms.verb_uses(last))
    )


def _is_plural(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ss", "us", "is", "ics"))


def _is_content(word: str) -> bool:
    return len(word) >= _MIN_LETTERS and word.lower() not in STOP_WORDS


def best_phrase(sentence: str, terms: CorpusTerms, *, without: frozenset[str]) -> str:
    """Return the rarest phrase of two words in a sentence, or its rarest word.

    Args:
        sentence: One sentence.
        terms: Weights of words in the collection.
        without: Stems that the phrase must not hold.

    Returns:
        The phrase as written but for a capital at the start of the sentence; "" if there is none.
    """
    best, best_weight = "", 0.0
    for chunk in _CHUNK.split(sentence):
        tokens = _TOKEN.findall(chunk)
        for run in pairwise(tokens):
            usable = all(map(_is_content, run)) and _is_nominal(run, terms)
            if usable and _is_nameable(run, terms) and without.isdisjoint(map(stem, run)):
                weight = sum(map(terms.inverse_frequency, run))
                if weight > best_weight:
                    best, best_weight = " ".join(run), weight
    if not best:
        alone = terms.key_terms(sentence, limit=_SINGLE_WORDS, without=without)
        return next(
            (
                word.capitalize() if terms.is_name(word.capitalize()) else word
                for word in alone
                if terms.is_noun(word) and not terms.is_common(word) and _is_nameable([word], terms)
            ),
            "",
        )
    first, _, rest = best.partition(" ")
    ordinary = sentence.startswith(first) and first[1:].islower() and not terms.is_name(first)
    return f"{first.lower() if ordinary else first} {rest}"
