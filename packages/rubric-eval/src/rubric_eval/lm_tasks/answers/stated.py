"""The letter that a question with choices asks for."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from rubric_core.files import toml_beside
from rubric_core.rewriting import patterns
from rubric_eval.lm_tasks.answers.reading import read_by
from rubric_eval.lm_tasks.answers.statements import Statement, last_line, statements

_PATTERNS: Final = patterns(toml_beside(__file__, "patterns.toml")["letters"])


def stated_letter(
    response: str, choices: Sequence[str], *, is_cut: bool = False
) -> str | None:
    r"""Return the letter A to D that a response ends on.

    The last statement that names a choice counts: `\boxed{B}`, "the answer is (B)", "Answer: B", "I
    choose (B)", or the text of exactly one choice in a letter's place. The article "a" is no
    letter: without parentheses a letter is a capital that nothing of a phrase follows, but behind
    "ANSWER:". With no statement at all, a last line that is a letter alone counts, the one letter
    that stands before the text of its choice, or the one of which the response says "B is
    correct", unless it was cut before it came to a statement. A letter goes before a text that
    contradicts it.

    Args:
        response: the response.
        choices: texts of A, B, C and D, in this order.
        is_cut: whether it is known to be cut.
    """
    return read_by(partial(_read_letter, choices=choices), response, is_cut=is_cut)


def _read_letter(
    response: str, /, *, choices: Sequence[str], is_cut: bool
) -> str | None:
    stated = [*statements(response, is_cut=is_cut), *_chosen(response)]
    for statement in sorted(stated, key=lambda one: one.start, reverse=True):
        text = _PATTERNS["lead"].sub("", _undress(statement.text), count=1)
        if _PATTERNS["several"].match(text):
            return None
        found = _alone(text) if statement.is_boxed else None
        found = found or _letter(text) or _choice(statement.text, choices)
        if found is not None:
            return found
    if is_cut:
        return None
    found = _alone(_undress(last_line(response)))
    if loud := _PATTERNS["loud"].search(response.strip()):
        found = found or loud.group(1).upper()
    if found or stated:
        return found
    called = {
        first or second
        for first, second in _PATTERNS["correct"].findall(_undress(response))
    }
    return _only(_named(response, choices)) or _only(called)


def _only(letters: set[str]) -> str | None:
    return next(iter(letters)) if len(letters) == 1 else None


def _named(response: str, choices: Sequence[str]) -> set[str]:
    """Return the letters that stand before the text of their choice."""
    lines = _PATTERNS["lettered"].findall(re.sub(r"[*_]{2}", "", response))
    named = ((first or second, text) for first, second, text in lines)
    return {letter for letter, text in named if letter == _choice(text, choices)}


def _chosen(response: str) -> list[Statement]:
    return [
        Statement(
            match.end(), response[match.end() :].split("\n", 1)[0], is_boxed=False
        )
        for match in _PATTERNS["chosen"].finditer(response)
    ]


def _letter(text: str) -> str | None:
    match = _PATTERNS["letter"].match(text)
    return next(part for part in match.groups() if part).upper() if match else None


def _alone(text: str) -> str | None:
    alone = _PATTERNS["alone"].fullmatch(text.strip())
    return alone.group(1).upper() if alone else None


def _choice(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the one choice that the text is, letter by letter without its dress."""
    given = _bare(text)
    same = [index for index, choice in enumerate(choices) if _bare(choice) == given]
    return "ABCD"[same[0]] if len(same) == 1 and given else None


def _undress(text: str) -> str:
    text = re.sub(r"\\([()])", r"\1", text)  # \(B\) is a letter in a formula
    return _PATTERNS["spaces"].sub(" ", _PATTERNS["dress"].sub("", text)).strip()


def _bare(text: str) -> str:
    undressed = _PATTERNS["dress"].sub("", text)
    return _PATTERNS["spaces"].sub("", undressed).strip().rstrip(".").casefold()
