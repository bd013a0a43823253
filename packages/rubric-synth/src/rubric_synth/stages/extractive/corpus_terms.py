"""Statistics of words in a collection: TF-IDF weights, nouns and verbs, boilerplate, slips."""

import math
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from hashlib import blake2b

from rubric_judge.judges.lexical.words import stem
from rubric_synth import language
from rubric_synth.document import Document
from rubric_synth.stages.extractive.glosses import Glosses, edits
from rubric_synth.tables import patterns

_MIN_BOILERPLATE_WORDS = 5
_FEWEST_OF_A_SLIP = 30
_SLIPS = 20
"""Least ratio of the right word's frequency to that of its slip."""
_REPEATED = 3
"""Fewest documents that a sentence of boilerplate stands in."""
_LARGE_COLLECTION = 20
_PATTERNS = patterns("terms")
_MOST_SENTENCES = 500_000
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
            text = document.text
            words = language.words(text)
            stems = set(map(stem, set(words)))
            self._documents += 1
            self._words.update(words)
            self._frequency.update(stems)
            self._heads.update(_PATTERNS["head_noun"].findall(text))
            self._verbs.update(_PATTERNS["after_verb_mark"].findall(text))
            self._names.update(_PATTERNS["name"].findall(text))
            names = frozenset(language.words(document.title.lower()))
            keys: set[int] = set()
            for sentence in language.sentences(text):
                key = _sentence_key(sentence, names)
                if key is not None:
                    keys.add(key)
            sentences.update(keys)
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
        return any(
            self._frequency[stem(other)] >= fewest for other in edits(word) & self._seen
        )

    @cached_property
    def _seen(self) -> frozenset[str]:
        return frozenset(word.lower() for word in self._words)

    def inverse_frequency(self, word: str) -> float:
        """Return log((1 + N) / (1 + df)) + 1 of a word's stem, N documents, df of them with it."""
        frequency = self._frequency[stem(word)]
        ratio = (1 + self._documents) / (1 + frequency)
        return math.log(ratio) + 1

    def is_noun(self, word: str) -> bool:
        """Tell whether a word is seen to end noun phrases: "the sand of", but not "the slower"."""
        if self._documents < _LARGE_COLLECTION:
            return True  # too little text to tell
        fewest = max(1, 0.02 * self._words[word])
        return self._heads[word] >= fewest

    def is_clear_noun(self, word: str) -> bool:
        """Tell whether a word ends noun phrases often: "the filter is", but not "the innate"."""
        if self._documents < _LARGE_COLLECTION:
            return True
        heads = self._heads[word]
        fewest = 0.04 * self._words[word]
        return heads >= fewest and heads > self.verb_uses(word)

    def verb_uses(self, word: str) -> int:
        """Return how often a word, or what is left of it without its -s, follows "to", "can" …."""
        return max(self._verbs[form] for form in language.base_forms(word))

    def is_verb(self, word: str) -> bool:
        """Tell whether a word is a verb rather than a noun, as far as the collection shows."""
        return self.verb_uses(word) > self._heads[word]

    def is_name(self, word: str) -> bool:
        """Tell whether a word keeps its capital: "Kalman", but not "The" or "Level"."""
        return self._names[word] > self._words[word.lower()]

    def is_boilerplate(self, sentence: str, title: str) -> bool:
        """Tell whether a sentence stands, but for the document's own name, in several documents."""
        names = frozenset(language.words(title.lower()))
        key = _sentence_key(sentence, names)
        return key is not None and key in self._boilerplate

    def key_terms(self, text: str, *, limit: int) -> tuple[str, ...]:
        """Return the terms of a text with the highest TF-IDF weight, in the order of the text.

        Args:
            text: The text that the terms come from.
            limit: Most terms to return.

        Returns:
            Words as they stand in the text, one per stem; ties go to the earlier word.
        """
        words = language.content_words(text)
        counts = Counter(map(stem, words))

        def weight(word: str) -> float:
            count = counts[stem(word)]
            return (1 + math.log(count)) * self.inverse_frequency(word)

        candidates = language.first_per_stem(words)
        by_weight = sorted(candidates, key=weight, reverse=True)
        heaviest = by_weight[:limit]
        return tuple(_plain(word) for word in candidates if word in heaviest)

    def weight(self, text: str) -> float:
        """Return the mean inverse frequency of a text's content words; 0 if it has none."""
        words = language.content_words(text)
        if not words:
            return 0.0
        total = sum(map(self.inverse_frequency, words))
        return total / len(words)


def _plain(word: str) -> str:
    """Lower a word that is capitalised only because it begins a sentence."""
    if word[1:].islower() or len(word) == 1:
        return word.lower()
    return word


def _sentence_key(sentence: str, names: frozenset[str]) -> int | None:
    """Return a number for a sentence without names; None for a short one."""
    words = language.words(sentence.lower())
    plain = [word for word in words if word not in names]
    if len(plain) < _MIN_BOILERPLATE_WORDS:
        return None
    # `hash` differs from process to process, and workers elsewhere look these keys up.
    text = " ".join(plain).encode()
    digest = blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest)
