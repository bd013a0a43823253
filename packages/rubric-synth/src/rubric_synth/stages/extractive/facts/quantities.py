"""Figures of a sentence with their units."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from spacy.tokens import Doc, Token

from rubric_synth.tables import read_table

_UNITS = {
    unit: quantity
    for quantity, units in read_table("facts")["units"].items()
    for unit in units.split()
}
_NUMBER = re.compile(r"^[-−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$|^[-−]?\d+(?:\.\d+)?$")
_YEAR = re.compile(r"^(?:1[5-9]|20)\d\d$")
_WORDS = {
    word: str(number)
    for number, word in enumerate(
        read_table("facts")["numbers"]["words"].split(), start=2
    )
}


class Figure(NamedTuple):
    """A number with the quantity that it measures."""

    number: Token
    quantity: str
    """Quantity that its unit measures, such as "temperature"; "" where it has none."""
    required: tuple[str, ...]
    """Terms that an answer must hold, alternatives separated by "|"."""

    def is_in(self, token: Token) -> bool:
        """Tell whether the number hangs on a word."""
        return token == self.number or token.is_ancestor(self.number)


def figure_in(doc: Doc) -> Figure | None:
    """Return the one figure of a sentence; None where it has none, or several."""
    figures = list(_figures(doc))
    return figures[0] if len(figures) == 1 else None


def _figures(doc: Doc) -> Iterator[Figure]:
    for token in doc:
        if token.lower_ in _WORDS:
            numeral = _WORDS[token.lower_]
            yield Figure(token, "", (f"{numeral}|{token.lower_}",))
        elif any(letter.isdigit() for letter in token.text):
            yield _figure_of(token)


def _figure_of(number: Token) -> Figure:
    text = number.text
    if not _NUMBER.match(text) or _YEAR.match(text):
        return Figure(number, "", ())
    unit = _unit_behind(number)
    if unit not in _UNITS:
        return Figure(number, "", (text,))
    required = f"{text}{unit}|{text}" if unit == "%" else f"{text} {unit}"
    return Figure(number, _UNITS[unit], (required,))


def _unit_behind(number: Token) -> str:
    """Return the word after a number, a sign of degrees with its letter."""
    words = number.doc[number.i + 1 : number.i + 3].text.split()
    if not words:
        return ""
    if words[0] == "°":
        return "".join(words[:2])
    return words[0]
