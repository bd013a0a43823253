"""Whether the function words of a sentence stand where English allows them.

Any order of a sentence's words holds the same terms; only some orders say anything. Articles,
prepositions and auxiliaries are few, and most pairs of them never meet: "the of", "is the was".
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from rubric_core.files import toml_beside

_END: Final = "."
_FORBIDDEN: Final = frozenset(
    (first, second)
    for row in toml_beside(__file__, "words.toml")["never_followed"]
    for first in row["first"].split()
    for second in row["second"].split()
)


def faults_of_order(words: tuple[str, ...]) -> int:
    """Count neighbours that English does not allow.

    Args:
        words: of one sentence, in lower case.

    Returns:
        How many pairs of neighbours, the last word and the end included, are none of English.
    """
    return sum(map(_FORBIDDEN.__contains__, pairwise((*words, _END))))
