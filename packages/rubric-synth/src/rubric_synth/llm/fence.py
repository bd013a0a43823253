"""Untrusted text between lines with a mark that it does not hold, so that it cannot close them."""

from __future__ import annotations

import hashlib
from itertools import count
from typing import Final

_MARK_CHARS: Final = 16


def fenced(text: str, *, label: str, seed: str) -> str:
    """Put a text between a BEGIN and an END line.

    Args:
        text: anything.
        label: what the text is, in capitals.
        seed: the same text with the same seed gets the same mark, so that prompts share a prefix.

    Returns:
        The lines; their mark stands nowhere in the text, in any case of its letters.
    """
    mark = _mark(text.casefold(), f"{label}\x1f{seed}")
    return f"----- BEGIN {label} {mark} -----\n{text}\n----- END {label} {mark} -----"


def _mark(folded: str, seed: str) -> str:
    for attempt in count():
        mark = hashlib.sha256(f"{seed}\x1f{attempt}".encode()).hexdigest()[:_MARK_CHARS]
        if mark not in folded:
            return mark
    raise AssertionError  # pragma: no cover - a finite text does not hold every mark
