"""Rows of a table that add others up, which are no criteria."""

import re
from collections.abc import Mapping, Sequence

from rubric_core.files import toml_beside

_WORDS: Mapping[str, list[str]] = toml_beside(__file__, "totals.toml")
_WORD = re.compile(r"[^\W\d_]+")
_REMARK = re.compile(r"\(.*?\)|（.*?）|\[.*?\]")
_SUM = re.compile(
    r"=\s*(?:SUM|SUBTOTAL)\((?:\d+\s*,)?\s*\$?([A-Z]+)\$?\d+(?::\$?([A-Z]+)\$?\d+)?"
)
"""A sum over cells, whose columns are captured; workbooks keep formulas in English."""
_FEWEST = 2
"""Weights of which a sum can be told from a copy."""


def names_total(text: str) -> bool:
    """Return whether a text is the name of a total, such as "Total points: 5" or "Summe"."""
    words = _WORD.findall(_REMARK.sub(" ", text).lower())
    if not set(words) & set(_WORDS["totals"]):
        return False
    return set(words) <= {*_WORDS["totals"], *_WORDS["beside"]}


def sums_column(formula: object, letter: str) -> bool:
    """Return whether a formula adds up cells of its own column."""
    match = _SUM.match(str(formula).upper())
    return match is not None and {match[1], match[2] or match[1]} == {letter}


def is_sum(value: float, weights: Sequence[float]) -> bool:
    """Return whether a value is the sum of two weights or more."""
    total = sum(weights)
    close = 1e-6 * max(1.0, abs(total))
    return len(weights) >= _FEWEST and abs(value - total) <= close
