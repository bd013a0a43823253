"""Answers without merit, made from a question or from a good answer.

A judge's rewards for them show what its rewards are worth. `rubric-synth stats`, `rubric-eval
heldout --controls` and `rubric-judge attack` all make them here, so that figures of the same name
are about the same texts.
"""

import random
import re
from collections.abc import Sequence
from itertools import chain
from typing import Final

from rubric_core import Task
from rubric_judge.judges.lexical.words import FUNCTION_WORDS, WORD, pieces

_NAMED: Final = re.compile(r"`([^`]+)`")
_END_MARKS: Final = ".!?"
_DENIED: Final = re.compile(r"\b(?:(can)not|(\w+) not)\b", re.IGNORECASE)
_AUXILIARY: Final = re.compile(
    r"\b(is|are|was|were|can|could|may|might|must|will|would|should|does|do|has|have|had)\b",
    re.IGNORECASE,
)
_SUBJECT_AND_VERB: Final = re.compile(
    r"^(It|This|That|He|She|`[^`]+`) (?!(?:is|was|has|does)\b)([a-z]+s)\b"
)
"""Matches subjects after which a word in -s is a verb and no plural."""
_ES: Final = ("ches", "shes", "sses", "xes", "zes", "oes")
_FEWEST_LETTERS: Final = 3
"""Fewest letters of a word that names a subject."""


def shuffled(text: str, *, seed: str) -> str:
    """Return a text with the words of each sentence in random order, end marks in place.

    Args:
        text: a good answer.
        seed: seed of the order; the id of the task.
    """
    order = random.Random(seed)

    def mix(sentence: str) -> str:
        body = sentence.rstrip(_END_MARKS)
        words = body.split()
        return " ".join(order.sample(words, len(words))) + sentence[len(body) :]

    return " ".join(map(mix, pieces(text)))


def negated(text: str) -> str:
    """Return a text with every sentence negated by the simplest possible change.

    A "not" is removed, or added after the auxiliary; "it takes" becomes "it does not take"; other
    sentences are said not to be true.
    """
    return " ".join(map(_denial, pieces(text)))


def _denial(sentence: str) -> str:
    if _DENIED.search(sentence):
        return _DENIED.sub(lambda match: match[1] or match[2], sentence, count=1)
    match = _SUBJECT_AND_VERB.match(sentence)
    if match:
        verb = _base_form(match[2])
        return f"{match[1]} does not {verb}{sentence[match.end() :]}"
    if _AUXILIARY.search(sentence):
        return _AUXILIARY.sub(r"\1 not", sentence, count=1)
    return f"It is not true that {_small_first(sentence)}"


def _base_form(verb: str) -> str:
    if verb.endswith("ies"):
        return f"{verb.removesuffix('ies')}y"
    return verb[:-2] if verb.endswith(_ES) else verb[:-1]


def bare_sentences(text: str) -> list[str]:
    """Return a text's sentences as they would follow "that": lower case, without end marks."""
    return [
        _small_first(sentence.rstrip(f"{_END_MARKS} ")) for sentence in pieces(text)
    ]


def _small_first(sentence: str) -> str:
    """Lower the first letter, unless its word is a name or an acronym."""
    first = sentence.split(maxsplit=1)[0] if sentence else ""
    is_ordinary = first == "A" or first[1:].rstrip(",;:").islower()
    if not is_ordinary:
        return sentence
    return f"{sentence[:1].lower()}{sentence[1:]}"


def other_references(tasks: Sequence[Task]) -> dict[str, str]:
    """Return, by task id, the reference answer of the next task about another document.

    Args:
        tasks: the tasks in any order: the circle is ordered by id; a missing answer gives "".

    Returns:
        The answers; none if all tasks are about one document, whose answers may fit each other.
    """
    answers: dict[str, str] = {}
    ordered = sorted(tasks, key=lambda task: task.task_id)
    for at, task in enumerate(ordered):
        following = chain(ordered[at + 1 :], ordered[:at])
        others = (other for other in following if other.doc_hash != task.doc_hash)
        other = next(others, None)
        if other is None:
            return {}
        answers[task.task_id] = other.reference_answer or ""
    return answers


def fixed_template(question: str) -> str:
    """Return one form for every question, filled only with the question's names or words.

    Args:
        question: the question; names in backticks fill the form, or otherwise the words about its
            subject.
    """
    names = [f"`{name}`" for name in _NAMED.findall(question)]
    if names:
        subject, *parameters = names
    else:
        words = [word for word in WORD.findall(question) if _is_of_subject(word)]
        subject = f"The {' '.join(words[:2]).lower()}"
        parameters = words[2:8]
    *most, last = parameters or [""]
    listed = f"{', '.join(most)} and {last}" if most else last
    takes = f" It takes {listed} as the input of the function." if parameters else ""
    return (
        f"{subject} is a function that is used to compute the values of an array.{takes} "
        "It returns the array of the output values. "
        "Note that the input must be given if it is not the default."
    )


def _is_of_subject(word: str) -> bool:
    return len(word) >= _FEWEST_LETTERS and word.lower() not in FUNCTION_WORDS
