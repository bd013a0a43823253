"""Extraction and comparison of expressions, for MATH, and of numbers, for GSM8K."""

import re
from decimal import Decimal
from typing import Final

from rubric_core.files import toml_beside
from rubric_core.rewriting import patterns, rewriting
from rubric_eval.lm_tasks.answers.equivalence import is_equivalent, without_base
from rubric_eval.lm_tasks.answers.searched_part import read_by
from rubric_eval.lm_tasks.answers.statements import Statement, last_line, statements

_PATTERNS = patterns(toml_beside(__file__, "patterns.toml")["expressions"])
_SCALES = {
    "hundred": 2,
    "thousand": 3,
    "million": 6,
    "billion": 9,
    "trillion": 12,
}
_MOST_WORDS = 2
"""Number of words in a stated answer without a formula, such as a name or a weekday, at most."""


def stated_expression(response: str, *, is_cut: bool = False) -> str | None:
    r"""Return the expression that a response ends on.

    The last `\boxed{…}` or `#### …` or "the answer is …" counts; after words, only if it is a
    formula, holds a digit or a LaTeX command, or, in a response without a box, is a name of at
    most two words. Without any statement it is the last formula of the last line, the bold text
    there, or that whole line if it has no word; a response that is known to be cut then has none.
    """
    return read_by(_read_expression, response, is_cut=is_cut)


def _read_expression(response: str, /, *, is_cut: bool) -> str | None:
    stated = _statements(response, is_cut=is_cut)
    has_box = any(statement.is_boxed for statement in stated)
    for statement in reversed(stated):
        expression: str | None = statement.text
        if not statement.is_boxed:
            expression = _after_marker(statement.text, allow_words=not has_box)
        if expression:
            return expression.strip()
    if is_cut:
        return None
    return _in_last_line(last_line(response), has_box=has_box)


def _statements(response: str, *, is_cut: bool) -> list[Statement]:
    """Return the statements of a response, the names of its turns read as markers."""
    text = _PATTERNS["turn"].sub("Answer:", response)
    return statements(text, is_cut=is_cut)


def _in_last_line(line: str, *, has_box: bool) -> str | None:
    """Return the expression in the last line of a response that states none."""
    formulas = list(_PATTERNS["formula"].finditer(line))
    if formulas:
        return _inside(formulas[-1])
    if has_box:
        return None
    bold_texts = _PATTERNS["bold"].findall(line)
    with_digit = [text for text in bold_texts if _has_digit(text)]
    if with_digit:
        last = with_digit[-1]
        if not _long_words(last):
            return last.strip().rstrip(".,")
    line = line.strip("*_# ")
    if "boxed" in line or not _has_digit(line):
        return None
    if _long_words(line):
        return None
    return line


def _has_digit(text: str) -> bool:
    return re.search(r"\d", text) is not None


def is_expression(answer: str, target: str) -> bool:
    """Return whether an answer is the target expression, or an equation that ends in it.

    An answer need not repeat the base of its numeral, which the question names.

    Args:
        answer: answer as stated; `a + b = 5` answers the question what a + b is.
        target: LaTeX, without `$`.
    """
    if is_equivalent(target, answer):
        return True
    if _is_repeated(answer, target):
        return True
    if "_" not in answer and is_equivalent(without_base(target), answer):
        return True
    if "=" not in answer or re.search(r"[=<>]", target):
        return False
    _, _, value = answer.rpartition("=")
    return is_equivalent(target, value)


def _is_repeated(answer: str, target: str) -> bool:
    """Return whether a list gives one value in several forms, as in "$3/2$, or $1.5$"."""
    forms = answer.split(", ")
    if len(forms) == 1 or "," in target:
        return False
    return all(is_equivalent(target, form) for form in forms)


def _after_marker(text: str, *, allow_words: bool) -> str | None:
    text = text.strip().strip("*").strip()
    text = _PATTERNS["lead"].sub("", text, count=1)
    listed = _listed(text)
    if listed:
        return listed
    end = _PATTERNS["sentence_end"].search(text)
    if end is not None:
        text = text[: end.start()]
    sentence = text.strip().strip("*_").strip()
    if not allow_words and re.match(r"[^\W\d_]{2}", sentence):
        return None  # after a box, "the answer is consistent with 4 + 1" is a remark
    formula = _PATTERNS["formula"].search(sentence)
    if formula is not None:
        before = sentence[: formula.start()]
        words_before = _PATTERNS["word"].findall(before)
        if len(words_before) <= _MOST_WORDS:
            return _inside(formula)
    if not sentence or len(_long_words(sentence)) > _MOST_WORDS:
        return None
    if allow_words or _PATTERNS["mathematical"].search(sentence):
        return sentence
    return None


def _listed(text: str) -> str:
    """Return the formula that a text begins with, and those that follow it in a list."""
    parts: list[str] = []
    formula = _PATTERNS["formula"].match(text)
    while formula is not None:
        parts.append(_inside(formula))
        separator = _PATTERNS["and"].match(text, formula.end())
        if separator is None:
            break
        formula = _PATTERNS["formula"].match(text, separator.end())
    return ", ".join(parts)


