"""Texts as they may be shown: what would steer a terminal or turn a line around is named."""

from __future__ import annotations

import re
from typing import Final

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return a text with every control, bidirectional and surrogate character by its number."""
    return _UNSEEN.sub(_named, text.replace("\r\n", "\n"))


def _named(found: re.Match[str]) -> str:
    return f"[U+{ord(found[0]):04X}]"
