r"""`numeric: VALUE [± TOLERANCE[%]] [UNIT] [; unit=UNIT] [; where=answer|any]`.

A quantity counts when it lies within the tolerance after conversion to the criterion's unit:
"981 cm/s²" is "9.81 m/s^2", and "20 °C" is "293.15 K". A criterion with a unit asks for a unit; one
without compares bare numbers. A unit that is not physical ("[apples]") must be written the same.

`where=answer`: one number decides, so that a list of guesses is worth nothing:
    1. the last `\boxed{…}`, or else the line of the last "answer:" / "answer is" / "####",
       or else the whole response;
    2. in it, the last quantity that can be converted to the unit;
    3. none, when that one is not bare or not asserted (`asserted`): "5x", "< 5", "not 5", "3 or 5".
`where=any`: some bare number of the first 20,000 characters, of at most ten different ones.
Left out, it is `answer`, but `any` for the lexical judge, which sees words and no answers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal, NamedTuple, cast

from rubric_judge.checks import phrases, quantities
from rubric_judge.errors import VerificationError

Where = Literal["answer", "any"]

_LONGEST_TEXT = 20_000
"""Characters of a response that are read: the first for `any`, the last for `answer`."""

_MOST_NUMBERS = 10
"""A response that offers more different numbers than this is guessing, not answering."""

_ROUNDING = 1e-9

_LONGEST_DIRECTIVE = 500
_TOLERANCE = re.compile(r"\s*±\s*")
_PERCENT = re.compile(r"\s*%")
_UNIT = re.compile(
    r"\s*(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<plain>[^\s\d.±\[\]][^±\[\]]*))?"
)
_OPTION = re.compile(r"(?s)(?:(?P<unit>unit)|where)\s*=\s*(?(unit).+|(?:answer|any))")
_MARK = re.compile(r"(?i)\banswer\b[ \t]*(?:is|=|:)|####")
_BOX = "\\boxed{"


@dataclass(frozen=True)
class NumericCheck:
    """A number that the response must state; all or nothing."""

    value: float
    tolerance: float
    unit: str = ""
    where: Where | None = None


_unusable = partial(VerificationError.of, "numeric:")


def read_numeric(body: str) -> NumericCheck:
    """Read value, tolerance, unit and place.

    Args:
        body: what follows the colon.

    Returns:
        The check.

    Raises:
        VerificationError: it is not a valid number, or an option is unknown or given twice.
    """
    if len(body) > _LONGEST_DIRECTIVE:
        raise _unusable(f"is longer than {_LONGEST_DIRECTIVE} characters")
    number, *parts = (part.strip() for part in body.split(";"))
    check = _number_and_unit(quantities.plain_numbers(number).strip())
    if check is None:
        raise _unusable(
            "needs VALUE ± TOLERANCE [unit], for example `numeric: 3.14 ± 0.01 m`"
        )
    options: dict[str, str] = {}
    for position, part in enumerate(parts, 1):
        name, _, setting = (piece.strip() for piece in part.partition("="))
        if name in options or not _OPTION.fullmatch(part):
            known = "unit=UNIT and where=answer or where=any, each once"
            raise _unusable(f"option {position} is unknown; the options are {known}")
        options[name] = setting
    if check.unit and "unit" in options:
        raise _unusable("has two units; leave `unit=` or the other one out")
    return replace(
        check,
        unit=check.unit
        or _named_unit(quantities.plain_numbers(options.get("unit", ""))),
        where=cast("Where | None", options.get("where")),
    )


def _number_and_unit(text: str) -> NumericCheck | None:
    number = quantities.read_number(text)
    if number is None:
        return None
    value, position = number
    tolerance = 0.0
    if sign := _TOLERANCE.match(text, position):
        number = quantities.read_number(text, sign.end())
        if number is None or number[0] < 0:
            return None
        tolerance, position = number
        if percent := _PERCENT.match(text, position):
            tolerance *= abs(value) / 100
            position = percent.end()
    factor, position = quantities.read_scale(text, position)
    value = value * factor
    tolerance = tolerance * factor
    unit = _UNIT.fullmatch(text, position)
    if unit is None or not math.isfinite(value + tolerance):
        return None
    own = unit["bracketed"]
    return NumericCheck(
        value, tolerance, own.strip() if own else _named_unit(unit["plain"] or "")
    )


def _named_unit(name: str) -> str:
    name = name.strip()
    words = name.replace("-", "").replace(" ", "")
    if name and not words.isalpha() and not quantities.is_known_unit(name):
        # A plain word may be what is counted; taken as one, "m/sec2" would fail every answer.
        raise _unusable(
            "has a unit that physics does not have: correct it (`km/h`, `m/s^2`), or put a word "
            "of your own in brackets, [apples]"
        )
    return name


def states_number(check: NumericCheck, text: str) -> bool:
    """Look for the number of a criterion in a response.

    Args:
        check: value, tolerance and unit.
        text: the response.

    Returns:
        Whether the deciding quantity, or some quantity, lies within the tolerance.
    """
    if check.where != "any":
        part, boxed = _deciding_part(text)
        return _answers(check, _prepared(check, part), boxed=boxed)
    text = _prepared(check, phrases.head(text, _LONGEST_TEXT))
    stated = [reading for reading in _read(check, text) if reading.value is not None]
    values = {reading.value for reading in stated}
    if len(values) > _MOST_NUMBERS:
        return False
    return any(
        _is_near(check, reading.value) and quantities.is_bare(text, reading.quantity)
        for reading in stated
    )


def _is_near(check: NumericCheck, value: float | None) -> bool:
    # A value on the edge of its tolerance is inside: 3.15 − 3.14 is not 0.01 in binary.
    slack = _ROUNDING * (abs(check.value) + check.tolerance)
    return value is not None and abs(value - check.value) <= check.tolerance + slack


def _deciding_part(text: str) -> tuple[str, bool]:
    """Return the part that holds the answer, and whether it is a box."""
    text = phrases.tail(text, _LONGEST_TEXT)
    start = text.rfind(_BOX)
    if start >= 0:
        return _braced(text, start + len(_BOX)), True
    marks = list(_MARK.finditer(text))
    return (
        text[marks[-1].end() :].lstrip().partition("\n")[0] if marks else text
    ), False


def _braced(text: str, start: int) -> str:
    depth = 1
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[start:position]
    return ""  # never closed: cut off before the answer was


def _answers(check: NumericCheck, text: str, *, boxed: bool) -> bool:
    """Return whether the last quantity of the check's kind is near, bare and asserted."""
    readings = list(_read(check, text))
    last = next(
        (n for n in reversed(range(len(readings))) if readings[n].value is not None),
        None,
    )
    if last is None or not _is_near(check, readings[last].value):
        return False
    first = last
    while first and _says_again(check, text, readings[first - 1], readings[first]):
        first -= 1
    start = readings[first].quantity.start
    end = readings[last].quantity.end
    since = readings[first - 1].quantity.end if first else 0
    # Numbers of another kind ("at 7 s") are not alternatives.
    before = first > 0 and readings[first - 1].is_comparable
    after = last + 1 < len(readings) and readings[last + 1].is_comparable
    return (
        all(
            quantities.is_bare(text, reading.quantity)
            for reading in readings[first : last + 1]
        )
        and quantities.is_asserted(text, start, end, since=since)
        and not (before and quantities.is_enumerated(text[since:start]))
        and not (
            after
            and quantities.is_joined(text[end : readings[last + 1].quantity.start])
        )
        and (not boxed or quantities.fills_a_box(text[end:]))
    )


