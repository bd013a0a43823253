"""Phrases of two or three words that name the concepts of a text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Final

from rubric_judge.lexical.words import stem
from rubric_synth.extractive.terms import CorpusTerms
from rubric_synth.language import STOP_WORDS, base_forms
from rubric_synth.tables import phrase, word_set

CAVEAT_MARKERS: Final = tuple(sorted(word_set("caveat_markers")))
"""Words that mark a sentence as a limit or a warning."""

VERBS: Final = word_set("verbs")
"""Verbs, and adverbs before them, that open the summary of a function, in their base form."""

PROSE_VERBS: Final = word_set("prose_verbs")
"""Verbs that are hardly ever nouns: a phrase that holds one is cut out of a clause."""

ADVERBS: Final = word_set("adverbs")
"""Adverbs that do not show it by their ending."""

BARE_TYPES: Final = word_set("bare_types")
"""Words of a documented type that say nothing of a parameter's meaning."""

GENERIC_HEADINGS: Final = word_set("generic_headings")
"""Words of headings that name no subject."""

NOT_UNITS: Final = word_set("not_units")
"""Words after a number that are no unit."""

SKIPPED_HEADING: Final = phrase("skipped_heading")
"""Headings of sections without claims about a subject."""

CONNECTIVE: Final = phrase("connective")
"""Openings that can be left off a sentence."""

DEPENDENT: Final = phrase("dependent")
"""Openings of a sentence that makes no sense alone."""

API_DEPENDENT: Final = phrase("api_dependent")
"""The same for the short notes of an API entry."""

NOT_A_CLAIM: Final = phrase("not_a_claim")
"""Formulas, code, lost references and talk about the text itself."""

CITATION: Final = re.compile(r"\s*\((?:e\.g\.\s*|see\s+)?[A-Z][^()]{2,80}\b(?:19|20)\d\d[a-z]?\)")
"""An author and a year in parentheses."""

GLUED_HEADING: Final = re.compile(r"^(?:[A-Z][\w-]*\s+(?:(?:of|from|the|and|in|for|to|a)\s+)*){4,}")
"""A heading that ran into its first sentence."""

LEAD_IN: Final = phrase("lead_in")
"""Openings that announce a caveat."""

LOST_REFERENCE: Final = phrase("lost_reference", re.NOFLAG)
"""What a removed citation leaves behind."""


def base_form(word: str, verbs: AbstractSet[str]) -> str:
    """Return the base form of a verb in the first or third person, or "" for any other word."""
    return next((form for form in base_forms(word) if form in verbs), "")


_CHUNK = re.compile(r"[^\w\s-]+|\n+|\d\S*")
_TOKEN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_MIN_LETTERS: Final = 3
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
        for run in (*zip(tokens, tokens[1:], tokens[2:], strict=False), *pairwise(tokens)):
            if _is_nominal(run, terms) and (not prose or _is_nameable(run, terms)):
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
        if all(set(key).isdisjoint(other) for other in chosen):
            chosen.append(key)
    return tuple(shown[key] for key in chosen[:limit])


def _is_nominal(run: Sequence[str], terms: CorpusTerms) -> bool:
    if any(len(word) < _MIN_LETTERS or word.lower() in STOP_WORDS for word in run):
        return False
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
        for run in pairwise(_TOKEN.findall(chunk)):
            is_usable = _is_nominal(run, terms) and _is_nameable(run, terms)
            if is_usable and without.isdisjoint(map(stem, run)):
                weight = sum(map(terms.inverse_frequency, run))
                if weight > best_weight:
                    best, best_weight = " ".join(run), weight
    if not best:
        alone = terms.key_terms(sentence, limit=4, without=without)
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
