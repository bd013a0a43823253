"""Quotes that a judge gives for its scores, and whether they stand where it says they do."""

import re
import unicodedata
from functools import cache, lru_cache
from typing import Literal

from rubric_core.schema.sealed import Sealed, Text, Unshown

_MOST_MARKS = 30
"""Most marks on one letter, as in Unicode's stream-safe text; no script needs more than a few."""

_PERHAPS_MANY = re.compile(rf"[^\w\x00-\x7f][^\w\x00-\x7f]{{{_MOST_MARKS}}}")
"""Matches any text with too many marks, as no mark is a word character or ASCII; `re` needs a tenth
of the time that the pattern of all marks takes."""
_FIRST = 0x300
_BEYOND = 0x20000
"""First code point past the last mark: from here on Unicode has ideographs and tags."""


def composed(text: str) -> str:
    """Return a text in NFC, without the marks beyond the 30th on one letter.

    Python sorts the marks of a letter by insertion: 80,000 marks on one letter take most of a
    minute, in which no other thread runs.

    Source: Unicode Standard Annex 15, Stream-Safe Text Format.
    """
    if text.isascii():
        return text
    if _PERHAPS_MANY.search(text):
        text = _many_marks().sub(r"\1", text)
    return unicodedata.normalize("NFC", text)


@cache
def _many_marks() -> re.Pattern[str]:
    combining: list[str] = []
    for character in map(chr, range(_FIRST, _BEYOND)):
        # Some characters are marks only in their decomposition.
        decomposed = unicodedata.normalize("NFD", character)
        if unicodedata.combining(decomposed[0]):
            combining.append(character)
    marks = f"[{''.join(combining)}]"
    return re.compile(f"({marks}{{{_MOST_MARKS}}}){marks}+")


MIN_QUOTE_CHARS = 8
"""Least number of letters and digits in a quote; a word like "the" stands in every text."""
MAX_QUOTE_CHARS = 500
"""Largest number of characters in a quote; a longer one is a copy."""

_MOST_TRIES = 1_000
"""Places within longer words that are tried before a quote counts as not found."""

# Quotation marks, dashes and widths that models and keyboards exchange freely. Not all that Unicode
# calls compatible: x² is not x2. (Case folding splits the ligatures.)
_SAME = str.maketrans(
    dict.fromkeys("‘’‚‛`´", "'")
    | dict.fromkeys("“”„‟«»", '"')
    | dict.fromkeys("‐‑‒–−", "-")
    | dict.fromkeys("—―", " - ")
    | {"…": "..."}
    | {
        chr(code): unicodedata.normalize("NFKC", chr(code))
        for code in range(0xFF01, 0xFFEF)
    }
)
# Scripts without spaces between words, by the first word of their characters' names.
_SPACELESS = frozenset(
    {"CJK", "HIRAGANA", "KATAKANA", "KHMER", "LAO", "MYANMAR", "THAI", "TIBETAN"}
)

QuoteSource = Literal["response", "passage"]


class Evidence(Sealed):
    """A judge's quote for one criterion, and the place where it was found."""

    quote: Unshown[Text]
    """The judge's words, which may be the passage's."""

    found_in: QuoteSource | None = None
    """The text that holds the quote word for word; None if neither does."""


def find_quote(quote: str, *, response: str, passage: str) -> QuoteSource | None:
    """Return where a quote stands word for word, the response first.

    It has to begin and end where words and numbers do. Case, white space, ligatures, widths,
    invisible characters and the kind of quotation mark or dash make no difference. A quote with
    fewer than `MIN_QUOTE_CHARS` letters and digits is found only if it is the whole text; one with
    more than `MAX_QUOTE_CHARS` characters is never found.

    Args:
        quote: the judge's quote.
        response: y, the first place to look.
        passage: g, as far as the judge saw it.

    Returns:
        The place, or None.
    """
    if len(quote) > MAX_QUOTE_CHARS:
        return None
    quote = _folded(quote)
    if not quote:
        return None
    long_enough = sum(map(str.isalnum, quote)) >= MIN_QUOTE_CHARS
    sources: tuple[tuple[QuoteSource, str], ...] = (
        ("response", response),
        ("passage", passage),
    )
    for source, text in sources:
        folded = _folded_source(text)
        if quote == folded or (long_enough and _stands_in(quote, folded)):
            return source
    return None


def _folded(text: str) -> str:
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf")
    normal = composed(visible.translate(_SAME))
    return " ".join(normal.casefold().split()).strip("\"' ")


# A passage is searched once for every criterion of every response of its group.
_folded_source = lru_cache(maxsize=64)(_folded)


def _stands_in(quote: str, text: str) -> bool:
    """Return whether a text holds a quote that begins and ends where words and numbers do."""
    start = -1
    for _ in range(_MOST_TRIES):
        start = text.find(quote, start + 1)
        if start < 0:
            break
        end = start + len(quote)
        before = text[max(0, start - 2) : start][::-1]
        after = text[end : end + 2]
        is_fraction = before[:1] == "." and quote[0].isdecimal()
        if is_fraction or _goes_on(quote[0], before):
            continue
        if not _goes_on(quote[-1], after):
            return True
    return False


def _goes_on(edge: str, beyond: str) -> bool:
    """Return whether a word or number goes on past its edge: "15", "1.5", "don't", "non-stable".

    Args:
        edge: the last character on this side.
        beyond: the next two characters, read away from the edge.
    """
    if not beyond or not _is_in_word(edge):
        return False
    mark = beyond[0]
    further = beyond[1:]
    if _is_in_word(mark):
        return True
    if edge.isdecimal():
        return mark == "-" or (mark in ".," and further.isdecimal())
    return mark in "-'" and bool(further) and _is_in_word(further)


def _is_in_word(character: str) -> bool:
    if character != "_" and unicodedata.category(character)[0] not in "LMN":
        return False
    script = unicodedata.name(character, "").partition(" ")[0]
    return script not in _SPACELESS
