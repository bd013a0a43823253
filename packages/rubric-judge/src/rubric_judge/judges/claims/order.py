"""Order of words: whether neighbours in a text are such as English puts side by side.

    evidence = Σ log P(second | first) / P(second), over the pairs of neighbours

is the log of how much likelier a text is as English than as the same words in random order. The
words are taken by class: a function word is its own, others are parted by their endings and by
how they are written. `order.txt` has the summands, counted by `tools/claim_tables.py`.
"""

import math
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from rubric_core.files import read_file
from rubric_judge.judges.claims import lexicon
from rubric_judge.judges.lexical.words import FUNCTION_WORDS

TABLE = "order.txt"
START = "^"
END = "$"
FIRST_WORD = "-First"
"""A function word with a capital where no sentence begins, as in "default By"."""
SIGN = "-sign"
"""Signs of formulas and code, which may stand anywhere."""
_NAME = "-name"
_VALUE = "-value"
_NUMBERED = ([START, _NAME], [START, _VALUE])
_BEFORE_AN_OPENING = frozenset({START, ":", ";", "(", ")", SIGN})
"""Classes before a capital that is not a name's: lists begin "1. The" and "x (int): The"."""
_FEWEST_BEFORE = 2
"""Fewest letters before an ending."""
_MARKS = frozenset(",;:()")
_STOPS = frozenset(".!?")
_CLOSERS = "\"')]`*_ "
UNIT = 0.1
"""Unit of the table's figures."""
_OF_A_FIRST_WORD = -3.0
"""Evidence of a first word in the middle, where titles aside it stands by chance alone."""
_MEAN = 0.5
"""Evidence of a pair, about the mean of prose."""
_WIDTH = 2.8
"""Number of √pairs that the evidence stays below that mean in one of 1,000 texts of prose."""
_LEAST = -0.1
"""Evidence of a pair that terse prose of any length keeps."""
_SURE = 0.4
"""Evidence of a pair that the words of one sentence seldom have in random order."""
_CLEAR = 0.4
"""Number of standard deviations for each √pairs by which an order is better than a random one."""
_MOST_WORDS = 60
"""Number of words of a sentence that count: longer ones are tables and code."""
_LEXEME = re.compile(
    r"`[^`\n]*`|\(\w\)|\$[^$\n]{1,200}\$|\"[^\"\s]*\"|'[^'\s]*'|\d[\d.,]*\w*|[^\W\d](?:[\w'’.]*\w)?|[,;:()]"
    r"|[^\s\w,;:().!?\"'`*#-]+"
)
_ENDINGS = tuple(
    (ending, f"-{kind}")
    for kind, endings in lexicon.GRAMMAR["endings"].items()
    for ending in endings.split()
)


class Order(NamedTuple):
    """Evidence on the order of the words of one sentence."""

    evidence: float
    """Sum over the pairs of neighbours, in nats."""
    pairs: int
    """Number of pairs that can tell: one of the two is a function word or a mark."""
    words: tuple[str, ...]
    """Classes of the words, the ends of the sentence included."""


def read_order(sentence: str) -> Order:
    """Return the evidence on the order of a sentence's words.

    Args:
        sentence: one sentence.
    """
    words = classes_of(sentence)[: _MOST_WORDS + 1]
    table = _table()
    pairs = list(pairwise(words))
    evidence = sum(table.get(pair, 0.0) for pair in pairs)
    evidence += _OF_A_FIRST_WORD * words.count(FIRST_WORD)
    return Order(evidence, sum(tells(*pair) for pair in pairs), words)


def is_random(orders: Sequence[Order]) -> bool:
    """Tell whether words stand in an order that is no better than chance.

    Args:
        orders: one sentence, or all sentences of an answer.
    """
    pairs = sum(order.pairs for order in orders)
    evidence = sum(order.evidence for order in orders)
    usual = _MEAN * pairs - _WIDTH * math.sqrt(pairs)
    if evidence >= min(usual, _LEAST * pairs):
        return False
    expected = 0.0
    variance = 0.0
    for order in orders:
        mean, spread = _by_chance(order.words)
        expected += mean
        variance += spread
    return evidence < expected + _CLEAR * math.sqrt(pairs * variance)


def is_english(order: Order) -> bool:
    """Tell whether words stand in an order that chance does not give, whatever one pair says.

    Args:
        order: one sentence.
    """
    return FIRST_WORD not in order.words and order.evidence >= _SURE * order.pairs


def tells(first: str, second: str) -> bool:
    """Tell whether English can forbid two classes side by side: not two words of content.

    Args:
        first: the class of a word or mark.
        second: the class of the next one.
    """
    if SIGN in (first, second):
        return False
    return second == FIRST_WORD or not (
        first.startswith("-") and second.startswith("-")
    )


def _by_chance(words: tuple[str, ...]) -> tuple[float, float]:
    """Return mean and variance of the evidence of the same words in random order."""
    table = _table()
    inner = [word for word in words if word not in (START, END)]
    parts = [
        (
            len(inner) - 1,
            [
                table.get((first, second), 0.0)
                for place, first in enumerate(inner)
                for other, second in enumerate(inner)
                if place != other
            ],
        ),
        (words[0] == START, [table.get((START, word), 0.0) for word in inner]),
        (words[-1] == END, [table.get((word, END), 0.0) for word in inner]),
    ]
    mean = 0.0
    variance = 0.0
    for times, values in parts:
        if times > 0 and values:
            centre = fmean(values)
            mean += times * centre
            variance += times * fmean((value - centre) ** 2 for value in values)
    return mean, variance


def classes_of(sentence: str) -> tuple[str, ...]:
    """Return the classes of a sentence's words and marks, with its start, and its end if marked.

    Args:
        sentence: one sentence.
    """
    classes = [START]
    for lexeme in _LEXEME.finditer(sentence):
        is_opening = classes[-1] in _BEFORE_AN_OPENING or classes in _NUMBERED
        classes.append(_class_of(lexeme[0], is_opening=is_opening))
    if sentence.rstrip(_CLOSERS)[-1:] in _STOPS:
        classes.append(END)
    return tuple(classes)


@lru_cache(maxsize=65_536)
def _class_of(lexeme: str, *, is_opening: bool) -> str:
    first = lexeme[0]
    if lexeme in _MARKS:
        return lexeme
    if len(lexeme) > 1 and first in "`$(":
        return _NAME
    if first in "\"'" or first.isdigit():
        return _VALUE
    if first.isalpha() or first == "_":
        return _class_of_word(lexeme, is_capital=first.isupper() and not is_opening)
    return SIGN


def _class_of_word(word: str, *, is_capital: bool) -> str:
    lowered = word.lower()
    is_unit = word == "A" and is_capital
    if lowered in FUNCTION_WORDS and not is_unit:
        is_first_word = is_capital and word[1:].islower()
        return FIRST_WORD if is_first_word else lowered
    if len(word) == 1 or not word.replace("'", "").isalpha():
        return _NAME
    if is_capital:
        return "-Proper"
    kinds = (
        kind
        for ending, kind in _ENDINGS
        if lowered.endswith(ending) and len(lowered) > len(ending) + _FEWEST_BEFORE
    )
    return next(kinds, "-word")


@cache
def _table() -> dict[tuple[str, str], float]:
    values: dict[tuple[str, str], float] = {}
    for row in read_file(Path(__file__).parent / TABLE).decode().splitlines():
        first, *seconds = row.split()
        for second, figure in zip(seconds[::2], seconds[1::2], strict=True):
            values[first, second] = int(figure) * UNIT
    return values
