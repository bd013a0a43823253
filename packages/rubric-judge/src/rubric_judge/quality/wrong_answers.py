"""Answers without merit, made from a question or from a good answer.

A judge's rewards for them show what its rewards are worth. `rubric-synth stats`, `rubric-eval
heldout --controls` and `rubric-judge attack` all make them here, so that figures of the same name
are about the same texts.
"""

import random
import re
from collections.abc import Iterator, Sequence
from itertools import chain

from rubric_core import Task
from rubric_core.files import toml_beside
from rubric_judge.judges.lexical.words import FUNCTION_WORDS, WORD, pieces
from rubric_judge.quality.denials import denial, small_first

CONTROLS: dict[str, str] = toml_beside(__file__, "controls.toml")
"""Description of each control, by the name that all tables and files give it."""

_NAMED = re.compile(r"`([^`]+)`")
_END_MARKS = ".!?"
_FEWEST_LETTERS = 3
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
    """Return a text with every sentence denied; see `denial`."""
    return " ".join(map(denial, pieces(text)))


def bare_sentences(text: str) -> list[str]:
    """Return a text's sentences as they would follow "that": lower case, without end marks."""
    return [small_first(sentence.rstrip(f"{_END_MARKS} ")) for sentence in pieces(text)]


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


def keyword_spam(task: Task) -> str:
    """Return every term of a task's rubric, without sentences."""
    return ", ".join([*expected_terms(task)] * 3)


def expected_terms(task: Task) -> Iterator[str]:
    """Yield the elements, keywords and concepts that the criteria ask for."""
    for criterion in task.rubric:
        yield from criterion.required_elements
        yield from criterion.expected_keywords
        yield from criterion.expected_concepts


def _is_of_subject(word: str) -> bool:
    return len(word) >= _FEWEST_LETTERS and word.lower() not in FUNCTION_WORDS
