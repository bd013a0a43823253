"""How one expression is written in many ways, and what is decided without algebra."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_SIGNS: Final = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "∞": r"\infty ",
        "π": r"\pi ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "×": r"\times ",
        "·": r"\cdot ",
        "∪": r"\cup ",
        "∅": r"\emptyset ",
        "²": "^2",
        "³": "^3",
        "\u00a0": " ",
        "\u2009": " ",
        "\u202f": " ",
        "\u200b": "",
    }
)
_WORDED: Final = re.compile(r"\\(?:text|mathrm|textbf|mathbf|textit|mbox)\s*\{([^{}]*)\}")
_TIDYINGS: Final = (
    (re.compile(r"√\s*(\d+|[A-Za-z])"), r"\\sqrt{\1}"),
    (re.compile(r"√\s*\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"\\(?:varnothing|O)(?![a-zA-Z])"), r"\\emptyset"),
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"(\\frac\s*\{[^{}]*\})\s*([A-Za-z\d])"), r"\1{\2}"),
    (re.compile(r"(?<![\d./])(\d+)\s+(\d+)\s*/\s*(\d+)(?![\d.])"), r"\1\\frac{\2}{\3}"),
    (re.compile(r"\s*\\(?:text|mathrm|mbox)\s*\{\s*(?:\\?%|percent)\s*\}"), ""),  # a unit
    (re.compile(r"\s*\\?%|\s*\bpercent\b"), ""),
    (re.compile(r"\{([:.])\}"), r"\1"),
    (re.compile(r"(?<=\d)(?:\{,\}|\\[,!])(?=\d{3}(?!\d))"), ""),
)
_ALIKE: Final = (
    (re.compile(r"\\(?:left|right|big|Big|bigg|Bigg|displaystyle)(?![a-zA-Z])"), ""),
    (_WORDED, r"\1"),
    (re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![a-zA-Z]))|°|\\degree(?![a-zA-Z])"), ""),
    (re.compile(r"\\[,;:! ]|~|\\q?quad(?![a-zA-Z])"), ""),
    (re.compile(r"\\?[$]"), ""),
)
_TAIL: Final = re.compile(r"(?:(?<!\\)[.,;]|\s)+$")
_BLANKS: Final = re.compile(r"(?<!\d)\s+|\s+(?!\d)")  # between digits it parts two numbers
_GROUPED: Final = re.compile(r"[+-]?\d{1,3}(?:(?:,\d{3})+|(?: \d{3})+)(?:\.\d+)?")
_PLAIN: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
_WORDS: Final = re.compile(r"[A-Za-z][A-Za-z' -]*[A-Za-z]")
_LONG_WORD: Final = 4
_BASE: Final = re.compile(r"[\dA-Fa-f]+_\{?(\d+)\}?")
_RELATION: Final = re.compile(r"[=<>]|\\(?:leq?|geq?|lt|gt|neq?|in|equiv|approx)(?![a-zA-Z])")
_COMMAND: Final = re.compile(r"\\[a-zA-Z]+")
_OPERATOR: Final = re.compile(
    r"[+*/^,;]|(?<=[\w)}\]])\s*-|\b(?:or|and)\b|\\(?:frac|cdot|times|div|sqrt|pm|log|ln|sin|cos|tan)"
    r"(?![a-zA-Z])"
)
_LONGEST_NAME: Final = 40


def tidy(text: str) -> str:
    """Return an expression with signs, fractions, separators and percent in one form."""
    text = text.translate(_SIGNS)
    for pattern, replacement in _TIDYINGS:
        text = pattern.sub(replacement, text)
    return _TAIL.sub("", text).strip()


def alike(text: str) -> str:
    """Return what is the same for all ways to write an expression that need no algebra."""
    return _BLANKS.sub("", _bare(text))


def unled(one: str, other: str) -> tuple[str, str]:
    """Return both tidied, and `x = 5` as 5 where the other one is no equation, or one of x too.

    What stands before the sign is a name or a calculation without one; else it is an equation.
    """
    one, other = tidy(one), tidy(other)
    names = one.rpartition("=")[0], other.rpartition("=")[0]
    if all(names) and alike(names[0]) == alike(names[1]):
        one, other = _behind_names(one), _behind_names(other)
    elif "=" in one and not _RELATION.search(other):
        one = _behind_names(one)
    elif "=" in other and not _RELATION.search(one):
        other = _behind_names(other)
    return one, other


def decided_by_form(one: str, other: str) -> bool | None:
    """Decide on numbers, words, bases, and values beside equations; None for everything else."""
    numbers = _number(one), _number(other)
    if None not in numbers:
        return numbers[0] == numbers[1]
    words = _words(one, other)
    if words is not None:
        return words[0].casefold() == words[1].casefold()
    bases = _base(one), _base(other)
    if bases[0] != bases[1] and (None not in bases or numbers != (None, None)):
        return False  # 40 is not 40 of base nine
    kinds = {_brackets(one), _brackets(other)}
    if "{}" in kinds and kinds & {"()", "[]", "(]", "[)"}:
        return False  # a set has no order
    for equation, value in ((one, other), (other, one)):
        is_value = not _RELATION.search(value) and not re.search(r",|\b(?:or|and)\b|\\pm", value)
        if "=" in equation and is_value:
            return False
    return None


def same_brackets(one: str, other: str) -> tuple[str, str]:
    """Return both, a bare list in the brackets of the other, so that its order counts too."""
    ordered = ("()", "[]", "(]", "[)")
    kinds = _brackets(one), _brackets(other)
    if kinds[0] in ordered and kinds[1] == ",":
        return one, f"{kinds[0][0]}{other}{kinds[0][1]}"
    if kinds[1] in ordered and kinds[0] == ",":
        return f"{kinds[1][0]}{one}{kinds[1][1]}", other
    return one, other


def _bare(text: str) -> str:
    for pattern, replacement in _ALIKE:
        text = pattern.sub(replacement, text)
    text = _TAIL.sub("", text).strip()
    return re.sub(r"[()]", "", text) if re.fullmatch(r"\([A-Za-z]\)", text) else text


def _behind_names(text: str) -> str:
    *names, value = text.split("=")
    return value.strip() if all(map(_is_name, names)) and value.strip() else text


def _is_name(text: str) -> bool:
    if _RELATION.search(text) or len(text) > _LONGEST_NAME or not text.strip():
        return False
    has_letter = re.search(r"[A-Za-z]", _COMMAND.sub("", text)) is not None
    return not has_letter or not _OPERATOR.search(text)


def _number(text: str) -> Decimal | None:
    text = _bare(text).strip()  # blanks count: `1, 200` is two numbers
    text = re.sub("[ ,]", "", text) if _GROUPED.fullmatch(text) else text
    return Decimal(text) if _PLAIN.fullmatch(text) else None


def without_base(text: str) -> str:
    """Return the digits of a numeral that names its base, and anything else as it is."""
    return alike(text).partition("_")[0] if _base(text) else text


def _base(text: str) -> str | None:
    found = _BASE.fullmatch(alike(text))
    return found.group(1) if found else None


def _words(one: str, other: str) -> tuple[str, str] | None:
    """Return both where they are words: multiplied, their letters would have no order."""
    bare = tuple(" ".join(_bare(text).split()) for text in (one, other))
    if not all(_WORDS.fullmatch(text) for text in bare):
        return None
    is_text = any(_WORDED.search(text) for text in (one, other))
    are_long = all(len(text) >= _LONG_WORD for text in bare)
    return (bare[0], bare[1]) if is_text or are_long else None


def _brackets(text: str) -> str:
    """Return the brackets around a whole list, "," for a list without any, or nothing."""
    text = _bare(text).replace(r"\{", "⦃").replace(r"\}", "⦄").strip()
    depth, commas, closes_at = 0, 0, -1
    for place, char in enumerate(text):
        if char in "([⦃{":
            depth += 1
        elif char in ")]⦄}":
            depth -= 1
            if depth == 0 and closes_at < 0:
                closes_at = place
        elif char == "," and depth <= 1:
            commas += 1 if depth or closes_at < 0 else 0
    if not commas:
        return ""
    is_whole = text[:1] in "([⦃" and closes_at == len(text) - 1
    if is_whole:
        return (text[0] + text[-1]).replace("⦃", "{").replace("⦄", "}")
    return "," if not re.search(r"[(\[⦃]", text) else ""
