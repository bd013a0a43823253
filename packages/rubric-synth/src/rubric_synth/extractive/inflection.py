"""From an inflected verb to its base form."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


def base_form(word: str, verbs: AbstractSet[str]) -> str:
    """Return the base form of a verb in the first or third person, or "" for any other word."""
    candidates = [word, word.removesuffix("s"), word.removesuffix("es")]
    if word.endswith("ies"):
        candidates.append(word.removesuffix("ies") + "y")
    return next((candidate for candidate in candidates if candidate in verbs), "")
