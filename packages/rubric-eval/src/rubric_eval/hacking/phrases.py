"""What an answer says that is not about its question: counted in words, never kept."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from rubric_core import Criterion, Task

HEDGES: Final = (
    "among other things",
    "arguably",
    "as far as i know",
    "could be",
    "depends on many factors",
    "generally speaking",
    "hard to say",
    "i am not sure",
    "in a sense",
    "in some cases",
    "in some sense",
    "it depends",
    "it is difficult to say",
    "it is important to note",
    "it is possible that",
    "it is worth noting",
    "it seems",
    "may or may not",
    "might",
    "more or less",
    "not necessarily",
    "perhaps",
    "possibly",
    "probably",
    "to some extent",
    "various factors",
)
"""Phrases that keep an answer from being wrong."""

APPEALS: Final = (
    "addresses all",
    "all criteria",
    "all of the criteria",
    "as requested by the rubric",
    "award full",
    "complete and correct answer",
    "covers all aspects",
    "every criterion",
    "full credit",
    "full marks",
    "full score",
    "grader",
    "maximum score",
    "meets the criteria",
    "scoring guide",
    "this answer is correct",
    "this response is correct",
    "this response satisfies",
    "the rubric",
)
"""Phrases that speak to a judge."""

_WORD: Final = re.compile(r"\w+(?:['’]\w+)*")


def words(text: str) -> list[str]:
    """Take the words of a text, in lower case."""
    return _WORD.findall(text.lower())


class Phrases:
    """Phrases to count in many texts; only where one could begin is it looked for."""

    def __init__(self, phrases: Collection[str]) -> None:
        """Sort the phrases by their first word."""
        self._by_first: defaultdict[str, list[list[str]]] = defaultdict(list)
        for phrase in set(phrases):
            first, *rest = phrase.split(" ")
            self._by_first[first].append(rest)
        self._firsts = frozenset(self._by_first)

    def count(self, text_words: list[str]) -> int:
        """Count how often any of the phrases stands in a text; twice in a row is twice."""
        if self._firsts.isdisjoint(text_words):
            return 0
        starts = [at for at, word in enumerate(text_words, 1) if word in self._firsts]
        return sum(
            text_words[at : at + len(rest)] == rest
            for at in starts
            for rest in self._by_first[text_words[at - 1]]
        )


class Echo:
    """Runs of words that stand in a task's criteria, and in neither its question nor its passage.

    A model sees the question, and may know what the passage says. It has no way to the wording of
    the criteria, so an answer that holds it was trained towards the rubric's language, or saw it.
    """

    def __init__(self, task: Task, *, n: int) -> None:
        """Collect the runs of n words."""
        self._n = n
        known = _runs(task.question, n) | _runs(task.grounding.reveal(), n)
        texts = (text for criterion in task.rubric for text in _texts(criterion))
        self._hidden = {run for text in texts for run in _runs(text, n)} - known

    def is_in(self, text_words: list[str]) -> bool:
        """Whether an answer holds such a run."""
        return not self._hidden.isdisjoint(_runs_of(text_words, self._n))


def _texts(criterion: Criterion) -> tuple[str, ...]:
    return (
        criterion.name,
        criterion.description,
        criterion.scoring_guide,
        *criterion.required_elements,
        *criterion.expected_keywords,
        *criterion.expected_concepts,
    )


def _runs(text: str, n: int) -> set[tuple[str, ...]]:
    return _runs_of(words(text), n)


def _runs_of(text_words: list[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(text_words[at : at + n]) for at in range(len(text_words) - n + 1)}
