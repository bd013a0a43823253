"""The writing desk, which serves the page its tasks, authors and answers, without HTTP."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, Field

from rubric_core import Task
from rubric_core.rows import ClosedRow
from rubric_judge.judges.lexical.words import FUNCTION_WORDS
from rubric_judge.quality.label_page.desk import NotDrawnError, shown_criterion
from rubric_judge.quality.labels.rows import Rater
from rubric_judge.quality.labels.writing import (
    WrittenStore,
    tasks_in_order,
    written_answer,
)
from rubric_judge.quality.labels.written import Truth, is_blank
from rubric_judge.ui.page.rendering import visible

LONGEST_ANSWER = 10_000
"""Most characters of an answer; so many fit a request, whatever they are."""


def _not_blank(text: str) -> str:
    if is_blank(text):
        raise ValueError("an empty box is no answer: take the answer back")
    return text


class Place(ClosedRow):
    """One box of one task, and its author."""

    rater: Rater
    task_id: str
    truth: Truth


class Typed(Place):
    """The text in a box."""

    # The bound also refuses lone surrogates, which no file can hold.
    response: Annotated[
        str, Field(max_length=LONGEST_ANSWER), AfterValidator(_not_blank)
    ]


@dataclass(frozen=True)
class WritingDesk:
    """The drawn tasks, the authors' orders and the file. The desk knows no judge."""

    drawn: list[Task]
    store: WrittenStore
    seed: int
    rater: str | None = None
    """The only author here; None where the page asks for a name."""

    @cached_property
    def _by_id(self) -> dict[str, Task]:
        return {task.task_id: task for task in self.drawn}

    def raters(self) -> dict[str, object]:
        """Return the only author, if any, and the number of answers of each author."""
        return {"fixed": self.rater, "answers": self.store.authors()}

    def work(self, rater: str) -> dict[str, object]:
        """Return the tasks that an author is to answer, in order, with the answers so far."""
        self._check_rater(rater)
        order = tasks_in_order(self.drawn, author=rater, seed=self.seed)
        own = self.store.of(rater)
        texts = [
            {
                truth.value: answer.response
                for truth, answer in own.get(task.task_id, {}).items()
            }
            for task in order
        ]
        return {
            "tasks": [
                {"task_id": task.task_id, "given": written}
                for task, written in zip(order, texts, strict=True)
            ],
            "function_words": sorted(FUNCTION_WORDS),
        }

    def texts(self, task_id: str) -> dict[str, object]:
        """Return the texts of a task that an author reads, control characters made visible."""
        task = self._task(task_id)
        return {
            "question": visible(task.question),
            "passage": visible(task.grounding.reveal()),
            "reference": visible(task.reference_answer or ""),
            "criteria": [shown_criterion(criterion) for criterion in task.rubric],
        }

    def keep(self, typed: Typed) -> None:
        """Write an answer; it is on the disk on return.

        Raises:
            SchemaError: it is not to be written here, or another program has changed the file.
            OSError: it could not be written.
        """
        self._check_rater(typed.rater)
        task = self._task(typed.task_id)
        answer = written_answer(
            task,
            typed.truth,
            typed.response,
            author=typed.rater,
        )
        self.store.put([answer])

    def take_back(self, place: Place) -> None:
        """Remove an answer, if it is there.

        Raises:
            SchemaError, OSError: as `keep`.
        """
        self._check_rater(place.rater)
        self._task(place.task_id)
        self.store.remove(place.rater, place.task_id, place.truth)

    def _check_rater(self, rater: str) -> None:
        if self.rater not in (None, rater):
            raise NotDrawnError(
                f"only {self.rater!r} writes here: start another page for others"
            )

    def _task(self, task_id: str) -> Task:
        task = self._by_id.get(task_id)
        if task is None:
            raise NotDrawnError("no answer is to be written to this task here")
        return task
