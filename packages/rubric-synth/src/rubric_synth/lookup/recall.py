"""Recall of contexts: how much of a task's own passage stands in its context."""

import re
from collections.abc import Set as AbstractSet
from typing import Self

from rubric_core import Task
from rubric_synth.config import Frozen

_WORD = re.compile(r"\w+")
_RUN_WORDS = 8
"""Words of a run, as where a question is compared with its passage."""
_HALF = 0.5
_Run = tuple[str, ...]
"""Words in a row, in lower case."""


class ContextCounts(Frozen):
    """Counts over tasks with a context."""

    tasks: int = 0
    """Tasks with a context."""
    own_document: int = 0
    """Tasks whose context has a section of the document that the task was made of."""
    own_passage: int = 0
    """Tasks whose context has a section of the passage that answers are judged against: the two
    share at least half of the runs of eight words of the shorter one."""
    passage_share: float = 0.0
    """The sum over the tasks of the share of the passage that their contexts hold."""
    sections: int = 0
    """Sections in all contexts."""
    words: int = 0
    """Words in all contexts, headings left out."""
    passed_over: int = 0
    """Sections that were found and not taken, since they hold a run of words of the rubric or the
    reference answer that the passage does not."""

    def summary(self) -> dict[str, str]:
        """Return the counts in words and per task, for people."""
        n = self.tasks or 1
        share = self.passage_share / n
        return {
            "tasks with a context": f"{self.tasks:,}",
            "sections of a context, mean": f"{self.sections / n:.2f}",
            "words of a context, mean": f"{self.words / n:.0f}",
            "with a section of the task's own document": f"{100 * self.own_document / n:.1f} %",
            "with a section of its own passage (recall)": f"{100 * self.own_passage / n:.1f} %",
            "of the passage in the context, mean": f"{100 * share:.1f} %",
            "sections passed over, which told of a rubric or a reference": f"{self.passed_over:,}",
        }

    def kinds(self) -> dict[str, str]:
        """Return names of what contexts of these tasks hold, by the line of `summary` on it."""
        counts = (self.tasks, self.own_document, self.own_passage)
        names = ("any context", "own document", "own passage")
        lines = list(self.summary())
        own = zip((lines[0], *lines[3:5]), names, counts, strict=True)
        return {line: name for line, name, count in own if count}

    def __add__(self, other: Self) -> Self:
        """Return the sum of each count."""
        sums = {name: value + getattr(other, name) for name, value in self}
        return type(self)(**sums)


def counts_of(task: Task) -> ContextCounts:
    """Return the counts of one task; all of them are 0 for a closed-book task."""
    context = task.context
    if context is None:
        return ContextCounts()
    passage = _runs(task.grounding.reveal())
    context_runs = {run for section in context for run in _runs(section.text)}
    share = len(passage & context_runs) / len(passage) if passage else 0.0
    return ContextCounts(
        tasks=1,
        own_document=any(section.doc_hash == task.doc_hash for section in context),
        own_passage=any(_is_part(section.text, passage) for section in context),
        passage_share=share,
        sections=len(context),
        words=sum(len(section.text.split()) for section in context),
    )


def _is_part(text: str, passage: AbstractSet[_Run]) -> bool:
    runs = _runs(text)
    return len(runs & passage) >= _HALF * min(len(runs), len(passage))


def _runs(text: str) -> set[_Run]:
    words = _WORD.findall(text.lower())
    length = min(_RUN_WORDS, len(words))
    starts = range(len(words) - length + 1)
    return {tuple(words[start : start + length]) for start in starts}
