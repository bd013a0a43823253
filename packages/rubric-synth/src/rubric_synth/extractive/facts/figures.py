"""Figures of a sentence with their units."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from spacy.tokens import Doc, Token

from rubric_synth.tables import read_table

_UNITS: Final = {
    unit: quantity
    for quantity, units in read_table("facts")["units"].items()
    for unit in units.split()
}
_NUMBER: Final = re.compile(r"^[-−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$|^[-−]?\d+(?:\.\d+)?$")
_YEAR: Final = re.compile(r"^(?:1[5-9]|20)\d\d$")
_WORDS: Final = {
    word: str(number)
    for number, word in enumerate(
        read_table("facts")["numbers"]["words"].split(), start=2
    )
}


class Figure(NamedTuple):
    """A number and what it counts or measures."""

    number: Token
    quantity: str
    """What its unit measures, such as "temperature"; "" where it has none."""
    required: tuple[str, ...]
    """What an answer must hold, alternatives apart by "|"."""

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
            spelled = _WORDS[token.lower_]
            yield Figure(token, "", (f"{spelled}|{token.lower_}",))
        elif any(letter.isdigit() for letter in token.text):
            if not _NUMBER.match(token.text) or _YEAR.match(token.text):
                yield Figure(token, "", ())
                continue
            unit = _unit_behind(token)
            if unit in _UNITS:
                shown = (f"{token.text} {unit}", f"{token.text}{unit}", token.text)
                yield Figure(
                    token,
                    _UNITS[unit],
                    (shown[0] if unit != "%" else "|".join(shown[1:]),),
                )
            else:
                yield Figure(token, "", (token.text,))


def _unit_behind(number: Token) -> str:
    """Return the word behind a number, a sign of degrees with its letter."""
    behind = number.doc[number.i + 1 : number.i + 3].text.split() or [""]
    return "".join(behind[:2]) if behind[0] == "°" else behind[0]
