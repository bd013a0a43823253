"""A mathematical expression as MATH asks for it, and a number as GSM8K does."""

import re
from decimal import Decimal
from typing import Final

from rubric_core.files import toml_beside
from rubric_core.rewriting import patterns, rewriting
from rubric_eval.lm_tasks.answers.equivalence import is_equivalent, without_base
from rubric_eval.lm_tasks.answers.reading import read_by
from rubric_eval.lm_tasks.answers.statements import last_line, statements

_PATTERNS: Final = patterns(toml_beside(__file__, "patterns.toml")["expressions"])
_SCALES: Final = {
    "hundred": 2,
    "thousand": 3,
    "million": 6,
    "billion": 9,
    "trillion": 12,
}
_MOST_WORDS: Final = 2
"""A stated answer in plain words, such as a name or a weekday, has no more."""


def stated_expression(response: str, *, is_cut: bool = False) -> str | None:
    r"""Return the expression that a response ends on.

    The last `\boxed{…}` or `#### …` or "the answer is …" counts; behind words, only what is a
    formula, holds a digit or a LaTeX command, or, in a response without a box, is a name of at
    most two words. With no statement at all it is the last formula of the last line, what stands
    there in bold, or that line where it has no word; of a response that is known to be cut,
    nothing.
    """
    return read_by(_read_expression, response, is_cut=is_cut)


def _read_expression(response: str, /, *, is_cut: bool) -> str | None:
    stated = statements(_PATTERNS["turn"].sub("Answer:", response), is_cut=is_cut)
    has_box = any(one.is_boxed for one in stated)
    for statement in reversed(stated):
        found = (
            statement.text
            if statement.is_boxed
            else _after_marker(statement.text, allow_words=not has_box)
        )
        if found:
            return found.strip()
    if is_cut:
        return None
    line = last_line(response)
    formulas = list(_PATTERNS["formula"].finditer(line))
    if formulas:
        return _inside(formulas[-1])
    bold = [one for one in _PATTERNS["bold"].findall(line) if re.search(r"\d", one)]
    if bold and not has_box and not any(len(word) > 1 for word in _words(bold[-1])):
        return bold[-1].strip().rstrip(".,")
    line = line.strip("*_# ")
    is_alone = re.search(r"\d", line) and "boxed" not in line and not has_box
    return (
        line if is_alone and not any(len(word) > 1 for word in _words(line)) else None
    )


def is_expression(answer: str, target: str) -> bool:
    """Return whether an answer is the expression wanted, or an equation that ends in it.

    A question for a numeral of base eight says so, and its answer need not.

    Args:
        answer: as it was stated; `a + b = 5` answers the question what a + b is.
        target: LaTeX, without `$`.
    """
    if is_equivalent(target, answer) or _is_repeated(answer, target):
        return True
    value = answer.rpartition("=")[2]
    if "_" not in answer and is_equivalent(without_base(target), answer):
        return True
    is_equation = "=" in answer and not re.search(r"[=<>]", target)
    return is_equation and is_equivalent(target, value)


def _is_repeated(answer: str, target: str) -> bool:
    """Whether a list says one thing in several forms, as in "$3/2$, or $1.5$"."""
    forms = answer.split(", ")
    is_list = len(forms) > 1 and "," not in target
    return is_list and all(is_equivalent(target, form) for form in forms)


def _after_marker(text: str, *, allow_words: bool) -> str | None:
    text = _PATTERNS["lead"].sub("", text.strip().strip("*").strip(), count=1)
    listed = _listed(text)
    if listed:
        return listed
    end = _PATTERNS["sentence_end"].search(text)
    sentence = (text[: end.start()] if end else text).strip().strip("*_").strip()
    formula = _PATTERNS["formula"].search(sentence)
    long_words = [word for word in _words(sentence) if len(word) > 1]
    if not allow_words and re.match(r"[^\W\d_]{2}", sentence):
        return None  # behind a box "the answer is consistent with 4 + 1" is a remark
    if (
        formula is not None
        and len(_PATTERNS["word"].findall(sentence[: formula.start()])) <= _MOST_WORDS
    ):
        return _inside(formula)
    if len(long_words) > _MOST_WORDS or not sentence:
        return None
    return (
        sentence if allow_words or _PATTERNS["mathematical"].search(sentence) else None
    )


def _listed(text: str) -> str:
    """Return the formula that a text begins with, and those that are listed with it."""
    parts: list[str] = []
    place = 0
    while (formula := _PATTERNS["formula"].match(text, place)) is not None:
        parts.append(_inside(formula))
        separator = _PATTERNS["and"].match(text, formula.end())
        if separator is None:
            break
        place = separator.end()
    return ", ".join(parts)


