"""Index of questions that finds repetitions: equal ones, and those with nearly the same wording."""

from __future__ import annotations

import hashlib
import math
import re
from array import array
from collections.abc import Sequence

_WORD = re.compile(r"\w+|[^\w\s.,;:!?'\"()\[\]{}`]")
_RUN_WORDS = 3
"""Words of a run: one other name in a question of usual length makes another question."""
_MOST_COMPARED = 64


class QuestionIndex:
    """Index of questions by their words, for one pass over a dataset.

    Questions are compared by their runs of three words, exactly. A twin misses few of these, so
    it misses few words, and it holds one of the rarest words of the question: only questions
    that do are compared, at most 64 of them, those with the rarest words first.
    """

    def __init__(self, jaccard: float) -> None:
        """Begin without questions.

        Args:
            jaccard: Above this share of common runs two questions are one.
        """
        self._jaccard = jaccard
        self._tasks: list[str] = []
        self._by_text: dict[bytes, int] = {}
        self._holders: dict[str, tuple[int, array[int]]] = {}
        self._runs: list[array[int]] = []
        self._sketches: list[int] = []

    def find_or_add(self, question: str, task_id: str) -> str | None:
        """Return the task of an earlier twin of a question; None if it is new, and is added.

        Args:
            question: Question, compared without case, spacing and punctuation.
            task_id: Id to return for later twins of this question.
        """
        words = _WORD.findall(question.casefold())
        text = " ".join(words).encode(errors="replace")
        key = hashlib.sha256(text).digest()[:12]
        twin = self._by_text.get(key)
        if twin is None:
            runs = _runs(words)
            sketch = _sketch(runs)
            twin = self._near(words, runs, sketch)
            if twin is None:
                self._add(
                    words,
                    runs,
                    sketch,
                    key=key,
                    task_id=task_id,
                )
                return None
        return self._tasks[twin]

    def _near(
        self,
        words: Sequence[str],
        runs: set[int],
        sketch: int,
    ) -> int | None:
        """Return the number of an earlier question with nearly the same runs."""
        distinct = set(words)
        known = [self._holders[word] for word in distinct if word in self._holders]
        missed_runs = math.floor((1 - self._jaccard) * len(runs) + 1e-9)
        spare = missed_runs * _RUN_WORDS - (len(distinct) - len(known))
        if spare < 0:  # too many words that no question holds
            return None
        for number in sorted(self._candidates(known, spare + 1)):
            # A bit that the other lacks is a run that it lacks: that tells most apart.
            if (sketch & ~self._sketches[number]).bit_count() > missed_runs:
                continue
            other_runs = self._runs[number]
            common = len(runs.intersection(other_runs))
            if common > self._jaccard * (len(runs) + len(other_runs) - common):
                return number
        return None

    def _candidates(
        self,
        known: list[tuple[int, array[int]]],
        probes: int,
    ) -> set[int]:
        """Return the questions with the rarest words, of equally rare ones the words seen first."""
        by_rarity = sorted(known, key=lambda word: (len(word[1]), word[0]))
        rarest = by_rarity[:probes]
        candidates: set[int] = set()
        for _, holders in rarest:
            candidates.update(holders[: _MOST_COMPARED - len(candidates)])
        return candidates

    def _add(
        self,
        words: Sequence[str],
        runs: set[int],
        sketch: int,
        *,
        key: bytes,
        task_id: str,
    ) -> None:
        question = len(self._tasks)
        self._tasks.append(task_id)
        self._by_text[key] = question
        for word in dict.fromkeys(words):
            _, questions = self._holders.setdefault(
                word, (len(self._holders), array("i"))
            )
            questions.append(question)
        self._runs.append(array("q", runs))
        self._sketches.append(sketch)


def _runs(words: Sequence[str]) -> set[int]:
    """Return hashes of the runs of a question, which take less than the runs."""
    if len(words) <= _RUN_WORDS:
        return {hash(tuple(words))}
    return set(map(hash, zip(words, words[1:], words[2:], strict=False)))


def _sketch(runs: set[int]) -> int:
    """Return a number with a bit set for each run; several runs may share one."""
    sketch = 0
    for run in runs:
        sketch |= 1 << run % 128
    return sketch
