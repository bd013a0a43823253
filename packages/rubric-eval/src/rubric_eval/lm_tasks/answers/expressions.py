"""A mathematical expression, as MATH asks for it: boxed, in a formula, or in words."""

from __future__ import annotations

import re
from typing import Final

from rubric_eval.lm_tasks.answers.stated import last_line, statements

_FORMULA: Final = re.compile(
    r"\$\$(.+?)\$\$|(?<!\\)\$((?:[^$\\]|\\.)+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL
)
_SENTENCE_END: Final = re.compile(r"(?<!\\)[.!?](?=\s|$)")
_MATHEMATICAL: Final = re.compile(r"[\d\\^_=+<>√π∞]")
_WORD: Final = re.compile(r"[^\W\d_][\w'-]*")
_MOST_WORDS: Final = 2
"""A stated answer in plain words, such as a name or a weekday, has no more."""


def stated_expression(response: str) -> str | None:
    r"""Return the expression that a response ends on.

    The last `\boxed{…}` or `#### …` or "the answer is …" counts; behind words, only what is a
    formula, holds a digit or a LaTeX command, or, in a response without a box, is a name of at
    most two words. With no statement at all it is the last formula of the last line.
    """
    stated = statements(response)
    has_box = any(one.is_boxed for one in stated)
    for one in reversed(stated):
        found = one.text if one.is_boxed else _after_marker(one.text, allow_words=not has_box)
        if found:
            return found.strip()
    formulas = list(_FORMULA.finditer(last_line(response)))
    return _inside(formulas[-1]) if formulas else None


def _after_marker(text: str, *, allow_words: bool) -> str | None:
    text = text.strip().strip("*").strip()
    formula = _FORMULA.match(text)
    if formula is not None:
        return _inside(formula)
    end = _SENTENCE_END.search(text)
    sentence = (text[: end.start()] if end else text).strip().strip("*_").strip()
    formula = _FORMULA.search(sentence)
    words = _WORD.findall(re.sub(r"\\[a-zA-Z]+", " ", sentence))
    long_words = [word for word in words if len(word) > 1]
    if formula is not None and len(_WORD.findall(sentence[: formula.start()])) <= _MOST_WORDS:
        return _inside(formula)
    if len(long_words) > _MOST_WORDS or not sentence:
        return None
    return sentence if allow_words or _MATHEMATICAL.search(sentence) else None


def _inside(formula: re.Match[str]) -> str:
    return next(part for part in formula.groups() if part is not None).strip().rstrip(".,").strip()
