"""Phrases that name the concepts of a text: two or three words, the rare ones first."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise

from rubric_judge.judges.lexical.words import stem
from rubric_synth import language
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms
from rubric_synth.tables import phrase, word_set

VERBS = word_set("verbs")
"""Verbs, and adverbs before them, that open the summary of a function, in their base form."""

PROSE_VERBS = word_set("prose_verbs")
"""Verbs that are hardly ever nouns: a phrase that holds one is cut out of a clause."""

ADVERBS = word_set("adverbs")
"""Adverbs that do not show it by their ending."""


GENERIC_HEADINGS = word_set("generic_headings")
"""Words of headings that name no subject."""


SKIPPED_HEADING = phrase("skipped_heading")
"""Headings of sections without claims about a subject."""

_BEFORE_NOUN = word_set("before_noun")


CITATION = re.compile(
    r"\s*\((?:e\.g\.\s*|see\s+)?[A-Z][^()]{2,80}\b(?:19|20)\d\d[a-z]?\)"
)
"""An author and a year in parentheses."""


LEAD_IN = phrase("lead_in")
"""Openings that announce a caveat."""


def is_phrase(text: str) -> bool:
    """Tell whether a heading names something: no row of a table, no formula, no repeated cell."""
    words = language.words(text)
    if not any(len(word) >= _MIN_LETTERS and _VOWEL.search(word) for word in words):
        return False
    if words[-1].lower() in _BEFORE_NOUN:
        return False
    if _REPEATED_WORD.search(text):
        return False
    characters = "".join(text.split())
    letters = sum(map(str.isalpha, characters))
    return letters >= _MIN_PHRASE_LETTERS * len(characters)


def base_form(word: str, verbs: AbstractSet[str]) -> str:
    """Return the base form of a verb in the first or third person, or "" for any other word."""
    for form in language.base_forms(word):
        if form in verbs:
            return form
    return ""


_VOWEL = re.compile("[aeiouyAEIOUY]")
_REPEATED_WORD = re.compile(r"\b(\w+)\W+\1\b(?:\W+\1\b)?", re.IGNORECASE)
_MIN_PHRASE_LETTERS = 0.6
_CHUNK = re.compile(r"[^\w\s-]+|\n+|\d\S*")
_TOKEN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_MIN_LETTERS = 3
_NOT_NOUNS = re.compile(r"(?:ly|ing|ed)$")


_Words = tuple[str, ...]


def noun_phrases(
    text: str,
    terms: CorpusTerms,
    *,
    limit: int,
    prose: bool = False,
) -> tuple[str, ...]:
    """Return the phrases that a text repeats most, weighted by the rarity of their words.

    A phrase is a run of two or three content words inside one clause that does not end in a verb
    form or an adverb.

    Args:
        text: Running text.
        terms: Weights of words in the collection.
        limit: Most phrases to return.
        prose: Keep the capitals of names, and take only what a question can ask about.

    Returns:
        Lower-case phrases, best first; none is part of another.
    """
    runs = _runs(text, terms, prose=prose)
    stems_of = {run: tuple(map(stem, run)) for run in runs}
    totals = Counter[_Words]()
    for run, times in runs.items():
        totals[stems_of[run]] += times
    counts = Counter[_Words]()
    phrases: dict[_Words, str] = {}
    for run, times in runs.items():
        stems = stems_of[run]
        if totals[stems] <= 1 or not _is_nominal(run, terms):
            continue
        if prose and not _is_nameable(run, terms):
            continue
        counts[stems] += times
        phrases.setdefault(stems, " ".join(run))
    chosen: list[_Words] = []
    for stems in _by_weight(counts, terms):
        if all(set(stems).isdisjoint(other) for other in chosen):
            chosen.append(stems)
    return tuple(phrases[stems] for stems in chosen[:limit])


def _by_weight(counts: Counter[_Words], terms: CorpusTerms) -> list[_Words]:
    """Sort the stems of phrases that are repeated, and repeat no stem, by their weight."""
    weights: dict[_Words, float] = {}
    for stems, count in counts.items():
        if count <= 1:
            continue
        if len(set(stems)) < len(stems):
            continue
        rarity = sum(terms.inverse_frequency(word) for word in stems)
        weights[stems] = math.log1p(count) * rarity / math.sqrt(len(stems))
    return sorted(weights, key=lambda stems: (-weights[stems], stems))


def _runs(
    text: str,
    terms: CorpusTerms,
    *,
    prose: bool,
) -> Counter[_Words]:
    """Count the runs of two and of three words inside the clauses of a text."""
    runs = Counter[_Words]()
    for chunk in _CHUNK.split(text):
        words: list[str] = []
        for word in _TOKEN.findall(chunk):
            keeps_capital = prose and terms.is_name(word)
            if word[1:].islower() and not keeps_capital:
                words.append(word.lower())
            else:
                words.append(word)
        threes = zip(words, words[1:], words[2:], strict=False)
        runs.update(threes)
        runs.update(pairwise(words))
    return runs


def _is_nominal(run: Sequence[str], terms: CorpusTerms) -> bool:
    for word in run:
        if len(word) < _MIN_LETTERS:
            return False
        if word.lower() in language.STOP_WORDS:
            return False
    last = run[-1].rpartition("-")[2]
    if not terms.is_noun(last) or _NOT_NOUNS.search(last):
        return False
    return run[0].lower() not in VERBS


def _is_nameable(run: Sequence[str], terms: CorpusTerms) -> bool:
    """Tell whether a run can be the object of a question: no clause, no adverb, a noun at the end.

    "measurements varies", "plays middle" and "planets orbit" are cut out of a clause.
    """
    words = [word.lower() for word in run]
    *before, last = words
    if not ADVERBS.isdisjoint(words):
        return False
    if not PROSE_VERBS.isdisjoint(words):
        return False
    if any(base_form(word, PROSE_VERBS) for word in words):
        return False
    if not terms.is_name(run[-1]) and not terms.is_clear_noun(last):
        return False
    if any(word.endswith("ly") or terms.is_verb(word) for word in before):
        return False
    has_plural = any(map(_is_plural, before))
    return not has_plural or terms.verb_uses(last) == 0


def _is_plural(word: str) -> bool:
    if not word.endswith("s"):
        return False
    return not word.endswith(("ss", "us", "is", "ics"))
