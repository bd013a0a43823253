"""What pages of a collection say of parameters, and words that are one letter off another."""

from collections import Counter
from hashlib import blake2b
from string import ascii_lowercase
from typing import Final

from rubric_synth import language
from rubric_synth.document import Document, parse_entry

_REPEATED: Final = 3
"""Pages that a common description of a parameter stands on, at least."""


class Glosses:
    """How often API entries begin the description of a parameter of one name the same."""

    def __init__(self) -> None:
        """Begin with none."""
        self._counts = Counter[int]()

    def add(self, document: Document) -> None:
        """Count those of a document, where it is an entry."""
        entry = parse_entry(document.text) if document.kind == "api" else None
        items = entry.parameters if entry is not None else ()
        self._counts.update(
            {_key(item.name, item.description) for item in items if item.description}
        )

    def is_common(self, name: str, description: str) -> bool:
        """Tell whether several entries begin the description of a parameter the same.

        Args:
            name: Of the parameter.
            description: Of it.
        """
        return self._counts[_key(name, description)] >= _REPEATED


def _key(name: str, description: str) -> int:
    first = next(iter(language.sentences(description)), "").lower()
    plain = " ".join((name, *language.words(first)))
    return int.from_bytes(blake2b(plain.encode(), digest_size=8).digest())


def edits(word: str) -> frozenset[str]:
    """Return what a word becomes with a letter less, more or changed, or two swapped."""
    cuts = [(word[:at], word[at:]) for at in range(1, len(word) + 1)]
    less = {a + b[1:] for a, b in cuts if b[1:]}
    swapped = {a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1}
    changed = {a + letter + b[1:] for a, b in cuts if b for letter in ascii_lowercase}
    more = {a + letter + b for a, b in cuts if b for letter in ascii_lowercase}
    return frozenset(less | swapped | changed | more) - {word}
