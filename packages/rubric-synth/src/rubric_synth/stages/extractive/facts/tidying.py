"""Repairs of an entry's text before facts are read from it, and words that look misspelt."""

import re
from collections import Counter

from rubric_synth import language
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms
from rubric_synth.stages.extractive.facts import parsing
from rubric_synth.tables import patterns, word_sets

_PATTERNS = patterns("page_repairs")
_SHORTEST = 4
"""Fewest letters of a word that may be a slip."""
_WORD = re.compile(r"(?<![\w.`'-])[a-z]+(?![\w.`'-])")
# "SQuares": a capital too many.
_HALF_CAPITAL = re.compile(r"\b[A-Z]{2,}[a-z]{3,}\b")
_CAPITAL = re.compile(r"(?<![\w.`'-])[A-Z][a-z]{4,}(?![\w.`'-])")


def tidied(entry: ApiEntry) -> ApiEntry:
    """Repair what line breaks and joining left in the texts of an entry.

    Args:
        entry: an entry with texts such as "non- negative", "and/ or" or "an axis?.".
    """
    update = {
        "summary": tuple(map(_repaired, entry.summary)),
        "notes": tuple(map(_repaired, entry.notes)),
        "parameters": tuple(map(_repaired_item, entry.parameters)),
        "returns": tuple(map(_repaired_item, entry.returns)),
        "yields": tuple(map(_repaired_item, entry.yields)),
        "raises": tuple(map(_repaired_item, entry.raises)),
    }
    return entry.model_copy(update=update)


def _repaired_item(item: ApiItem) -> ApiItem:
    return item.model_copy(update={"description": _repaired(item.description)})


def _repaired(text: str) -> str:
    text = _PATTERNS["hyphen"].sub(r"\1-", text)
    text = _PATTERNS["slash"].sub("/", text)
    text = _PATTERNS["article"].sub(r"\1n ", text)
    text = _PATTERNS["capital"].sub(lambda match: match[0].lower(), text)
    return _PATTERNS["stops"].sub(".", text)


def lowered_names(entry: ApiEntry) -> frozenset[str]:
    """Return the names of an entry, whose capital is kept where a sentence begins with them.

    Args:
        entry: the entry. A word that its texts also write without a capital is no name.
    """
    text = ". ".join(entry.texts())
    small = set(_COMMON)
    for word in language.words(text):
        if not word.islower():
            continue
        small.add(word)
    names = set(_NAMES)
    for name in language.proper_names(text):
        if name.lower() in small:
            continue
        names.add(name)
    return frozenset(names)


_WORDS = word_sets("facts", "soundness")
_NAMES = _WORDS["names"]
_COMMON = _WORDS["no_names"]


class Spelling:
    """Words of a page that look like slips: not English, and one letter off a known word."""

    def __init__(
        self,
        entry: ApiEntry,
        terms: CorpusTerms | None = None,
    ) -> None:
        """Read the words of an entry, and of its collection where it is known."""
        small = Counter[str]()
        all_words = Counter[str]()
        for text in entry.texts():
            small.update(_WORD.findall(text))
            all_words.update(word.lower() for word in _CAPITAL.findall(text))
        all_words.update(small)
        known = _reliable(all_words)
        names = {item.name.lower() for item in entry.parameters}
        names.add(entry.name.lower())
        self._odd: set[str] = set()
        for word, count in small.items():
            if len(word) < _SHORTEST or word in names:
                continue
            if _is_known(word):
                continue
            is_slip_here = count == 1 and any(_one_edit(word, other) for other in known)
            is_slip_elsewhere = terms is not None and terms.is_slip(word)
            if is_slip_here or is_slip_elsewhere:
                self._odd.add(word)

    def has_slip(self, sentence: str) -> bool:
        """Tell whether a sentence holds a word that looks misspelt: "cublic", "SQuares"."""
        halves = map(str.lower, _HALF_CAPITAL.findall(sentence))
        if any(map(parsing.is_english, halves)):
            return True
        return any(word in self._odd for word in _WORD.findall(sentence))


def _reliable(counts: Counter[str]) -> set[str]:
    """Return the words that are no slips: they occur twice or more, or are English."""
    return {
        word
        for word, count in counts.items()
        if len(word) >= _SHORTEST - 1 and (count > 1 or parsing.is_english(word))
    }


def _is_known(word: str) -> bool:
    """Tell whether a word is English, as it is or without an ending or a beginning."""
    if parsing.is_english(word):
        return True
    for ending in _ENDINGS:
        bare = word.removesuffix(ending)
        if bare == word:
            continue
        if parsing.is_english(bare) or parsing.is_english(f"{bare}e"):
            return True
    for beginning in _BEGINNINGS:
        rest = word.removeprefix(beginning)
        if rest == word or len(rest) < _SHORTEST - 1:
            continue
        if _is_known(rest):
            return True
    return False


_ENDINGS = ("s", "es", "d", "ed", "ing", "ly", "al", "able", "r", "er", "ness")
_BEGINNINGS = (
    "non",
    "re",
    "un",
    "pre",
    "sub",
    "multi",
    "de",
    "in",
    "super",
    "semi",
)


def _one_edit(word: str, other: str) -> bool:
    """Tell whether two words differ by one slip behind their first letter.

    A slip is a letter put in, left out or changed, or two neighbours swapped.
    """
    if abs(len(word) - len(other)) > 1:
        return False
    if word[0] != other[0]:
        return False
    if len(word) == len(other):
        places = [at for at in range(len(word)) if word[at] != other[at]]
        if len(places) == 1:
            return True
        if len(places) != 2:  # noqa: PLR2004 - a swap
            return False
        first, second = places
        return second == first + 1 and word[first] == other[second]
    shorter, longer = sorted((word, other), key=len)
    shortened = (longer[:at] + longer[at + 1 :] for at in range(len(longer) - 1))
    return shorter in shortened
