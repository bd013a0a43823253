"""Turns of phrase that point at a text which the reader does not have (`pointers.toml`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from string import Template
from typing import Any, Final, NamedTuple

from rubric_judge.lexical.words import FUNCTION_WORDS
from rubric_synth.tables import read_table, word_set


class Pointer(NamedTuple):
    """One way to point away from the text."""

    name: str
    hints: frozenset[str]
    """A text that holds none of these words, in lower case, is not searched."""
    points: Callable[[str], bool]
    """Whether a text, without its code and formulas, points away."""


_ASKING: Final = FUNCTION_WORDS | word_set("asking")
_CARRIED_BY = re.compile('[:\n"“`]')
"""What brings along the thing that a question points to."""
_SENTENCE_END = re.compile(r"[.?!](?=\s+[A-Z\"“(`$])|\n")
_CITATION_CONTEXT: Final = word_set("before_brackets")
_BRACKETED = re.compile(r"(\w+)[.,;]?\s?\[(?!0)\d{1,3}(?:\s?[,–-]\s?\d{1,3})*\](?![\w(\[^])")
_FEWEST_OWN_WORDS: Final = 5
_WORD = re.compile(r"[^\W\d]{3,}")
_ITS = re.compile(
    r"(?:what (?:is|are)|explain|describe|discuss|list) (?:its|their)\b", re.IGNORECASE
)


def _first_sentence(text: str) -> int:
    """Return where the first sentence ends."""
    end = _SENTENCE_END.search(text)
    return end.end() if end else len(text)


def _anywhere(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.search(text) is not None


def _nothing_behind(pattern: re.Pattern[str], text: str, end: int | None = None) -> bool:
    """Match where the thing is not brought along."""
    found = pattern.finditer(text, 0, len(text) if end is None else end)
    return any(_CARRIED_BY.search(text, match.end()) is None for match in found)


def _at_the_start(pattern: re.Pattern[str], text: str) -> bool:
    """Match in the first sentence only: further on, it may point at what the text itself says."""
    return _nothing_behind(pattern, text, _first_sentence(text))


def _unannounced(pattern: re.Pattern[str], text: str) -> bool:
    """Match where the noun, a group, neither stands earlier in the text nor is brought along."""
    for match in pattern.finditer(text):
        noun = next(group for group in match.groups() if group).rstrip(".s")
        before = text[: match.start()]
        announced = re.search(rf"\b{re.escape(noun)}", before, re.IGNORECASE) is not None
        if not announced and _CARRIED_BY.search(text, match.end()) is None:
            return True
    return False


def _cited(pattern: re.Pattern[str], text: str) -> bool:
    """Match a number in brackets behind a word, or names where the text says little else."""
    for match in _BRACKETED.finditer(text):
        word = match[1]
        is_spaced = match[0][len(word)] in " .,;"
        is_word = len(word) > 1 and word[-1].isalpha() and word.lower() not in _CITATION_CONTEXT
        if is_spaced and is_word:
            return True
    # A name may be given to what a question describes; it may not be the whole description.
    rest, count = pattern.subn(" ", text) if "et al" in text else (text, 0)
    own = [word for word in _WORD.findall(rest) if word.lower() not in _ASKING] if count else []
    return bool(count) and len(own) < _FEWEST_OWN_WORDS


def _unnamed(pattern: re.Pattern[str], text: str) -> bool:
    """Match where the text opens with a "this method" and has named nothing before that."""
    opening = text[: _first_sentence(text)]
    if _ITS.match(opening.strip()):
        return True
    match = pattern.search(opening)
    before = opening[: match.start()] if match else "`"
    return "`" not in before and all(word.lower() in _ASKING for word in re.findall(r"\w+", before))


_WHERE: Final[dict[str, Callable[[re.Pattern[str], str], bool]]] = {
    "anywhere": _anywhere,
    "at_the_start": _at_the_start,
    "cited": _cited,
    "nothing_behind": _nothing_behind,
    "unannounced": _unannounced,
    "unnamed": _unnamed,
}


def _pointers(kind: str) -> tuple[Pointer, ...]:
    table = read_table("pointers")

    def pointer(row: dict[str, Any]) -> Pointer:
        source = Template("|".join(row["patterns"])).substitute(table["parts"])
        points = partial(_WHERE[row["where"]], re.compile(source, re.IGNORECASE))
        return Pointer(row["name"], frozenset(row["hints"].split()), points)

    return tuple(pointer(row) for row in table["pointer"] if row["of"] == kind)


GUIDE_POINTERS: Final = _pointers("guide")
"""Of a scoring guide: it speaks to the judge, who has the passage, but has no figures."""
CRITERION_POINTERS: Final = (*GUIDE_POINTERS, *_pointers("criterion"))
"""Of what a criterion asks for."""
QUESTION_POINTERS: Final = (*CRITERION_POINTERS, *_pointers("question"))
"""Of a question."""
