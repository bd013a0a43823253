"""Statistics of words in a collection, and the phrases that name the concepts of a text.

Words have TF-IDF weights, sentences may be boilerplate; a phrase has two or three words.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise, takewhile
from typing import Final

from rubric_core.rewriting import patterns
from rubric_judge.judges.lexical.words import stem
from rubric_synth import language
from rubric_synth.document import Document
from rubric_synth.stages.extractive.glosses import Glosses, edits
from rubric_synth.tables import phrase, read_table, word_set

_MIN_BOILERPLATE_WORDS: Final = 5
_FEWEST_OF_A_SLIP: Final = 30
_SLIPS: Final = 20
"""Least ratio of the right word's frequency to that of its slip."""
_REPEATED: Final = 3
"""Fewest documents that a sentence of boilerplate stands in."""
_LARGE_COLLECTION: Final = 20
_COMMON: Final = 0.2
_PATTERNS: Final = patterns(read_table("patterns")["terms"])
_MOST_SENTENCES: Final = 500_000
"""Sentences that are counted; beyond twice as many, the rare ones are dropped to bound memory."""


class CorpusTerms:
    """Document frequencies of stems and of sentences over a whole collection."""

    def __init__(self, documents: Iterable[Document]) -> None:
        """Read every document once."""
        self._documents = 0
        self._frequency = Counter[str]()
        self._words = Counter[str]()
        self._heads = Counter[str]()
        self._verbs = Counter[str]()
        self._names = Counter[str]()
        sentences = Counter[int]()
        self.glosses = Glosses()
        for document in documents:
            self._documents += 1
            words = language.words(document.text)
            self._words.update(words)
            self._heads.update(_PATTERNS["head_noun"].findall(document.text))
            self._verbs.update(_PATTERNS["after_verb_mark"].findall(document.text))
            self._names.update(_PATTERNS["name"].findall(document.text))
            self._frequency.update(set(map(stem, set(words))))
            names = frozenset(language.words(document.title.lower()))
            keys = {_sentence_key(s, names) for s in language.sentences(document.text)}
            sentences.update(key for key in keys if key is not None)
            self.glosses.add(document)
            if len(sentences) > 2 * _MOST_SENTENCES:
                sentences = Counter(dict(sentences.most_common(_MOST_SENTENCES)))
        self._boilerplate = {
            key for key, count in sentences.items() if count >= _REPEATED
        }

    def is_slip(self, word: str) -> bool:
        """Tell whether a word in lower case is one letter off another of far more documents."""
        mine = self._frequency[stem(word)]
        fewest = max(_FEWEST_OF_A_SLIP, _SLIPS * mine)
        others = edits(word) & self._seen
        return any(self._frequency[stem(other)] >= fewest for other in others)

    @cached_property
    def _seen(self) -> frozenset[str]:
        return frozenset(word.lower() for word in self._words)

    def inverse_frequency(self, word: str) -> float:
        """Return log((1 + N) / (1 + df)) + 1 of a word's stem, N documents, df of them with it."""
        frequency = self._frequency[stem(word)]
        return math.log((1 + self._documents) / (1 + frequency)) + 1

    def is_noun(self, word: str) -> bool:
        """Tell whether a word is seen to end noun phrases: "the sand of", but not "the slower"."""
        if self._documents < _LARGE_COLLECTION:
            return True  # too little text to tell
        return self._heads[word] >= max(1, 0.02 * self._words[word])

    def is_seen_noun(self, word: str) -> bool:
        """Tell whether a word, or its singular, is seen to end a noun phrase: "the samples are"."""
        forms = language.base_forms(word)
        heads = sum(self._heads[form] for form in dict.fromkeys(forms))
        return heads > self.verb_uses(word)

    def is_clear_noun(self, word: str) -> bool:
        """Tell whether a word ends noun phrases often: "the filter is", but not "the innate"."""
        if self._documents < _LARGE_COLLECTION:
            return True
        heads = self._heads[word]
        return heads > self.verb_uses(word) and heads >= 0.04 * self._words[word]

    def verb_uses(self, word: str) -> int:
        """Return how often a word, or what is left of it without its -s, follows "to", "can" …."""
        return max(self._verbs[form] for form in language.base_forms(word))

    def is_verb(self, word: str) -> bool:
        """Tell whether a word is a verb rather than a noun, as far as the collection shows."""
        return self.verb_uses(word) > self._heads[word]

    def is_name(self, word: str) -> bool:
        """Tell whether a word keeps its capital: "Kalman", but not "The" or "Level"."""
        return self._names[word] > self._words[word.lower()]

    def is_common(self, word: str) -> bool:
        """Tell whether a word's stem occurs in many documents of a collection of some size."""
        large = self._documents >= _LARGE_COLLECTION
        return large and self._frequency[stem(word)] > _COMMON * self._documents

    def is_boilerplate(self, sentence: str, title: str) -> bool:
        """Tell whether a sentence stands, but for the document's own name, in several documents."""
        key = _sentence_key(sentence, frozenset(language.words(title.lower())))
        return key is not None and key in self._boilerplate

    def key_terms(
        self, text: str, *, limit: int, without: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Return the terms of a text with the highest TF-IDF weight, in the order of the text.

        Args:
            text: The text that the terms come from.
            limit: Most terms to return.
            without: Stems that do not count, such as those of the question.

        Returns:
            Words as they stand in the text, one per stem; ties go to the earlier word.
        """
        words = [
            word for word in language.content_words(text) if stem(word) not in without
        ]
        counts = Counter(map(stem, words))

        def weight(word: str) -> float:
            return (1 + math.log(counts[stem(word)])) * self.inverse_frequency(word)

        first = language.first_per_stem(words)
        chosen = sorted(first, key=weight, reverse=True)[:limit]
        return tuple(_plain(word) for word in first if word in chosen)

    def weight(self, text: str) -> float:
        """Return the mean inverse frequency of a text's content words; 0 if it has none."""
        words = language.content_words(text)
        if not words:
            return 0.0
        return sum(map(self.inverse_frequency, words)) / len(words)


def _plain(word: str) -> str:
    """Lower a word that is capitalised only because it begins a sentence."""
    if word[1:].islower() or len(word) == 1:
        return word.lower()
    return word


def _sentence_key(sentence: str, names: frozenset[str]) -> int | None:
    plain = [word for word in language.words(sentence.lower()) if word not in names]
    if len(plain) < _MIN_BOILERPLATE_WORDS:
        return None
    # `hash` differs from process to process, and workers elsewhere look these keys up.
    digest = blake2b(" ".join(plain).encode(), digest_size=8).digest()
    return int.from_bytes(digest)


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

_CONNECTIVE: Final = phrase("connective")
_THAT_CLAUSE: Final = phrase("that_clause", re.NOFLAG)
_COUNTED: Final = word_set("counted")
_AFTER_VERB: Final = word_set("after_verb")
_AUXILIARIES: Final = word_set("auxiliaries")
_BEFORE_NOUN: Final = word_set("before_noun")

DEPENDENT: Final = phrase("dependent")
"""Openings of a sentence that makes no sense alone."""

API_DEPENDENT: Final = phrase("api_dependent")
"""The same for the short notes of an API entry."""

NOT_A_CLAIM: Final = phrase("not_a_claim")
"""Formulas, code, lost references and talk about the text itself."""

CITATION: Final = re.compile(
    r"\s*\((?:e\.g\.\s*|see\s+)?[A-Z][^()]{2,80}\b(?:19|20)\d\d[a-z]?\)"
)
"""An author and a year in parentheses."""

GLUED_HEADING: Final = re.compile(
    r"^(?:[A-Z][\w-]*\s+(?:(?:of|from|the|and|in|for|to|a)\s+)*){4,}"
)
"""A heading that ran into its first sentence."""

LEAD_IN: Final = phrase("lead_in")
"""Openings that announce a caveat."""

LOST_REFERENCE: Final = phrase("lost_reference", re.NOFLAG)
"""Remains of a removed citation."""


def without_opening(sentence: str) -> str:
    """Return a sentence without the connective that a comma parts from it."""
    for pattern in (_CONNECTIVE, _THAT_CLAUSE):
        match = pattern.match(sentence)
        if match is not None:
            return sentence[match.end() :]
    return sentence


def is_phrase(text: str) -> bool:
    """Tell whether a heading names something: no row of a table, no formula, no repeated cell."""
    words = language.words(text)
    bare = "".join(text.split())
    letters = sum(map(str.isalpha, bare))
    if not any(len(word) >= _MIN_LETTERS and _VOWEL.search(word) for word in words):
        return False
    if words[-1].lower() in _BEFORE_NOUN or _REPEATED_WORD.search(text):
        return False
    return letters >= _MIN_PHRASE_LETTERS * len(bare)


def base_form(word: str, verbs: AbstractSet[str]) -> str:
    """Return the base form of a verb in the first or third person, or "" for any other word."""
    for form in language.base_forms(word):
        if form in verbs:
            return form
    return ""


_VOWEL: Final = re.compile("[aeiouyAEIOUY]")
_REPEATED_WORD: Final = re.compile(r"\b(\w+)\W+\1\b(?:\W+\1\b)?", re.IGNORECASE)
_MIN_PHRASE_LETTERS: Final = 0.6
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
        limit: Most phrases to return.
        prose: Keep the capitals of names, and take only what a question can ask about.

    Returns:
        Lower-case phrases, best first; none is part of another.
    """
    runs = _runs(text, terms, prose=prose)
    keys = {run: tuple(map(stem, run)) for run in runs}
    totals: Counter[tuple[str, ...]] = Counter()
    for run, times in runs.items():
        totals[keys[run]] += times
    counts: Counter[tuple[str, ...]] = Counter()
    phrases: dict[tuple[str, ...], str] = {}
    for run, times in runs.items():
        key = keys[run]
        if totals[key] <= 1 or not _is_nominal(run, terms):
            continue
        if prose and not _is_nameable(run, terms):
            continue
        counts[key] += times
        phrases.setdefault(key, " ".join(run))
    weights: dict[tuple[str, ...], float] = {}
    for key, count in counts.items():
        if count > 1 and len(set(key)) == len(key):
            rarity = sum(terms.inverse_frequency(word) for word in key)
            weights[key] = math.log1p(count) * rarity / math.sqrt(len(key))
    chosen: list[tuple[str, ...]] = []
    for key in sorted(weights, key=lambda key: (-weights[key], key)):
        if all(set(key).isdisjoint(other) for other in chosen):
            chosen.append(key)
    return tuple(phrases[key] for key in chosen[:limit])


def _runs(text: str, terms: CorpusTerms, *, prose: bool) -> Counter[tuple[str, ...]]:
    """Count the runs of two and of three words inside the clauses of a text."""
    runs: Counter[tuple[str, ...]] = Counter()
    for chunk in _CHUNK.split(text):
        tokens: list[str] = []
        for word in _TOKEN.findall(chunk):
            is_lowered = word[1:].islower() and not (prose and terms.is_name(word))
            tokens.append(word.lower() if is_lowered else word)
        runs.update(zip(tokens, tokens[1:], tokens[2:], strict=False))
        runs.update(pairwise(tokens))
    return runs


def _is_nominal(run: Sequence[str], terms: CorpusTerms) -> bool:
    for word in run:
        if len(word) < _MIN_LETTERS or word.lower() in language.STOP_WORDS:
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
    if not ADVERBS.isdisjoint(words) or not PROSE_VERBS.isdisjoint(words):
        return False
    if any(base_form(word, PROSE_VERBS) for word in words):
        return False
    if not terms.is_name(run[-1]) and not terms.is_clear_noun(last):
        return False
    if any(word.endswith("ly") or terms.is_verb(word) for word in before):
        return False
    return not any(map(_is_plural, before)) or not terms.verb_uses(last)


def _is_plural(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ss", "us", "is", "ics"))


def _is_verb_there(tokens: Sequence[str], place: int, terms: CorpusTerms) -> bool:
    """Tell whether a word is the verb of its clause: "sodium conducts", "heaters melt the rime"."""
    word = tokens[place].lower()
    before = tokens[place - 1].lower() if place else ""
    after = tokens[place + 1].lower() if place + 1 < len(tokens) else ""
    if not before or before in _BEFORE_NOUN or word in _COUNTED:
        return False
    return after in _AFTER_VERB or _is_verb_of_clause(tokens, place, terms)


def _is_verb_of_clause(tokens: Sequence[str], place: int, terms: CorpusTerms) -> bool:
    """Tell whether a word is a verb by the words of its clause before and behind it."""
    word = tokens[place].lower()
    before = tokens[place - 1].lower()
    after = tokens[place + 1].lower() if place + 1 < len(tokens) else ""
    rest = set(takewhile(_same_clause, map(str.lower, tokens[place + 1 :])))
    if not rest.isdisjoint(_AUXILIARIES) or terms.is_seen_noun(word):
        return False
    if not _is_plural(word):
        return _is_plural(before) and before not in language.STOP_WORDS
    if not after or after in {"of", "and", "or", "that", "which"}:
        return False
    if _is_plural(before) or terms.is_name(tokens[place - 1]):
        return False
    return not any(base_form(other, _ALL_VERBS) for other in rest)


_ALL_VERBS: Final = VERBS | PROSE_VERBS
_CLAUSE_OPENERS: Final = word_set("clause_openers")
_EMPTY_NOUNS: Final = word_set("empty_nouns")


def _same_clause(word: str) -> bool:
    return word not in _CLAUSE_OPENERS


def best_phrase(sentence: str, terms: CorpusTerms, *, without: frozenset[str]) -> str:
    """Return the rarest phrase of two words in a sentence, or its rarest word.

    Args:
        sentence: One sentence.
        terms: Weights of words in the collection.
        without: Stems that the phrase must not hold.

    Returns:
        The phrase as written but for a capital at the start of the sentence; "" if there is none.
    """
    best = ""
    best_weight = 0.0
    for chunk in _CHUNK.split(sentence):
        tokens = _TOKEN.findall(chunk)
        for place, run in enumerate(pairwise(tokens), start=1):
            if not _is_nominal(run, terms) or not _is_nameable(run, terms):
                continue
            if _is_verb_there(tokens, place - 1, terms):
                continue
            if _is_verb_there(tokens, place, terms):
                continue
            if not without.isdisjoint(map(stem, run)):
                continue
            weight = sum(map(terms.inverse_frequency, run))
            if weight > best_weight:
                best = " ".join(run)
                best_weight = weight
    if not best:
        return _best_word(sentence, terms, without)
    first, _, rest = best.partition(" ")
    opens_sentence = sentence.startswith(first) and first[1:].islower()
    if opens_sentence and not terms.is_name(first):
        first = first.lower()
    return f"{first} {rest}"


def _best_word(sentence: str, terms: CorpusTerms, without: frozenset[str]) -> str:
    """Return the rarest word of a sentence that a question can name; "" if there is none."""
    no_names = set(_EMPTY_NOUNS)
    for chunk in _CHUNK.split(sentence):
        tokens = _TOKEN.findall(chunk)
        for place, token in enumerate(tokens):
            if _is_verb_there(tokens, place, terms):
                no_names.add(token.lower())
    for word in terms.key_terms(sentence, limit=4, without=without):
        if word.lower() in no_names or not terms.is_noun(word):
            continue
        if terms.is_common(word) or not _is_nameable([word], terms):
            continue
        name = word.capitalize()
        return name if terms.is_name(name) else word
    return ""
