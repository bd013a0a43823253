"""Answers that deserve nothing, made of a question or of a good answer.

What a judge pays for them says what its rewards are worth.
"""

import random
import re
from collections.abc import Sequence
from typing import Final

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_NAMED: Final = re.compile(r"`([^`]+)`")


def sentences(text: str) -> list[str]:
    """Split a text where a sentence ends."""
    return _SENTENCE.split(text)


def shuffled(text: str, order: random.Random) -> str:
    """Return a text with the words of each sentence in random order."""
    return " ".join(_shuffled(sentence, order) for sentence in sentences(text))


def _shuffled(sentence: str, order: random.Random) -> str:
    words = sentence.rstrip(".!?").split()
    return f"{' '.join(order.sample(words, len(words))).capitalize()}."


def bare_sentences(text: str) -> list[str]:
    """Return the sentences of a text as they stand behind "that": small, without an end mark."""
    return [f"{sentence[:1].lower()}{sentence[1:].rstrip('.!? ')}" for sentence in sentences(text)]


def denied(text: str) -> str:
    """Return a text with every sentence denied."""
    return " ".join(f"It is not true that {inner}." for inner in bare_sentences(text))


def fixed_template(question: str, words: Sequence[str]) -> str:
    """Return one form for every question, filled with the names or words of the question alone.

    Args:
        question: a question; names in backticks fill the form.
        words: of the question, those that carry its subject, where it has no such names.
    """
    if names := [f"`{name}`" for name in _NAMED.findall(question)]:
        subject, *parameters = names
    else:
        subject, parameters = f"The {' '.join(words[:2]).lower()}", list(words[2:8])
    *most, last = parameters or [""]
    listed = f"{', '.join(most)} and {last}" if most else last
    takes = f" It takes {listed} as the input of the function." if parameters else ""
    return (
        f"{subject} is a function that is used to compute the values of an array.{takes} "
        "It returns the array of the output values. "
        "Note that the input must be given if it is not the default."
    )