def _says_again(
    check: NumericCheck, text: str, first: _Reading, second: _Reading
) -> bool:
    """Return whether two numbers are the same in other words: "5 m, or about 16.4 ft"."""
    if first.value is None or second.value is None:
        return False
    same = math.isclose(first.value, second.value, rel_tol=_ROUNDING) or (
        _is_near(check, first.value) and _is_near(check, second.value)
    )
    return same and quantities.is_enumerated(
        text[first.quantity.end : second.quantity.start]
    )


class _Reading(NamedTuple):
    quantity: quantities.Quantity
    value: float | None
    """In the criterion's unit; None for another kind."""

    @property
    def is_comparable(self) -> bool:
        return self.value is not None or not self.quantity.unit


def _read(check: NumericCheck, text: str) -> Iterator[_Reading]:
    """Yield every quantity with its value in the criterion's unit."""
    measured = quantities.is_known_unit(check.unit) if check.unit else False
    for quantity in quantities.read_quantities(
        text, units=measured, own_unit=check.unit
    ):
        if measured:
            yield _Reading(
                quantity, quantities.to_unit(quantity.value, quantity.unit, check.unit)
            )
        elif not check.unit:
            yield _Reading(quantity, quantity.value)
        elif unit := _as_written(check.unit).match(text, quantity.end):
            yield _Reading(
                replace(quantity, unit=check.unit, end=unit.end()), quantity.value
            )
        else:
            yield _Reading(quantity, None)


def _prepared(check: NumericCheck, text: str) -> str:
    text = quantities.plain_numbers(text)
    names = check.unit.split()
    if len(names) < 2 or not all(map(quantities.is_known_unit, names)):  # noqa: PLR2004
        return text
    # Units side by side ("N m") are only read as a product where the criterion writes them so.
    return re.sub(
        rf"(?<=\d)\s?{re.escape(' '.join(names))}(?!\w)", " " + "·".join(names), text
    )


@lru_cache(maxsize=1024)
def _as_written(unit: str) -> re.Pattern[str]:
    after = r"(?![\w^/·*])" if re.match(r"\w", unit[-1]) else ""
    return re.compile(rf"\s*{re.escape(unit)}{after}")
