"""Extraction of the letter that answers a question with choices."""

import re
from collections.abc import Sequence
from functools import partial

from rubric_core.files import toml_beside
from rubric_core.rewriting import patterns
from rubric_eval.lm_tasks.answers.searched_part import read_by
from rubric_eval.lm_tasks.answers.statements import Statement, last_line, statements

_PATTERNS = patterns(toml_beside(__file__, "patterns.toml")["letters"])


def stated_letter(
    response: str,
    choices: Sequence[str],
    *,
    is_cut: bool = False,
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
    response: str,
    /,
    *,
    choices: Sequence[str],
    is_cut: bool,
) -> str | None:
    stated = [*statements(response, is_cut=is_cut), *_chosen(response)]
    stated.sort(key=lambda statement: statement.start, reverse=True)
    for statement in stated:
        text = _PATTERNS["lead"].sub("", _undress(statement.text), count=1)
        if _PATTERNS["several"].match(text):
            return None
        letter = None
        if statement.is_boxed:
            letter = _alone(text)
        if letter is None:
            letter = _letter(text)
        if letter is None:
            letter = _choice(statement.text, choices)
        if letter is not None:
            return letter
    if is_cut:
        return None
    letter = _unstated(response)
    if letter is None and not stated:
        letter = _only(_named(response, choices))
        if letter is None:
            letter = _only(_called_correct(response))
    return letter


def _unstated(response: str) -> str | None:
    """Return the letter that is the last line, or that follows "ANSWER:"."""
    letter = _alone(_undress(last_line(response)))
    if letter is not None:
        return letter
    loud = _PATTERNS["loud"].search(response.strip())
    if loud is None:
        return None
    return loud.group(1).upper()


def _called_correct(response: str) -> set[str]:
    """Return the letters of which the response says that they are correct."""
    correct = _PATTERNS["correct"].findall(_undress(response))
    return {first or second for first, second in correct}


def _only(letters: set[str]) -> str | None:
    if len(letters) != 1:
        return None
    (letter,) = letters
    return letter


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
    ends = [match.end() for match in _PATTERNS["chosen"].finditer(response)]
    return [
        Statement(end, response[end:].partition("\n")[0], is_boxed=False)
        for end in ends
    ]


def _letter(text: str) -> str | None:
    match = _PATTERNS["letter"].match(text)
    if match is None:
        return None
    letter = next(group for group in match.groups() if group)
    return letter.upper()


def _alone(text: str) -> str | None:
    alone = _PATTERNS["alone"].fullmatch(text.strip())
    if alone is None:
        return None
    return alone.group(1).upper()


def _choice(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the only choice that has this text, apart from its markup."""
    bare = _bare(text)
    same = [index for index, choice in enumerate(choices) if _bare(choice) == bare]
    if not bare or len(same) != 1:
        return None
    return "ABCD"[same[0]]


def _undress(text: str) -> str:
    text = re.sub(r"\\([()])", r"\1", text)  # \(B\) is a letter in a formula
    undressed = _PATTERNS["dress"].sub("", text)
    return _PATTERNS["spaces"].sub(" ", undressed).strip()


def _bare(text: str) -> str:
    undressed = _PATTERNS["dress"].sub("", text)
    joined = _PATTERNS["spaces"].sub("", undressed)
    return joined.strip().rstrip(".").casefold()
