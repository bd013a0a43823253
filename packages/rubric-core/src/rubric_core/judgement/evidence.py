"""Quotes that a judge gives for its scores, and whether they stand where it says they do."""

import re
import unicodedata
from functools import cache, lru_cache
from typing import Final, Literal

from pydantic import Field

from rubric_core.schema.sealed import Sealed, Text

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


MIN_QUOTE_CHARS: Final = 8
"""Letters and digits that a quote needs; a word like "the" stands in every text."""
MAX_QUOTE_CHARS: Final = 500
"""Characters beyond which a quote is no quote any more but a copy."""

_MOST_TRIES: Final = 1_000
"""Places of a text where a quote may stand within longer words, before it is found nowhere."""

# Quotation marks, dashes and widths that models and keyboards exchange freely. Not all that Unicode
# calls compatible: x² is not x2. (Ligatures are taken apart with the case.)
_SAME: Final = str.maketrans(
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
_SPACELESS: Final = frozenset(
    {"CJK", "HIRAGANA", "KATAKANA", "KHMER", "LAO", "MYANMAR", "THAI", "TIBETAN"}
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

    It has to begin and end where words and numbers do. Case, white space, ligatures, widths,
    invisible characters and the kind of quotation mark or dash are no difference. Something with
    fewer than `MIN_QUOTE_CHARS` letters and digits is found only if it is all of a text, and more
    than `MAX_QUOTE_CHARS` characters nowhere.

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
    sources: tuple[tuple[QuoteSource, str], ...] = (
        ("response", response),
        ("passage", passage),
    )
    for source, text in sources:
        searched = _folded_source(text)
        if (long_enough and _stands_in(wanted, searched)) or (
            wanted and wanted == searched
        ):
            return source
    return None


def _folded(text: str) -> str:
    seen = "".join(c for c in text if unicodedata.category(c) != "Cf")
    seen = composed(seen.translate(_SAME))
    return " ".join(seen.casefold().split()).strip("\"' ")


# A passage is searched once for every criterion of every response of its group.
_folded_source = lru_cache(maxsize=64)(_folded)


def _stands_in(wanted: str, text: str) -> bool:
    """Whether it stands there and begins and ends where words and numbers do."""
    start = -1
    for _ in range(_MOST_TRIES):
        start = text.find(wanted, start + 1)
        if start < 0:
            break
        end = start + len(wanted)
        before = text[max(0, start - 2) : start][::-1]
        after = text[end : end + 2]
        begun_earlier = _goes_on(wanted[0], before) or (
            before[:1] == "." and wanted[0].isdecimal()
        )
        if not begun_earlier and not _goes_on(wanted[-1], after):
            return True
    return False


def _goes_on(edge: str, beyond: str) -> bool:
    """Whether a word or number goes on past its edge: "15", "1.5", "don't", "non-stable".

    Args:
        edge: its last character on this side.
        beyond: the two characters after that, read away from it.
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
