"""Units of measurement: which unit follows a number, and what it is in another unit."""

from __future__ import annotations

import re
from functools import lru_cache
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pint


_TOKEN = r"(?:%|°(?:[CFK]\b)?|[A-Za-zµμΩΩÅ℃℉]+)(?:\^-?\d{1,2})?"  # noqa: S105
_COMPACT = (
    rf"{_TOKEN}(?:(?:\s?[/·⋅]\s?|\*)(?:{_TOKEN}|\({_TOKEN}(?:[ ·⋅*/]{_TOKEN}){{0,4}}\))){{0,5}}"
)
# Words may only follow a unit where they cannot be prose: "m in" is no metre-inch.
_WORDS = rf"\s+(?:squared|cubed|per\s+{_COMPACT}|{_TOKEN}(?:\s{_TOKEN}){{0,2}}(?<=\d))"
_EXPRESSION = re.compile(
    rf"\s{{0,3}}(?P<unit>(?:degrees?\s+(?:[Cc]elsius|[Ff]ahrenheit|C|F)\b"
    rf"|(?:(?:square|cubic)\s+)?{_COMPACT}(?:{_WORDS}){{0,4}}))"
)
_TRAILING_WORDS = re.compile(_WORDS + r"\Z")
_SPELLINGS = (
    (re.compile(r"degrees?\s+(?:[Cc]elsius|C\b)|°C|℃"), "degC"),
    (re.compile(r"degrees?\s+(?:[Ff]ahrenheit|F\b)|°F|℉"), "degF"),
    (re.compile(r"°K"), "kelvin"),
    (re.compile(r"°"), "degree"),
    (re.compile(r"%"), "percent"),
    (re.compile(r"[ΩΩ]"), "ohm"),
    (re.compile(r"μ"), "µ"),
    (re.compile(r"Å"), "angstrom"),
    (re.compile(r"[·⋅]"), "*"),
    (re.compile(r"\^"), "**"),
)
# Units that are words: "3 in the study" is no length, "3 in." and "3in" are.
_PROSE = frozenset({"a", "am", "are", "as", "at", "has", "he", "in", "me", "pm", "us"})
_GOES_ON = re.compile(r"\s*\w|\.\w")
_LOOKAHEAD = 80
_ROUNDING = 1e-9
# What pint raises for text that is no expression, or for units that it cannot combine, beside its
# own errors: it asserts, for example, that "dB/m" does not occur.
_NO_UNIT = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError),
    *(SyntaxError, TokenError, TypeError, ValueError),
)


@lru_cache(maxsize=1)
def _registry() -> pint.UnitRegistry[float]:
    # A third of a second: loaded for the first unit that is compared.
    import pint

    return pint.UnitRegistry(cache_folder=None)


def read_unit(text: str, start: int, *, own: str = "") -> tuple[str, int]:
    """Read the unit that stands right after a number.

    Args:
        text: a text with plain exponents (`m/s^2`).
        start: where the number ends.
        own: a unit whose words are units wherever they stand.

    Returns:
        The longest unit that starts there, and where it ends; "" and the start where there is no
        unit: what is not one, such as "apples", is no part of the quantity. A word of prose is a
        unit where it is attached to the number or where the text does not go on after it.
    """
    found = _EXPRESSION.match(text, start, start + _LOOKAHEAD)
    while found is not None:
        unit = found["unit"]
        if unit in _PROSE and found.start("unit") > start and _GOES_ON.match(text, found.end()):
            is_own = unit in re.findall(r"[A-Za-z]+", own)
            return (unit, found.end()) if is_own else ("", start)
        if is_known_unit(unit):
            return unit, found.end()
        shorter = _TRAILING_WORDS.search(text, found.start(), found.end())
        found = shorter and _EXPRESSION.match(text, start, shorter.start())
    return "", start


@lru_cache(maxsize=8192)
def is_known_unit(unit: str) -> bool:
    """Return whether this is a unit of the registry, such as `m/s^2`, `°C`, `kWh` or `%`."""
    return _parse(unit) is not None


@lru_cache(maxsize=8192)
def _line(unit: str, target: str) -> tuple[float, float] | None:
    """Return factor and offset of the conversion of one unit to another."""
    import pint

    source, goal = _parse(unit), _parse(target)
    if source is None or goal is None:
        return None

    def convert(value: float) -> float:
        return float(cast("Any", _registry().Quantity(value, source)).m_as(goal))

    try:
        # Every unit but the logarithmic ones is a line, and only those have no value at 0.
        at_1, at_2, at_3 = map(convert, (1.0, 2.0, 3.0))
        if abs((at_3 - at_2) - (at_2 - at_1)) > _ROUNDING * max(abs(at_3 - at_2), abs(at_1)):
            return None
        at_0 = convert(0.0)
    except (*_NO_UNIT, pint.PintError):
        return None
    return at_1 - at_0, at_0


def to_unit(value: float, unit: str, target: str) -> float | None:
    """Convert a value, offsets of temperatures included.

    Args:
        value: the number.
        unit: its unit; empty for a bare number.
        target: the unit to convert to.

    Returns:
        The value in `target`, or None where the two measure different things.
    """
    line = _line(unit, target)
    return None if line is None else value * line[0] + line[1]


def _parse(unit: str) -> pint.Unit | None:
    import pint

    for spelling, name in _SPELLINGS:
        unit = spelling.sub(name, unit)
    try:
        return _registry().parse_units(" ".join(unit.split()))
    except (*_NO_UNIT, pint.PintError):
        return None
