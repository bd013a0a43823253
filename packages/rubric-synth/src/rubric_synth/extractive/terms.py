"""What a collection of documents knows about words: TF-IDF weights and boilerplate sentences."""

from __future__ import annotations

import math
import re
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from rubric_judge.lexical.words import stem
from rubric_synth.extractive.repeated import RepeatedKeys
from rubric_synth.language import content_words, sentences, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rubric_synth.document import Document

_BOILERPLATE_DOCUMENTS: Final = 3
_MIN_BOILERPLATE_WORDS: Final = 5
_NOUN_FRAC: Final = 0.02
_LARGE_COLLECTION: Final = 20
_COMMON_FRAC: Final = 0.1
_HEAD_NOUN = re.compile(
    r"\b(?:the|a|an|this|these|each|of|its)\s+(\w+)"
    r"(?=[.,;:)]|\s+(?:of|is|are|was|were|in|to|and|or|for|that|which|with|by|on|at|as|from|can|may|has|have)\b)"
)


_AFTER_VERB_MARK = re.compile(
    r"\b(?:to|can|cannot|could|may|might|must|will|would|should)\s+([a-z]+)"
)
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]\w+")
_CLEAR_NOUN_FRAC: Final = 0.04


class CorpusTerms:
    """Document frequencies of stems and of sentences over a whole collection."""

    def __init__(self, documents: Iterable[Document]) -> None:
        """Read every document once."""
        self._documents = 0
        self._frequency: Counter[str] = Counter()
        self._words: Counter[str] = Counter()
        self._heads: Counter[str] = Counter()
        self._verbs: Counter[str] = Counter()
        self._names: Counter[str] = Counter()
        repeated = RepeatedKeys(_BOILERPLATE_DOCUMENTS)
        for document in documents:
            self._documents += 1
            found = Counter(words(document.text))
            self._words.update(found)
            self._heads.update(_HEAD_NOUN.findall(document.text))
            self._verbs.update(_AFTER_VERB_MARK.findall(document.text))
            self._names.update(_NAME.findall(document.text))
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
        heads = self._heads[word]
        return heads > 0 and heads >= _NOUN_FRAC * self._words[word]

    def is_clear_noun(self, word: str) -> bool:
        """Tell whether a word ends noun phrases often: "the filter is", but not "the innate"."""
        if self._documents < _LARGE_COLLECTION:
            return True
        heads = self._heads[word]
        return heads > self.verb_uses(word) and heads >= _CLEAR_NOUN_FRAC * self._words[word]

    def verb_uses(self, word: str) -> int:
        """Return how often a word, or what is left of it without its -s, follows "to", "can" …."""
        forms = {word, word.removesuffix("s"), word.removesuffix("es")}
        if word.endswith("ies"):
            forms.add(word.removesuffix("ies") + "y")
        return max(self._verbs[form] for form in forms)

    def is_verb(self, word: str) -> bool:
        """Tell whether a word is a verb rather than a noun, as far as the collection shows."""
        return self.verb_uses(word) > self._heads[word]

    def is_name(self, word: str) -> bool:
        """Tell whether a word keeps its capital: "Kalman", but not "The" or "Level"."""
        return self._names[word] > self._words[word.lower()]

    def is_common(self, word: str) -> bool:
        """Tell whether a word's stem occurs in many documents of a collection of some size."""
        large = self._documents >= _LARGE_COLLECTION
        return large and self._frequency[stem(word)] > _COMMON_FRAC * self._documents

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
        first: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for word in content_words(text):
            key = stem(word)
            if key not in without and not word.isdigit():
                first.setdefault(key, word)
                counts[key] += 1
        ranked = sorted(
            first,
            key=lambda key: -(1 + math.log(counts[key])) * self.inverse_frequency(first[key]),
        )
        chosen = set(ranked[:limit])
        return tuple(_plain(word) for key, word in first.items() if key in chosen)

    def weight(self, text: str) -> float:
        """Return the mean inverse frequency of a text's content words; 0 if it has none."""
        found = content_words(text)
        return sum(map(self.inverse_frequency, found)) / len(found) if found else 0.0


def spread_terms(
    terms: CorpusTerms, phrases: Sequence[str], *, limit: int, without: frozenset[str]
) -> tuple[str, ...]:
    """Return key terms of several phrases, taking turns so that each phrase is represented."""
    taken: dict[str, str] = {}
    per_phrase = [terms.key_terms(phrase, limit=limit, without=without) for phrase in phrases]
    for turn in range(limit):
        for choices in per_phrase:
            if turn < len(choices) and len(taken) < limit:
                taken.setdefault(stem(choices[turn]), choices[turn])
    return tuple(taken.values())


def _plain(word: str) -> str:
    """Lower a word that is capitalised only because it begins a sentence."""
    return word.lower() if word[1:].islower() or len(word) == 1 else word


def _sentence_key(sentence: str, names: frozenset[str]) -> int | None:
    plain = [word for word in words(sentence.lower()) if word not in names]
    if len(plain) < _MIN_BOILERPLATE_WORDS:
        return None
    # Not `hash`, which differs from process to process: workers elsewhere look these keys up.
    return int.from_bytes(blake2b(" ".join(plain).encode(), digest_size=8).digest())