def _long_words(text: str) -> list[str]:
    """Return the words of more than one letter, LaTeX commands aside."""
    plain = re.sub(r"\\[a-zA-Z]+", " ", text)
    words = _PATTERNS["word"].findall(plain)
    return [word for word in words if len(word) > 1]


def _inside(formula: re.Match[str]) -> str:
    content = next(group for group in formula.groups() if group is not None)
    return content.strip().rstrip(".,").strip()


_REWRITES = toml_beside(__file__, "rewrites.toml")["rewrites"]
_plain: Final = rewriting(_REWRITES["number"])


def stated_number(response: str, *, is_cut: bool = False) -> str | None:
    r"""Return the number that a response ends on, as written but without its markup.

    The last statement counts, `\boxed{…}`, `#### …` or "the answer is …", if it begins with a
    number. Without any, it is the last number of the last line; a response that is known to be cut
    then has none, since that number is an intermediate step, or a part of one.
    """
    return read_by(_read_number, response, is_cut=is_cut)


def _read_number(response: str, /, *, is_cut: bool) -> str | None:
    stated = _statements(response, is_cut=is_cut)
    for statement in reversed(stated):
        text = _plain(statement.text)
        read = _in_box if statement.is_boxed else _at_head
        number = read(text)
        if number is not None:
            return number
    if is_cut or any(statement.is_boxed for statement in stated):
        return None
    line = _plain(last_line(response))
    numbers = list(_PATTERNS["number"].finditer(line))
    if not numbers:
        return None
    return _with_scale(line, numbers[-1])


def is_number(answer: str, target: str) -> bool:
    """Return whether an answer is the target number: 18, 18.00 and 36/2 are the same.

    "1.5 million" is 1500000, and 1.5 where the question asks for millions.
    """
    target_number = _decimal(_plain(target))
    scaled = _PATTERNS["scaled"].fullmatch(answer)
    if scaled:
        digits, scale = scaled.groups()
        number = Decimal(digits)
        zeros = _SCALES[scale.lower()]
        return target_number in {number, number.scaleb(zeros)}
    if target_number is None:
        return is_equivalent(target, answer)
    number = _decimal(answer)
    if number is not None:
        return number == target_number
    if _PATTERNS["listed"].search(answer):
        return False
    return is_equivalent(str(target_number), answer)


def _in_box(text: str) -> str | None:
    """Return the only number in a box; if there is not exactly one, the expression."""
    _, _, value = text.rpartition("=")
    text = value.strip()
    numbers = list(_PATTERNS["number"].finditer(text))
    is_formula = re.search(r"\\[a-zA-Z]+\s*\{|\^|\d\s*[/*]\s*[\d({\\]", text)
    if len(numbers) == 1 and not is_formula:
        return _with_scale(text, numbers[0])
    if numbers or "\\" in text:
        return text
    return None


def _at_head(text: str) -> str | None:
    lead = _PATTERNS["number_lead"].match(text)
    begin = lead.end() if lead else 0
    match = _PATTERNS["number"].match(text, begin)
    if match is None:
        fraction = _PATTERNS["fraction"].match(text, begin)
        if fraction is None:
            return None
        return _ascii(fraction.group())
    end = match.end()
    is_bracketed = text[begin - 1 : begin] in {"(", "["}
    is_listed = is_bracketed and text.startswith(",", end)
    if is_listed or _PATTERNS["several"].match(text, end):
        return text[begin:].strip()
    chunk = _PATTERNS["calculation"].match(text, begin) or match
    calculation = chunk.group().rstrip(" +*/×÷·^(-–−")
    if "=" in calculation:
        return _result(calculation)
    if _PATTERNS["operation"].search(calculation):
        return calculation.strip().rstrip(".,").strip()
    return _with_scale(text, match)


def _result(calculation: str) -> str | None:
    """Return the number after the last equals sign of a calculation."""
    _, _, value = calculation.rpartition("=")
    number = _PATTERNS["number"].search(value)
    if number is None:
        return None
    return _digits(number.group())


def _with_scale(text: str, number: re.Match[str]) -> str:
    """Return a number, with a word such as "million" after it if there is one."""
    digits = _digits(number.group())
    scale = _PATTERNS["large"].match(text, number.end())
    if scale is None:
        return digits
    return f"{digits} {scale.group(1).lower()}"


def _digits(number: str) -> str:
    joined = re.sub(r"[,\s]", "", number)
    return _ascii(joined)


def _ascii(text: str) -> str:
    return text.replace("−", "-").replace("–", "-")


def _decimal(text: str) -> Decimal | None:
    number = text.strip().removesuffix("%").rstrip()
    # A comma is read only as a separator of thousands: `1, 8` and `5,3` are two numbers each.
    if not _PATTERNS["number"].fullmatch(number):
        return None
    return Decimal(_digits(number))
