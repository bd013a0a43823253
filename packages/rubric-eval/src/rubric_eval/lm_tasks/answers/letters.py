r"""The letter of one of four choices, as GPQA asks for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rubric_eval.lm_tasks.answers.stated import last_line, statements

if TYPE_CHECKING:
    from collections.abc import Sequence

_DRESS: Final = re.compile(
    r"\\(?:text|mathrm|mathbf|textbf|textit|operatorname|rm|bf)\b\s*|[{}$*_`\"'“”‘’\u200b\ufeff]|"
    r"\\[()\[\],;! ]"
)
_LEAD: Final = re.compile(
    r"(?:(?:clearly|thus|therefore|indeed|most likely|probably|definitely|simply|hence|"
    r"the|option|choice|letter|answer|statement|correct|one|is)\b[\s:,]*)*",
    re.IGNORECASE,
)
_LETTER: Final = re.compile(
    r"(?:\(\s*([A-Da-d])\s*\)|\[\s*([A-D])\s*\]|([A-D])\s*\)|"
    r"([A-D])(?=\s*(?:$|[.,:;!?\n]|[-–—]\s|is\b|because\b)))"
)
_SEVERAL: Final = re.compile(
    r"(?:\(\s*[A-D]\s*\)|[A-D]\b\)?)\s*(?:(?:,|/|&|\bor\b|\band\b)\s*)+"
    r"(?:\(\s*[A-D]\s*\)|[A-D])\s*(?:$|[.,;!?/&\n]|(?:or|and)\b)"
)
_ALONE: Final = re.compile(r"(?:option|choice)?\s*\(?\s*([A-D])\s*\)?\s*[.:]?", re.IGNORECASE)
_CORRECT: Final = re.compile(
    r"(?<!\bif )(?<!\bthat )(?<!\bwhether )(?:\(([A-D])\)|\b([A-D]))\s+is\s+(?:the\s+)?"
    r"(?:correct|right)\b(?!\s+(?:if|only|when))"
)
_SPACES: Final = re.compile(r"[\s~]+|\\[,;:! ]")


def stated_letter(response: str, choices: Sequence[str]) -> str | None:
    r"""Return the letter A to D that a response ends on.

    The last statement that names a choice counts: `\boxed{B}`, "the answer is (B)", "Answer: B", or
    the text of exactly one choice in a letter's place. The article "a" is no letter: without
    parentheses a letter is a capital that nothing of a phrase follows. With no statement at all, a
    last line that is a letter alone counts, or the one letter of which it says "B is correct". A
    letter goes before a text that contradicts it.

    Args:
        response: the response.
        choices: texts of A, B, C and D, in this order.
    """
    stated = statements(response)
    for one in reversed(stated):
        text = _LEAD.sub("", _undress(one.text), count=1)
        if _SEVERAL.match(text):
            return None
        found = _boxed_letter(text) if one.is_boxed else None
        found = found or _letter(text) or _choice(one.text, choices)
        if found is not None:
            return found
    alone = _ALONE.fullmatch(_undress(last_line(response)))
    if alone:
        return alone.group(1).upper()
    called = {first or second for first, second in _CORRECT.findall(_undress(response))}
    return called.pop() if len(called) == 1 and not stated else None


def _letter(text: str) -> str | None:
    found = _LETTER.match(text)
    return next(part for part in found.groups() if part).upper() if found else None


def _boxed_letter(text: str) -> str | None:
    alone = _ALONE.fullmatch(text.strip())
    return alone.group(1).upper() if alone else None


def _choice(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the one choice that the text is, letter by letter without its dress."""
    given = _bare(text)
    same = [index for index, choice in enumerate(choices) if _bare(choice) == given]
    return "ABCD"[same[0]] if len(same) == 1 and given else None


def _undress(text: str) -> str:
    text = re.sub(r"\\([()])", r"\1", text)  # \(B\) is a letter in a formula
    return _SPACES.sub(" ", _DRESS.sub("", text)).strip()


def _bare(text: str) -> str:
    return _SPACES.sub("", _DRESS.sub("", text)).strip().rstrip(".").casefold()
