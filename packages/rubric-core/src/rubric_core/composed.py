"""NFC in a time that does not grow with the square of what stands on one letter."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final

_MOST_MARKS: Final = 30
"""On one letter; as in Unicode's stream-safe text. No writing needs more than a few."""

_PERHAPS_MANY: Final = re.compile(rf"[^\w\x00-\x7f][^\w\x00-\x7f]{{{_MOST_MARKS}}}")
"""No mark is of a word or ASCII; for this one `re` needs a tenth of the time of all marks."""
_FIRST: Final = 0x300
_BEYOND: Final = 0x20000
"""Past the last mark: behind it Unicode has ideographs and tags."""


def composed(text: str) -> str:
    """Return a text in NFC; of the marks on one letter, those beyond the 30th are left out.

    Python puts the marks of a letter in order by insertion: 80,000 of them on one letter take it
    most of a minute, in which no other thread runs.

    Source: Unicode Standard Annex 15, Stream-Safe Text Format.
    """
    if text.isascii():
        return text
    if _PERHAPS_MANY.search(text):
        text = _many_marks().sub(r"\1", text)
    return unicodedata.normalize("NFC", text)


@cache
def _many_marks() -> re.Pattern[str]:
    # Some marks only show as such once they are taken apart.
    codes = [
        code
        for code in range(_FIRST, _BEYOND)
        if unicodedata.combining(unicodedata.normalize("NFD", chr(code))[0])
    ]
    marks = f"[{''.join(map(chr, codes))}]"
    return re.compile(f"({marks}{{{_MOST_MARKS}}}){marks}+")
