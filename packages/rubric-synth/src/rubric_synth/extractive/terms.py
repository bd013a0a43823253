"""What a collection of documents knows about words: TF-IDF weights and boilerplate sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from rubric_core.rewriting import patterns
from rubric_judge.lexical.words import stem
from rubric_synth.document import Document
from rubric_synth.language import base_forms, content_words, first_per_stem, sentences, words
from rubric_synth.tables import read_table

_MIN_BOILERPLATE_WORDS: Final = 5
_LARGE_COLLECTION: Final = 20
_COMMON: Final = 0.2
_PATTERNS: Final = patterns(read_table("patterns")["terms"])
_EXACT_KEYS: Final = 500_000
"""As long as there are no more than this, each is counted."""
_BITS: Final = 1 << 29
"""Of one Bloom filter: 64 MiB, for tens of millions of keys."""


class RepeatedKeys:
    """The keys that were added at least `times` times.

    Keys are counted until there are many. From then on one Bloom filter holds those that came once,
    one those that came twice, and so on: a key may be taken for one that came before (at 10 million
    keys, one in 30,000), never the other way round.
    """

    def __init__(self, times: int) -> None:
        """Start with none.

        Args:
            times: At least 2.
        """
        self.keys: set[int] = set()
        """Those that were added so often."""
        self._times = times
        self._counts: dict[int, int] = {}
        self._filters: list[bytearray] = []

    def add(self, keys: Iterable[int]) -> None:
        """Count each key once more.

        Args:
            keys: Hashes of 64 bits.
        """
        for key in keys:
            if key not in self.keys:
                self._add(key)
        if len(self._counts) > _EXACT_KEYS:
            self._filters = [bytearray(_BITS // 8) for _ in range(1, self._times)]
            for key, count in self._counts.items():
                for bits in self._filters[:count]:
                    _is_new(key, bits)
            self._counts = {}

    def _add(self, key: int) -> None:
        if self._filters:
            if not any(_is_new(key, bits) for bits in self._filters):
                self.keys.add(key)
            return
        count = self._counts.pop(key, 0) + 1
        if count >= self._times:
            self.keys.add(key)
        else:
            self._counts[key] = count


def _is_new(key: int, bits: bytearray) -> bool:
    """Add a key to a Bloom filter; return whether it is new."""
    is_new = False
    # The two halves of a hash give any number of independent ones.
    step = (key >> 32) | 1
    for probe in range(4):
        place = (key + probe * step) % _BITS
        bit = 1 << (place & 7)
        if not bits[place >> 3] & bit:
            bits[place >> 3] |= bit
            is_new = True
    return is_new


class CorpusTerms:
    """Document frequencies of stems and of sentences over a whole collection."""

    def __init__(self, documents: Iterable[Document]) -> None:
        """Read every document once."""
        self._documents = 0
        self._frequency, self._words = Counter[str](), Counter[str]()
        self._heads, self._verbs, self._names = Counter[str](), Counter[str](), Counter[str]()
        repeated = RepeatedKeys(3)
        for document in documents:
            self._documents += 1
            found = Counter(words(document.text))
            self._words.update(found)
            self._heads.update(_PATTERNS["head_noun"].findall(document.text))
            self._verbs.update(_PATTERNS["after_verb_mark"].findall(document.text))
            self._names.update(_PATTERNS["name"].findall(document.text))
            self._frequency.update({stem(word) for word in found})
            names = frozenset(words(document.title.lower()))
            keys = {_sentence_key(s, names) for s in sentences(document.text)}
            repeated.add(key for key in keys if key is not None)
        self._boilerplate = repeated.keys

    def inverse_frequency(self, word: str) -> float:
        """Return log((1 + N) / (1 + df)) + 1 of a word's stem, N documents, df of them with it."""
        return math.log((1 + self._documents) / (1 + self._frequency[stem(word)])) + 1

    def is_noun(self, word: str) -> bool:
        """Tell whether a word is seen to end noun phrases: "the sand of", but not "the slower"."""
        if self._documents < _LARGE_COLLECTION:
            return True  # too little text to tell
        return self._heads[word] >= max(1, 0.02 * self._words[word])

    def is_clear_noun(self, word: str) -> bool:
        """Tell whether a word ends noun phrases often: "the filter is", but not "the innate"."""
        if self._documents < _LARGE_COLLECTION:
            return True
        heads = self._heads[word]
        return heads > self.verb_uses(word) and heads >= 0.04 * self._words[word]

    def verb_uses(self, word: str) -> int:
        """Return how often a word, or what is left of it without its -s, follows "to", "can" …."""
        return max(self._verbs[form] for form in base_forms(word))

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
        key = _sentence_key(sentence, frozenset(words(title.lower())))
        return key is not None and key in self._boilerplate

    def key_terms(
        self, text: str, *, limit: int, without: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Return the terms of a text with the highest TF-IDF weight, in the order of the text.

        Args:
            text: Where the terms come from.
            limit: At most this many.
            without: Stems that do not count, such as those of the question.

        Returns:
            Words as they stand in the text, one per stem; ties go to the earlier word.
        """
        found = [word for word in content_words(text) if stem(word) not in without]
        counts = Counter(map(stem, found))

        def weight(word: str) -> float:
            return (1 + math.log(counts[stem(word)])) * self.inverse_frequency(word)

        first = first_per_stem(found)
        chosen = sorted(first, key=weight, reverse=True)[:limit]
        return tuple(_plain(word) for word in first if word in chosen)

    def weight(self, text: str) -> float:
        """Return the mean inverse frequency of a text's content words; 0 if it has none."""
        found = content_words(text)
        return sum(map(self.inverse_frequency, found)) / len(found) if found else 0.0


def _plain(word: str) -> str:
    """Lower a word that is capitalised only because it begins a sentence."""
    return word.lower() if word[1:].islower() or len(word) == 1 else word


def _sentence_key(sentence: str, names: frozenset[str]) -> int | None:
    plain = [word for word in words(sentence.lower()) if word not in names]
    if len(plain) < _MIN_BOILERPLATE_WORDS:
        return None
    # Not `hash`, which differs from process to process: workers elsewhere look these keys up.
    return int.from_bytes(blake2b(" ".join(plain).encode(), digest_size=8).digest())
