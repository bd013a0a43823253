"""Whether the function words of a sentence stand where English allows them.

Any order of a sentence's words holds the same terms; only some orders say anything. Articles,
prepositions and auxiliaries are few, and most pairs of them never meet: "the of", "is the was".
"""

from __future__ import annotations

import re
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
_OPENING: Final = re.compile(
    r"(?<=[a-z,] )(?:An|And|Another|As|But|For|From|If|In|It|Its|Of|On|The|Then|There|These|They"
    r"|This|To|We|When|Where|Which|With|You)(?= [a-z(])"
)
_CROSSED: Final = re.compile(r"^[^(]*\)[^)]*\(")


def faults_of_order(text: str, words: tuple[str, ...]) -> int:
    """Count what English does not allow.

    Args:
        text: one sentence.
        words: its words, in lower case.

    Returns:
        How many pairs of neighbours, the last word and the end included, are none of English, with
        the openings of a sentence that stand inside this one and a parenthesis that closes first.
    """
    crossed = _CROSSED.match(text) is not None and text.count("(") == text.count(")")
    openings = len(_OPENING.findall(text))
    return sum(map(_FORBIDDEN.__contains__, pairwise((*words, _END)))) + openings + crossed
