"""Texts of models as they may be shown: what is unseen or turns a line around is named."""

from __future__ import annotations

import re
from typing import Final

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_MARK: Final = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]"
_STACKED: Final = re.compile(f"({_MARK}{{3}}){_MARK}+")
"""More marks over one letter than any language writes; they would cover the lines around."""


def visible(text: str) -> str:
    """Return a text with every control, bidirectional and surrogate character by its number.

    Letters of all scripts stay as they are. Marks beyond the third over one letter are left out.
    """
    return _STACKED.sub(r"\1", _UNSEEN.sub(_named, text.replace("\r\n", "\n")))


def shortened(text: str, limit: int, *, where: str) -> str:
    """Cut a text, made visible, and say how much is left out and where it lies.

    Args:
        text: of a model.
        limit: most characters.
        where: holds the whole text, for the note.
    """
    if len(text) <= limit:
        return visible(text)
    left = len(text) - limit
    return f"{visible(text[:limit])} […{left:,} more characters in {where}]"


def _named(found: re.Match[str]) -> str:
    return f"[U+{ord(found[0]):04X}]"
