"""A number, as GSM8K asks for it: thousands separators, currency, units and percent are read."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from rubric_eval.lm_tasks.answers.equivalence import is_equivalent
from rubric_eval.lm_tasks.answers.stated import last_line, statements

_NUMBER: Final = re.compile(
    r"(?<![\w.])[-−–]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.])[-−–]?\.\d+"
)
_LATEX: Final = (
    (re.compile(r"(?<=\d)(?:\{,\}|\\[,!;: ]|~|[\u00a0\u2009\u202f])(?=\d{3}(?!\d))"), ","),
    (re.compile(r"\\(?:text|mathrm|textbf|mathbf|operatorname)\s*\{([^{}]*)\}"), r" \1"),
    (re.compile(r"\\[,;:! ]|\\quad"), " "),
    (re.compile(r"\\(?:times|cdot)(?![a-zA-Z])|(?<=\d)\s+times\s+(?=[\d(])"), " * "),
    (re.compile(r"\\div(?![a-zA-Z])|(?<=\d)\s+divided by\s+(?=[\d(])"), " / "),
    (re.compile(r"(?<=\d)\s+plus\s+(?=[\d(])"), " + "),
    (re.compile(r"(?<=\d)\s+minus\s+(?=[\d(])"), " - "),
    (re.compile(r"\\\$|[$€£]"), ""),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\*\*|__"), ""),
)
_LEAD: Final = re.compile(
    r"(?:(?!\.\d)[^\w\\\-−–]|–(?=\s)|\\(?![dtc]?frac)|about|approximately|approx|exactly|"
    r"just|only|therefore|thus|indeed|equal to|a total of|[a-zA-Z]\s*=)*",
    re.IGNORECASE,
)
_FRACTION: Final = re.compile(r"[-−–]?\s*\\[dtc]?frac\s*\{[^{}]*\}\s*\{[^{}]*\}")
_CALCULATION: Final = re.compile(r"[-−–\d.,\s+*/×÷·^(){}%=]+")
_SEVERAL: Final = re.compile(r"\s*(?:\bor\b|\band\b|\bto\b|:(?=\d))\s*[-−–]?\d")
_LISTED: Final = re.compile(r"\d\s*,\s+\d")
_OPERATION: Final = re.compile(r"\d\s*[+*/×÷·^]|\d\s+[-−–]\s+\d|\d\s*[-−–]\s*\d")


def stated_number(response: str) -> str | None:
    r"""Return the number that a response ends on, as written but without its dress.

    The last statement counts, `\boxed{…}`, `#### …` or "the answer is …", if a number stands at the
    head of what is stated. With none at all, it is the last number of the last line.
    """
    for one in reversed(statements(response)):
        text = _plain(one.text)
        found = _in_box(text) if one.is_boxed else _at_head(text)
        if found is not None:
            return found
    if any(one.is_boxed for one in statements(response)):
        return None
    numbers = _NUMBER.findall(_plain(last_line(response)))
    return _digits(numbers[-1]) if numbers else None


def is_number(answer: str, target: str) -> bool:
    """Return whether an answer is the number wanted: 18, 18.00 and 36/2 are one."""
    wanted, given = _decimal(_plain(target)), _decimal(answer)
    if wanted is None:
        return is_equivalent(target, answer)
    if given is not None:
        return given == wanted
    return not _LISTED.search(answer) and is_equivalent(str(wanted), answer)


def _in_box(text: str) -> str | None:
    """Return the one number of a box; what cannot be one number stays an expression."""
    text = text.rsplit("=", 1)[-1].strip()
    numbers = list(_NUMBER.finditer(text))
    if len(numbers) == 1 and not re.search(r"\\[a-zA-Z]+\s*\{|\^|\d\s*[/*]", text):
        return _digits(numbers[0].group())
    return text if text and (numbers or "\\" in text) else None


def _at_head(text: str) -> str | None:
    lead = _LEAD.match(text)
    begin = lead.end() if lead else 0
    found = _NUMBER.match(text, begin)
    if found is None:
        fraction = _FRACTION.match(text, begin)
        return _ascii(fraction.group()) if fraction else None
    is_listed = text[begin - 1 : begin] in {"(", "["} and text[found.end() :].startswith(",")
    if is_listed or _SEVERAL.match(text, found.end()):
        return text[begin:].strip()
    chunk = _CALCULATION.match(text, begin)
    calculation = chunk.group() if chunk else found.group()
    if "=" in calculation:
        ends = _NUMBER.findall(calculation.rsplit("=", 1)[-1])
        return _digits(ends[0]) if ends else None
    if _OPERATION.search(calculation):
        return calculation.strip().rstrip(".,").strip()
    return _digits(found.group())


def _plain(text: str) -> str:
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    return text


def _digits(number: str) -> str:
    return _ascii(re.sub(r"[,\s]", "", number))


def _ascii(text: str) -> str:
    return text.replace("−", "-").replace("–", "-")


def _decimal(text: str) -> Decimal | None:
    number = text.strip().removesuffix("%").rstrip()
    # A comma is read only as one of thousands: `1, 8` and `5,3` are two numbers each.
    return Decimal(_digits(number)) if _NUMBER.fullmatch(number) else None
