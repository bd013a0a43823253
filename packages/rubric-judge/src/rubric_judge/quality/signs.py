"""Words that a policy learns when it learns its judge: phrases, and echoes of rubrics."""

import re
from collections import defaultdict
from collections.abc import Collection

from rubric_core import Task
from rubric_core.files import toml_beside

_PHRASES = toml_beside(__file__, "signs.toml")
HEDGES: tuple[str, ...] = tuple(_PHRASES["hedges"])
"""Phrases that keep an answer from being wrong."""

APPEALS: tuple[str, ...] = tuple(_PHRASES["appeals"])
"""Phrases that speak to a judge."""

PRAISE: tuple[str, ...] = tuple(_PHRASES["praise"])
"""Phrases by which an answer praises itself."""

REFUSALS: tuple[str, ...] = tuple(_PHRASES["refusals"])
"""Phrases of an answer that does not answer."""

_WORD = re.compile(r"\w+(?:['’]\w+)*")


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return _WORD.findall(text.lower())


class Phrases:
    """Phrases to count in many texts; each is compared only where its first word stands."""

    def __init__(self, phrases: Collection[str]) -> None:
        """Sort the phrases by their first word."""
        self._by_first: defaultdict[str, list[list[str]]] = defaultdict(list)
        for phrase in set(phrases):
            first, *rest = phrase.split(" ")
            self._by_first[first].append(rest)
        self._firsts = frozenset(self._by_first)

    def count(self, text_words: list[str]) -> int:
        """Return how often any of the phrases occurs in a text; twice in a row counts twice."""
        if self._firsts.isdisjoint(text_words):
            return 0
        count = 0
        for index, word in enumerate(text_words, 1):
            if word in self._firsts:
                for rest in self._by_first[word]:
                    count += text_words[index : index + len(rest)] == rest
        return count


class Echo:
    """Runs of words that stand in a task's criteria, and in neither its prompt nor its passage.

    A model sees the question and its context, and may know the content of the passage. It has no
    access to the wording of the criteria, so a model that writes it was trained towards the
    rubric's language, or saw it.
    """

    def __init__(self, task: Task, *, n: int) -> None:
        """Collect the runs of n words."""
        self._n = n
        hidden: set[tuple[str, ...]] = set()
        for criterion in task.rubric:
            texts = (
                criterion.name,
                criterion.description,
                criterion.scoring_guide,
                *criterion.required_elements,
                *criterion.expected_keywords,
                *criterion.expected_concepts,
            )
            for text in texts:
                hidden |= _runs(words(text), n)
        hidden -= _runs(words(task.policy_view().message), n)
        hidden -= _runs(words(task.grounding.reveal()), n)
        self._hidden = hidden

    def is_in(self, text_words: list[str]) -> bool:
        """Return whether an answer holds such a run."""
        return not self._hidden.isdisjoint(_runs(text_words, self._n))


def _runs(text_words: list[str], n: int) -> set[tuple[str, ...]]:
    starts = range(len(text_words) - n + 1)
    return {tuple(text_words[start : start + n]) for start in starts}
