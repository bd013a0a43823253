"""Rows of a table that add others up, which are no criteria."""

import re
from collections.abc import Mapping, Sequence

from rubric_core.files import toml_beside

_WORDS: Mapping[str, list[str]] = toml_beside(__file__, "totals.toml")
_WORD = re.compile(r"[^\W\d_]+")
_REMARK = re.compile(r"\(.*?\)|（.*?）|\[.*?\]")
_CELL = r"\$?[A-Z]+\$?\d+"
_CELLS = rf"\s*{_CELL}(?:\s*:\s*{_CELL})?\s*"
_SUM = re.compile(
    rf"=\s*\+?\s*(?:SUM\({_CELLS}(?:,{_CELLS})*\)|SUBTOTAL\(\s*\d+\s*,{_CELLS}\)"
    rf"|\s*{_CELL}(?:\s*\+\s*{_CELL})+)\s*"
)
"""A formula that is the sum over cells, and no more; workbooks keep formulas in English."""
_COLUMN = re.compile(r"\$?([A-Z]+)\$?\d")
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
    written = str(formula).upper()
    is_sum = _SUM.fullmatch(written) is not None
    return is_sum and set(_COLUMN.findall(written)) == {letter}


def is_sum(value: float, weights: Sequence[float]) -> bool:
    """Return whether a value is the sum of two weights or more."""
    total = sum(weights)
    close = 1e-6 * max(1.0, abs(total))
    return len(weights) >= _FEWEST and abs(value - total) <= close
