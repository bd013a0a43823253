"""Words, function words and stems: the only linguistic knowledge of the lexical judge (English)."""

from __future__ import annotations

import re
from functools import lru_cache

WORD = re.compile(r"\w+")

# Function words, with the verbs that carry the frame of reference prose ("takes", "returns",
# "note"). They tell a sentence from a list of terms: prose holds some, and not only these.
FUNCTION_WORDS = frozenset(
    """
    a about above across after again against all along also although am among an and any are around
    as at away be because been before being below between both but by can cannot could did do does
    doing done down during each either else even every few for from further gave get gets give given
    gives had has have having he hence her here hers him his how however i if in instead into is it
    its itself just least less let like made make makes many may me might more most much must my
    neither no nor not note now of off often on once one only onto or other otherwise our out over
    own per rather return returned returns same several shall she should since so some still such
    take taken takes than that the their them then there thereby therefore these they this those
    though through thus to together too toward towards two under unless until up upon us use used
    uses using very via was we were what when where whereas wherein whether which while who whom
    whose why will with within without would yet you your
    """.split()  # noqa: SIM905  # a paragraph is read and changed more easily than a list
)

_VOWEL = re.compile(r"[aeiouy]")
_SHORTEST_STEM = 3


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem under which forms of one word are equal: plural, -ed, -ing and final e.

    A light stemmer, written out here so that a score never moves with the release of a library:
    "values" and "value", "computing" and "computed" meet; "convolve" and "convolution" do not.

    Args:
        word: one token; case is ignored.

    Returns:
        The stem, lower case, at least three letters long for words that are.
    """
    return _without_final_e(_without_tense(_without_plural(word.lower())))


def _without_plural(word: str) -> str:
    if not word.endswith("s") or word.endswith(("ss", "us", "is")) or len(word) <= _SHORTEST_STEM:
        return word
    if word.endswith("ies") and len(word) > _SHORTEST_STEM + 1:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def _without_tense(word: str) -> str:
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= _SHORTEST_STEM and _VOWEL.search(root):
            doubled = root[-1] == root[-2] and root[-1] not in "lsz"
            return root[:-1] if doubled else root
    return word


def _without_final_e(word: str) -> str:
    return word[:-1] if word.endswith("e") and len(word) > _SHORTEST_STEM else word
