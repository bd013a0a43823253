"""All-or-nothing checks of a whole response: a pattern, a number."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from rubric_judge.lexical.verification import NumericCheck

__all__ = ["matches_pattern", "states_number"]

_LONGEST_TEXT = 20_000
"""Characters of a response that a pattern is run on; bounds the time of a single check."""

_MOST_NUMBERS = 10
"""A response that offers more different numbers than this is guessing, not answering."""

_NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\d)")


def matches_pattern(pattern: str, text: str, *, timeout_s: float) -> bool:
    """Search a pattern in the first 20,000 characters of a response.

    Args:
        pattern: a regular expression of the `regex` package.
        text: the response.
        timeout_s: longest time for the search.

    Returns:
        Whether it occurs.

    Raises:
        TimeoutError: the search took longer: a pattern that backtracks.
    """
    # Loaded when a rubric asks for it: most do not.
    import regex  # noqa: PLC0415

    return regex.search(pattern, text[:_LONGEST_TEXT], timeout=timeout_s) is not None


def states_number(check: NumericCheck, text: str) -> bool:
    """Look for the number of a criterion among the numbers of a response.

    Args:
        check: value, tolerance and unit.
        text: the response.

    Returns:
        Whether some number, followed by the unit if there is one, lies within the tolerance, and
        the response does not offer more than ten different ones.
    """
    text = text[:_LONGEST_TEXT]
    unit = _unit_pattern(check.unit) if check.unit else None
    stated = {
        float(found[0].replace(",", "").replace("−", "-"))
        for found in _NUMBER.finditer(text)
        if unit is None or unit.match(text, found.end())
    }
    # A value on the edge of its tolerance is inside: 3.15 − 3.14 is not 0.01 in binary.
    slack = 1e-9 * max(1.0, abs(check.value))
    near = any(math.fabs(number - check.value) <= check.tolerance + slack for number in stated)
    return near and len(stated) <= _MOST_NUMBERS


@lru_cache(maxsize=1024)
def _unit_pattern(unit: str) -> re.Pattern[str]:
    return re.compile(rf"\s*{re.escape(unit)}(?!\w)")
