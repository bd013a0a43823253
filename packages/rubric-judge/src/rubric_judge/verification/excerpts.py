"""The first or last characters of a long text, with no half of a word or a number at the cut."""

from __future__ import annotations

import re

_FIRST_SPACE = re.compile(r"\s")
_LAST_SPACE = re.compile(r"(?s).*(?=\s)")


def head(text: str, longest: int) -> str:
    """Return what stands before the last white space of the first characters.

    Args:
        text: any text.
        longest: most characters; a text that is no longer comes back whole.

    Returns:
        Whole words; nothing where a single word is longer.
    """
    if len(text) <= longest:
        return text
    whole = _LAST_SPACE.match(text, 0, longest + 1)
    return whole[0] if whole else ""


def tail(text: str, longest: int) -> str:
    """Return what stands behind the first white space of the last characters.

    Args:
        text: any text.
        longest: most characters; a text that is no longer comes back whole.

    Returns:
        Whole words; nothing where a single word is longer.
    """
    if len(text) <= longest:
        return text
    space = _FIRST_SPACE.search(text, len(text) - longest - 1)
    return text[space.end() :] if space else ""
