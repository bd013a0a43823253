"""Quotes that a judge gives for its scores, and whether they stand where it says they do."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final, Literal

from pydantic import Field

from rubric_core.fields import Text
from rubric_core.sealed import Sealed

MIN_QUOTE_CHARS: Final = 8
"""Letters and digits that a quote needs; a word like "the" stands in every text."""
MAX_QUOTE_CHARS: Final = 500
"""Characters beyond which a quote is no quote any more but a copy."""

# Quotation marks and dashes that models and keyboards exchange freely.
_SAME: Final = str.maketrans(
    dict.fromkeys("‘’‚‛`´", "'") | dict.fromkeys("“”„‟«»", '"') | dict.fromkeys("‐‑‒–—―−", "-")
)

QuoteSource = Literal["response", "passage"]


class Evidence(Sealed):
    """What a judge quotes for one criterion, and where that was found."""

    quote: Text = Field(repr=False)
    """The judge's words, which may be the passage's."""

    found_in: QuoteSource | None = None
    """Where the quote stands word for word; None where it does not."""


def find_quote(quote: str, *, response: str, passage: str) -> QuoteSource | None:
    """Return where a quote stands word for word, the response first.

    Case, white space, compatibility forms, invisible characters and the kind of quotation mark or
    dash are no difference. Something with fewer than `MIN_QUOTE_CHARS` letters and digits, or more
    than `MAX_QUOTE_CHARS` characters, is found nowhere; a shorter one only if it is all of a text.

    Args:
        quote: what the judge quotes.
        response: y, the first place to look.
        passage: g, as far as the judge saw it.

    Returns:
        The place, or None.
    """
    if len(quote) > MAX_QUOTE_CHARS:
        return None
    wanted = _folded(quote)
    long_enough = sum(map(str.isalnum, wanted)) >= MIN_QUOTE_CHARS
    sources: tuple[tuple[QuoteSource, str], ...] = (("response", response), ("passage", passage))
    for source, text in sources:
        searched = _folded_source(text)
        if (long_enough and wanted in searched) or (wanted and wanted == searched):
            return source
    return None


# A passage is searched once for every criterion of every response of its group.
@lru_cache(maxsize=64)
def _folded_source(text: str) -> str:
    return _folded(text)


def _folded(text: str) -> str:
    seen = "".join(
        c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf"
    )
    return " ".join(seen.translate(_SAME).casefold().split()).strip("\"' ")
