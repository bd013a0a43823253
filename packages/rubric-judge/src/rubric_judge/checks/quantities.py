r"""Numbers as people and models write them, with their units: powers of ten, fractions, LaTeX.

Understood: 1,234.5 · 1 234 (thin spaces, `1\,234`) · .5 · −3 (U+2212) · 6.02e23 · 6.02×10^23 ·
6.02 · 10²³ · `6.02 \times 10^{23}` · 5 million · 3/4 · `\frac{3}{4}` · 9.81 ± 0.02 m/s² ·
`\text{m}`.
Not understood: decimal commas (3,14), mixed numbers, roots, constants, sums: a number is read,
never computed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, cast

from rubric_core.files import toml_beside
from rubric_core.rewriting import rewriting

if TYPE_CHECKING:
    import pint

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_TABLE = toml_beside(__file__, "quantities.toml")
_REWRITE = rewriting(_TABLE["plain_numbers"])
_SUPERSCRIPT = re.compile(r"[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")


def _compiled(
    patterns: Mapping[str, str | Sequence[str]],
) -> dict[str, re.Pattern[str]]:
    written: dict[str, str] = {}
    for name, pieces in patterns.items():
        pattern = "".join(pieces)
        for part, known in written.items():
            pattern = pattern.replace(f"{{{part}}}", known)
        written[name] = pattern
    return {name: re.compile(pattern) for name, pattern in written.items()}


_PATTERNS = _compiled(_TABLE["patterns"])
_SCALES: dict[str, float] = _TABLE["scales"]


@dataclass(frozen=True)
class Quantity:
    """A number of a text, its unit if it has one, and where it stands."""

    value: float
    unit: str
    start: int
    end: int


def plain_numbers(text: str) -> str:
    """Rewrite LaTeX, superscripts and typographic signs, so that numbers are in one notation."""
    return _SUPERSCRIPT.sub(
        lambda match: "^" + match[0].translate(_SUPERSCRIPTS), _REWRITE(text)
    )


def read_number(text: str, start: int = 0) -> tuple[float, int] | None:
    """Read the number that stands at one place.

    Args:
        text: in the notation of `plain_numbers`.
        start: the place.

    Returns:
        The number and where it ends, or None where there is none.
    """
    match = _PATTERNS["number"].match(text, start)
    value = match and _value(match)
    return None if match is None or value is None else (value, match.end())


def read_scale(text: str, start: int) -> tuple[float, int]:
    """Read "thousand" to "trillion" after a number: the factor, 1 without, and where it ends."""
    match = _PATTERNS["scale"].match(text, start)
    return (_SCALES[match["scale"].lower()], match.end()) if match else (1.0, start)


def read_quantities(
    text: str, *, units: bool, own_unit: str = ""
) -> Iterator[Quantity]:
    """Read the numbers of a text in order.

    Args:
        text: in the notation of `plain_numbers`.
        units: whether to read units too.
        own_unit: a unit that is one even where it could be a word of prose ("in").

    Yields:
        Finite numbers; a stated uncertainty belongs to its number.
    """
    position = 0
    while match := _PATTERNS["number"].search(text, position):
        position = match.end()
        value = _value(match)
        if value is None:
            continue
        if uncertainty := _PATTERNS["uncertainty"].match(text, position):
            position = uncertainty.end()
        factor, position = read_scale(text, position)
        unit, position = (
            read_unit(text, position, own=own_unit) if units else ("", position)
        )
        if math.isfinite(value * factor):
            yield Quantity(value * factor, unit, match.start(), position)


def _value(match: re.Match[str]) -> float | None:
    digits = re.sub(r"[^\d.]", "", match["mantissa"] or "1")
    # One conversion, so that the power of ten rounds nothing twice.
    exponent = sum(int(match[part] or 0) for part in ("alone", "e", "power"))
    below = float(match["below"] or 1)
    value = (
        float(f"{match['sign'] or ''}{digits}e{exponent}") / below
        if below
        else math.nan
    )
    return value if math.isfinite(value) else None


_NEAR = 160
_UNSURE, _COMPARED, _COMPUTED, _JOINING = (
    frozenset(_TABLE["words"][name].split())
    for name in ("unsure", "compared", "computed", "joining")
)


def is_bare(text: str, quantity: Quantity) -> bool:
    """Return whether nothing beside a quantity belongs to it: `√5`, `3,5`, `f(5)`, `5x`, `5!`."""
    start = quantity.start
    end = quantity.end
    return not (
        _PATTERNS["attached_before"].search(text[max(0, start - 20) : start])
        or (not quantity.unit and _PATTERNS["attached_after"].match(text, end))
        or _PATTERNS["operator_after"].match(text, end)
    )


def is_asserted(text: str, start: int, end: int, *, since: int) -> bool:
    """Return whether the words and signs around a quantity let it stand.

    Args:
        text: in the notation of `plain_numbers`.
        start: where the quantity starts.
        end: where it ends.
        since: where the number before it ends.

    Returns:
        False next to a comparison, an operator, a negation or an alternative.
    """
    before = text[max(since, start - _NEAR) : start]
    if _PATTERNS["operator_before"].search(before) or _PATTERNS["denied_after"].match(
        text, end
    ):
        return False
    clause = _PATTERNS["clause_end"].split(before)[-1]
    words = [word.lower() for word in _PATTERNS["word"].findall(clause)][-4:]
    if any(word in _UNSURE or word.endswith(("n't", "n’t")) for word in words):
        return False
    if _PATTERNS["stated"].search(clause):
        return True
    compared = not _COMPARED.isdisjoint(words[-2:]) or words[-2:] == ["up", "to"]
    return not compared and _COMPUTED.isdisjoint(words[-1:])


def is_enumerated(gap: str) -> bool:
    """Return whether what stands between two numbers makes them a list, a range or a choice."""
    if _PATTERNS["separate"].search(gap):
        return False
    first, *others = [word.lower() for word in _PATTERNS["word"].findall(gap)] or [""]
    # "3 m to 5 m" has a unit before the word that joins.
    joined = _JOINING.issuperset(others)
    return joined and (
        not first or first in _JOINING or (bool(others) and is_known_unit(first))
    )


def is_joined(gap: str) -> bool:
    """Return whether a number and the next one are a range or a choice."""
    return _PATTERNS["range"].fullmatch(gap) is not None


def fills_a_box(rest: str) -> bool:
    """Return whether no more than a noun follows the number of a box."""
    return _PATTERNS["noun"].fullmatch(rest) is not None


# Units that are words: "3 in the study" is not a length, "3 in." and "3in" are.
_PROSE = frozenset({"a", "am", "are", "as", "at", "has", "he", "in", "me", "pm", "us"})
_LOOKAHEAD = 80
_ROUNDING = 1e-9
# What pint raises for text that is no expression, or for units that it cannot combine, beside its
# own errors: it asserts, for example, that "dB/m" does not occur.
_NO_UNIT = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    SyntaxError,
    TokenError,
    TypeError,
    ValueError,
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
        unit: what is not one, such as "apples", is not part of the quantity. A word of prose is a
        unit where it is attached to the number or where the text does not go on after it.
    """
    match = _PATTERNS["unit"].match(text, start, start + _LOOKAHEAD)
    while match is not None:
        unit = match["unit"]
        goes_on = _PATTERNS["goes_on"].match(text, match.end())
        if unit in _PROSE and match.start("unit") > start and goes_on:
            is_own = unit in re.findall(r"[A-Za-z]+", own)
            return (unit, match.end()) if is_own else ("", start)
        if is_known_unit(unit):
            return unit, match.end()
        shorter = _PATTERNS["trailing_unit_words"].search(
            text, match.start(), match.end()
        )
        match = shorter and _PATTERNS["unit"].match(text, start, shorter.start())
    return "", start


@lru_cache(maxsize=8192)
def is_known_unit(unit: str) -> bool:
    """Return whether this is a unit of the registry, such as `m/s^2`, `°C`, `kWh` or `%`."""
    return _parse(unit) is not None


@lru_cache(maxsize=8192)
def _line(unit: str, target: str) -> tuple[float, float] | None:
    """Return factor and offset of the conversion of one unit to another."""
    import pint

    source = _parse(unit)
    goal = _parse(target)
    if source is None or goal is None:
        return None

    def convert(value: float) -> float:
        return float(cast("Any", _registry().Quantity(value, source)).m_as(goal))

    try:
        # Every unit but the logarithmic ones is a line, and only those have no value at 0.
        at_1, at_2, at_3 = map(convert, (1.0, 2.0, 3.0))
        if abs((at_3 - at_2) - (at_2 - at_1)) > _ROUNDING * max(
            abs(at_3 - at_2), abs(at_1)
        ):
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

    unit = _PATTERNS["fahrenheit"].sub("degF", _PATTERNS["celsius"].sub("degC", unit))
    try:
        return _registry().parse_units(" ".join(unit.split()))
    except (*_NO_UNIT, pint.PintError):
        return None