def _words(text: str) -> list[str]:
    return _PATTERNS["word"].findall(re.sub(r"\\[a-zA-Z]+", " ", text))


def _inside(formula: re.Match[str]) -> str:
    return (
        next(part for part in formula.groups() if part is not None)
        .strip()
        .rstrip(".,")
        .strip()
    )


_plain: Final = rewriting(toml_beside(__file__, "rewrites.toml")["rewrites"]["number"])


def stated_number(response: str, *, is_cut: bool = False) -> str | None:
    r"""Return the number that a response ends on, as written but without its dress.

    The last statement counts, `\boxed{…}`, `#### …` or "the answer is …", if a number stands at the
    head of what is stated. With none at all, it is the last number of the last line; of a response
    that is known to be cut, nothing: that number is a step on the way, or a part of one.
    """
    return read_by(_read_number, response, is_cut=is_cut)


def _read_number(response: str, /, *, is_cut: bool) -> str | None:
    stated = statements(_PATTERNS["turn"].sub("Answer:", response), is_cut=is_cut)
    for statement in reversed(stated):
        text = _plain(statement.text)
        found = _in_box(text) if statement.is_boxed else _at_head(text)
        if found is not None:
            return found
    if is_cut or any(one.is_boxed for one in stated):
        return None
    line = _plain(last_line(response))
    numbers = list(_PATTERNS["number"].finditer(line))
    return _with_scale(line, numbers[-1]) if numbers else None


def is_number(answer: str, target: str) -> bool:
    """Return whether an answer is the number wanted: 18, 18.00 and 36/2 are one.

    "1.5 million" is 1500000, and 1.5 where the question asks for millions.
    """
    if scaled := _PATTERNS["scaled"].fullmatch(answer):
        zeros = _SCALES[scaled.group(2).lower()]
        number = Decimal(scaled.group(1))
        return _decimal(_plain(target)) in {number, number.scaleb(zeros)}
    wanted = _decimal(_plain(target))
    decimal = _decimal(answer)
    if wanted is None:
        return is_equivalent(target, answer)
    if decimal is not None:
        return decimal == wanted
    return not _PATTERNS["listed"].search(answer) and is_equivalent(str(wanted), answer)


def _in_box(text: str) -> str | None:
    """Return the one number of a box; what cannot be one number stays an expression."""
    text = text.rsplit("=", 1)[-1].strip()
    numbers = list(_PATTERNS["number"].finditer(text))
    if len(numbers) == 1 and not re.search(
        r"\\[a-zA-Z]+\s*\{|\^|\d\s*[/*]\s*[\d({\\]", text
    ):
        return _with_scale(text, numbers[0])
    return text if text and (numbers or "\\" in text) else None


def _at_head(text: str) -> str | None:
    lead = _PATTERNS["number_lead"].match(text)
    begin = lead.end() if lead else 0
    match = _PATTERNS["number"].match(text, begin)
    if match is None:
        fraction = _PATTERNS["fraction"].match(text, begin)
        return _ascii(fraction.group()) if fraction else None
    is_listed = text[begin - 1 : begin] in {"(", "["} and text[
        match.end() :
    ].startswith(",")
    if is_listed or _PATTERNS["several"].match(text, match.end()):
        return text[begin:].strip()
    chunk = _PATTERNS["calculation"].match(text, begin)
    calculation = (chunk.group() if chunk else match.group()).rstrip(" +*/×÷·^(-–−")
    if "=" in calculation:
        ends = _PATTERNS["number"].findall(calculation.rsplit("=", 1)[-1])
        return _digits(ends[0]) if ends else None
    if _PATTERNS["operation"].search(calculation):
        return calculation.strip().rstrip(".,").strip()
    return _with_scale(text, match)


def _with_scale(text: str, number: re.Match[str]) -> str:
    """Return a number, with a word such as "million" behind it."""
    scale = _PATTERNS["large"].match(text, number.end())
    return _digits(number.group()) + (f" {scale.group(1).lower()}" if scale else "")


def _digits(number: str) -> str:
    return _ascii(re.sub(r"[,\s]", "", number))


def _ascii(text: str) -> str:
    return text.replace("−", "-").replace("–", "-")


def _decimal(text: str) -> Decimal | None:
    number = text.strip().removesuffix("%").rstrip()
    # A comma is read only as one of thousands: `1, 8` and `5,3` are two numbers each.
    return Decimal(_digits(number)) if _PATTERNS["number"].fullmatch(number) else None
