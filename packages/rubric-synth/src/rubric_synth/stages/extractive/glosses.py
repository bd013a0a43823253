"""Descriptions of parameters that pages share, and words that are one letter off another."""

from collections import Counter
from hashlib import blake2b
from string import ascii_lowercase

from rubric_synth import language
from rubric_synth.document import Document, parse_entry

_REPEATED = 3
"""Fewest pages that a common description of a parameter stands on."""


class Glosses:
    """How often API entries begin the description of a parameter of one name the same."""

    def __init__(self) -> None:
        """Start with no descriptions."""
        self._counts = Counter[int]()

    def add(self, document: Document) -> None:
        """Count the descriptions of a document's parameters, if it is an API entry."""
        if document.kind != "api":
            return
        entry = parse_entry(document.text)
        if entry is None:
            return
        keys = {
            _key(item.name, item.description)
            for item in entry.parameters
            if item.description
        }
        self._counts.update(keys)

    def is_common(self, name: str, description: str) -> bool:
        """Tell whether several entries begin the description of a parameter the same.

        Args:
            name: The parameter's name.
            description: Its description.
        """
        return self._counts[_key(name, description)] >= _REPEATED


def _key(name: str, description: str) -> int:
    sentences = language.sentences(description)
    first_sentence = next(iter(sentences), "").lower()
    plain = " ".join((name, *language.words(first_sentence)))
    digest = blake2b(plain.encode(), digest_size=8).digest()
    return int.from_bytes(digest)


def edits(word: str) -> frozenset[str]:
    """Return the words that a word becomes by one letter less, more, changed or swapped."""
    variants: set[str] = set()
    for place in range(1, len(word)):
        before = word[:place]
        letter = word[place]
        after = word[place + 1 :]
        if after:
            variants.add(before + after)
            variants.add(before + after[0] + letter + after[1:])
        for other in ascii_lowercase:
            variants.add(before + other + after)
            variants.add(before + other + letter + after)
    variants.discard(word)
    return frozenset(variants)
