"""Characters that carry no meaning, or that only print carries: one form of each text."""

from __future__ import annotations

import re
from typing import Final

from rubric_core.composed import composed

_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Controls, the soft hyphen, spaces without width, marks of direction and of byte order. Searched
# for, since to translate every character takes ten times as long.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
)
_LIGATURE = re.compile("[\ufb00-\ufb06]")
_LETTERS: Final = ("ff", "fi", "fl", "ffi", "ffl", "st", "st")


def normal_characters(text: str) -> str:
    """Return a text in NFC, with one kind of line end, without control characters.

    Soft hyphens, marks of byte order and of direction go too; a no-break space becomes a space.
    Of the marks on one letter, 30 are kept.
    """
    if "\x1b" in text:
        text = _ESCAPE_SEQUENCE.sub("", text)
    text = _INVISIBLE.sub("", _LINE_ENDS.sub("\n", text)).replace("\u00a0", " ")
    return composed(text)


def without_ligatures(text: str) -> str:
    """Write the letters that a ligature of print stands for."""
    return _LIGATURE.sub(lambda found: _LETTERS[ord(found[0]) - 0xFB00], text)
