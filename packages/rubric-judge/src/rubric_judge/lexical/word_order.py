"""Whether the function words of a sentence stand where English allows them.

Any order of a sentence's words holds the same terms; only some orders say anything. Articles,
prepositions and auxiliaries are few, and most pairs of them never meet: "the of", "is the was".
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from rubric_core.files import toml_beside

_CLASSES: Final = {
    name: frozenset(words.split())
    for name, words in toml_beside(__file__, "words.toml")["out_of_order"].items()
}
_END: Final = ""
"""Stands behind the last word."""


def _together(*names: str) -> frozenset[str]:
    return frozenset[str]().union(*(_CLASSES[name] for name in names))


_BEFORE_NOUNS: Final = _together("articles", "owners")
_FOLLOWERS: Final = (
    (
        _BEFORE_NOUNS,
        _together("articles", "owners", "conjunctions", "finite", "modals", "pronouns")
        | (_CLASSES["prepositions"] - {"in", "by", "for", "with", "from", "to", "about"})
        | {_END},
    ),
    (_CLASSES["prepositions"], _together("finite", "modals", "conjunctions") - {"do"} | {_END}),
    ({"of", "than", "into", "from"}, _together("prepositions") - {"in", "within", "than"}),
    (_CLASSES["modals"], _together("finite", "modals", "articles", "owners", "prepositions")),
    (_CLASSES["finite"], _CLASSES["modals"] | {"is", "are", "was", "were", "does", "did"}),
    (_CLASSES["conjunctions"], _CLASSES["conjunctions"] | {_END}),
)
_FORBIDDEN: Final = frozenset(
    (first, second) for firsts, seconds in _FOLLOWERS for first in firsts for second in seconds
)


def faults_of_order(words: tuple[str, ...]) -> int:
    """Count neighbours that English does not allow.

    Args:
        words: of one sentence, in lower case.

    Returns:
        How many pairs of neighbours, the last word and the end included, are none of English.
    """
    return sum(map(_FORBIDDEN.__contains__, pairwise((*words, _END))))
