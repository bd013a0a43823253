"""Figures of a sentence: a number with its unit, or with the noun that it counts.

A number alone says nothing, and the next word is no unit because it comes next: "10 were" is none.
"""

import re
from typing import Final

from rubric_core.rewriting import patterns
from rubric_judge.verification.quantities import read_unit
from rubric_synth.extractive import phrases
from rubric_synth.extractive.phrases import CorpusTerms
from rubric_synth.tables import read_table, word_set

_PATTERNS: Final = patterns(read_table("patterns")["figures"])
_COUNTED: Final = word_set("counted")
_YEARS: Final = range(1500, 2101)


def quantity(sentence: str, terms: CorpusTerms) -> str:
    """Return the first figure of a sentence as it is written, or "".

    Args:
        sentence: One sentence.
        terms: What the collection knows of its words.
    """
    for found in _PATTERNS["number"].finditer(sentence):
        unit, end = read_unit(sentence, found.end())
        if unit and unit.lower() not in phrases.NOT_UNITS and not _is_word(sentence, end):
            return sentence[found.start() : end].strip()
        noun = _PATTERNS["counted"].match(sentence, found.end())
        if noun is not None and is_counted(noun["noun"], sentence[noun.end() :], terms):
            return f"{found[0]}{noun[0]}"
        is_exact = found["fraction"] or found["power"] or "," in found["whole"]
        if is_exact and not _PATTERNS["part_of_name"].search(sentence, 0, found.start()):
            return found[0]
    return ""


def _is_word(sentence: str, end: int) -> bool:
    """Tell whether a unit is the begin of a word, as "m" is of "m-files"."""
    return re.match(r"[\w-]", sentence[end:]) is not None


def is_counted(noun: str, rest: str, terms: CorpusTerms) -> bool:
    """Tell whether a word after a number is what it counts: "12 stations", but not "2 corresponds".

    Args:
        noun: The word.
        rest: What follows it.
        terms: What the collection knows of it.
    """
    if noun in _COUNTED:
        return True
    is_plural = noun.endswith("s") and not noun.endswith(("ss", "us", "is"))
    if not is_plural or phrases.base_form(noun, phrases.VERBS | phrases.PROSE_VERBS):
        return False
    return terms.is_seen_noun(noun) and not _PATTERNS["object"].match(rest)
