"""Words and sentences of English technical prose, as the extractive stages see them."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from rubric_core.rewriting import rewriting
from rubric_judge.judges.lexical.words import FUNCTION_WORDS, stem
from rubric_synth.tables import read_table, word_set

STOP_WORDS = FUNCTION_WORDS | word_set("stop_words")
"""Words that carry grammar or the frame of technical prose, not subject matter."""

_FEWEST_LETTERS = 3
"""Letters of the shortest content word: two letters name nothing."""
_WORD = re.compile(r"[^\W\d]\w*")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[`$]*[A-Z0-9`$])|\n{2,}")
_PROPER = re.compile(r"(?<=[a-z,] )[A-Z][A-Za-z-]+")
_ABBREVIATION_HINT = re.compile(r"\.\s?g\.|\.\s?e\.|\b[A-Za-z]{2,6}\.(?=\s+\S)|etc\.")
_SPELL_OUT = rewriting(read_table("words")["abbreviations"])


def words(text: str) -> list[str]:
    """Return the words and identifiers of a text, in order."""
    return _WORD.findall(text)


def spell_out(text: str) -> str:
    """Replace abbreviations that end in a period, which would look like the end of a sentence."""
    if _ABBREVIATION_HINT.search(text) is None:
        return text
    return _SPELL_OUT(text)


def sentences(text: str) -> list[str]:
    """Split prose into sentences, each on one line, abbreviations spelled out."""
    return list(_sentences(text))


@lru_cache(maxsize=2048)
def _sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a paragraph, which several stages read one after another."""
    parts: list[str] = []
    for part in _SENTENCE_END.split(spell_out(text)):
        sentence = " ".join(part.split())
        if sentence:
            parts.append(sentence)
    return tuple(parts)


def stems(text: str) -> frozenset[str]:
    """Return the stems of all words of a text."""
    return frozenset(stem(word) for word in words(text))


def content_words(text: str) -> list[str]:
    """Return the words that carry subject matter: no stop words, nothing under three letters."""
    return [
        word
        for word in words(text)
        if len(word) >= _FEWEST_LETTERS and word.lower() not in STOP_WORDS
    ]


def first_per_stem(candidates: Iterable[str]) -> list[str]:
    """Keep the first word of each stem, in order."""
    by_stem: dict[str, str] = {}
    for word in candidates:
        by_stem.setdefault(stem(word), word)
    return list(by_stem.values())


def lower_first(text: str, proper: frozenset[str] = frozenset()) -> str:
    """Lower the first letter of a sentence, unless its first word is a name or an acronym."""
    parts = text.split(maxsplit=1)
    if not parts:
        return text
    head = parts[0]
    bare = head.strip(",;:")
    if bare in proper or bare.endswith(("'s", "\u2019s")):
        return text
    rest = head[1:].replace("-", "").rstrip(",")
    is_capitalised = head[0].isupper() and rest.islower()
    if head == "A" or is_capitalised:
        return text[0].lower() + text[1:]
    return text


def proper_names(text: str) -> frozenset[str]:
    """Return the words of a text that are capitalised in the middle of a sentence."""
    names = _PROPER.findall(text)
    return frozenset(name for name in names if name.lower() not in FUNCTION_WORDS)


def base_forms(word: str) -> list[str]:
    """Return what a word may be the first or third person of: itself, and without its -s."""
    forms = [word, word.removesuffix("s"), word.removesuffix("es")]
    if word.endswith("ies"):
        forms.append(word.removesuffix("ies") + "y")
    return forms


def capital_first(text: str) -> str:
    """Raise the first letter."""
    return text[:1].upper() + text[1:]


def listed(parts: Sequence[str]) -> str:
    """Join parts as prose: `a`, `a and b`, `a, b and c`."""
    if not parts:
        return ""
    *most, last = parts
    if not most:
        return last
    return f"{', '.join(most)} and {last}"


def choose(options: Sequence[str], key: str) -> str:
    """Choose one option by a hexadecimal hash: the same key always gives the same option."""
    number = int(key[:8], 16)
    return options[number % len(options)]
