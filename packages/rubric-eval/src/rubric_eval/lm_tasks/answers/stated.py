"""Extraction of the letter that answers a question with choices."""

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
    letter: without parentheses, a letter is a capital that is not followed by the rest of a phrase,
    except after "ANSWER:". Without any statement, a last line that is a letter alone counts, or
    the only letter before the text of its choice, or the only one that the response calls correct
    as in "B is correct", unless the response was cut before it came to a statement. A letter takes
    precedence over a text that contradicts it.

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
    stated.sort(key=lambda statement: statement.start, reverse=True)
    for statement in stated:
        text = _PATTERNS["lead"].sub("", _undress(statement.text), count=1)
        if _PATTERNS["several"].match(text):
            return None
        letter = _alone(text) if statement.is_boxed else None
        letter = letter or _letter(text) or _choice(statement.text, choices)
        if letter is not None:
            return letter
    if is_cut:
        return None
    letter = _alone(_undress(last_line(response)))
    if letter is None:
        loud = _PATTERNS["loud"].search(response.strip())
        letter = loud.group(1).upper() if loud else None
    if letter or stated:
        return letter
    correct = _PATTERNS["correct"].findall(_undress(response))
    called_correct = {first or second for first, second in correct}
    return _only(_named(response, choices)) or _only(called_correct)


def _only(letters: set[str]) -> str | None:
    return next(iter(letters)) if len(letters) == 1 else None


def _named(response: str, choices: Sequence[str]) -> set[str]:
    """Return the letters that stand before the text of their choice."""
    plain = re.sub(r"[*_]{2}", "", response)
    named: set[str] = set()
    for first, second, text in _PATTERNS["lettered"].findall(plain):
        letter = first or second
        if letter == _choice(text, choices):
            named.add(letter)
    return named


def _chosen(response: str) -> list[Statement]:
    chosen: list[Statement] = []
    for match in _PATTERNS["chosen"].finditer(response):
        line = response[match.end() :].split("\n", 1)[0]
        chosen.append(Statement(match.end(), line, is_boxed=False))
    return chosen


def _letter(text: str) -> str | None:
    match = _PATTERNS["letter"].match(text)
    if match is None:
        return None
    letter = next(group for group in match.groups() if group)
    return letter.upper()


def _alone(text: str) -> str | None:
    alone = _PATTERNS["alone"].fullmatch(text.strip())
    return alone.group(1).upper() if alone else None


def _choice(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the only choice that has this text, apart from its markup."""
    bare = _bare(text)
    same = [index for index, choice in enumerate(choices) if _bare(choice) == bare]
    return "ABCD"[same[0]] if len(same) == 1 and bare else None


def _undress(text: str) -> str:
    text = re.sub(r"\\([()])", r"\1", text)  # \(B\) is a letter in a formula
    undressed = _PATTERNS["dress"].sub("", text)
    return _PATTERNS["spaces"].sub(" ", undressed).strip()


def _bare(text: str) -> str:
    undressed = _PATTERNS["dress"].sub("", text)
    joined = _PATTERNS["spaces"].sub("", undressed)
    return joined.strip().rstrip(".").casefold()
