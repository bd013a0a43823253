"""The file that answers of known truth are written into, and the tasks they are written for."""

import random
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rubric_core import RubricFileError, Task
from rubric_judge.pool.ledger.entry import hash_rubric
from rubric_judge.quality.labels.kept_lines import KeptLines, open_lines
from rubric_judge.quality.labels.written import Truth, WrittenAnswer, read_written

_START = b'{"question":'
"""First bytes of each line; a last line with them but without an end was torn by a crash."""


class Slot(NamedTuple):
    """Place of an answer, which an author writes once."""

    author: str
    by_model: bool
    task_id: str
    """Empty for an answer to none of the tasks, which stays in the file as it is."""
    truth: Truth
    line: int = 0
    """Line of an answer to none of the tasks, which tells such answers apart."""


def written_answer(
    task: Task, truth: Truth, response: str, *, author: str, by_model: bool = False
) -> WrittenAnswer:
    """Return an answer to a task, with the hash of its rubric.

    Raises:
        ValueError: the text is blank, or the author's name is not valid.
    """
    return WrittenAnswer(
        question=task.question,
        truth=truth,
        response=response,
        author=author,
        by_model=by_model,
        task_id=task.task_id,
        rubric_sha256=hash_rubric(task.rubric),
    )


class WrittenStore:
    """The answers of a file, which holds one for each author, task and truth.

    Answers are on the disk when a method returns.
    """

    def __init__(self, lines: KeptLines[Slot, WrittenAnswer]) -> None:
        """Take an open file; `open_written` opens it."""
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines.rows)

    @property
    def strange(self) -> int:
        """Number of answers to none of the tasks, which stay as they are."""
        return sum(not slot.task_id for slot in self._lines.rows)

    def of(
        self, author: str, *, by_model: bool = False
    ) -> dict[str, dict[Truth, WrittenAnswer]]:
        """Return an author's answers by task and truth."""
        texts: dict[str, dict[Truth, WrittenAnswer]] = {}
        with self._lines.mutex:
            for slot, answer in self._lines.rows.items():
                if slot.task_id and (slot.author, slot.by_model) == (author, by_model):
                    texts.setdefault(slot.task_id, {})[slot.truth] = answer
        return texts

    def authors(self, *, by_model: bool = False) -> dict[str, int]:
        """Return how many answers each person, or each model, has written to these tasks."""
        with self._lines.mutex:
            slots = [
                slot
                for slot in self._lines.rows
                if slot.task_id and slot.by_model == by_model
            ]
        return dict(Counter(slot.author for slot in slots))

    def put(self, answers: Iterable[WrittenAnswer]) -> None:
        """Keep answers, each in place of an older one: all of them or none.

        The same text a second time, from a page that did not hear of the first, changes nothing.

        Args:
            answers: answers from `written_answer`.

        Raises:
            RubricFileError: another program has changed the file.
            OSError: it could not be written; the file is as it was.
        """
        with self._lines.mutex:
            by_slot = {
                _slot(answer, answer.task_id or ""): answer for answer in answers
            }
            known = self._lines.rows
            new = {
                slot: answer
                for slot, answer in by_slot.items()
                if known.get(slot) != answer
            }
            if new:
                self._lines.put(new)

    def remove(self, author: str, task_id: str, truth: Truth) -> None:
        """Take a person's answer back; one that is not there is no error.

        Raises:
            RubricFileError, OSError: as `put`.
        """
        self._lines.remove(
            Slot(
                author,
                by_model=False,
                task_id=task_id,
                truth=truth,
            )
        )


@contextmanager
def open_written(path: Path, tasks: Mapping[str, Task]) -> Generator[WrittenStore]:
    """Open a file of written answers, made if it is missing, for this process alone.

    Args:
        path: the file; a last line that a crash has torn is cut off.
        tasks: by id; answers to others stay in the file.

    Raises:
        FolderLockError: another process writes the file.
        RubricFileError: a line is not a written answer, is of another version of a task's question
            or rubric, or an author's second of the same kind.
        OSError: it cannot be read or written.
    """

    def read() -> Mapping[Slot, WrittenAnswer]:
        return _read(path, tasks)

    with open_lines(path, WrittenAnswer, start=_START, read=read) as lines:
        yield WrittenStore(lines)


def draw_tasks(tasks: Iterable[Task], *, count: int | None, seed: int) -> list[Task]:
    """Draw tasks at random, as many of each document as of any other.

    Args:
        tasks: to draw from.
        count: number of tasks; None for all. A larger one draws these and more.
        seed: seed of the draw.
    """
    generator = random.Random(f"write {seed}")
    by_document: dict[str, list[Task]] = {}
    for task in tasks:
        by_document.setdefault(task.doc_hash, []).append(task)
    documents = [
        generator.sample(of_document, len(of_document))
        for of_document in by_document.values()
    ]
    generator.shuffle(documents)
    drawn: list[Task] = []
    for number in range(max(map(len, documents), default=0)):
        drawn += [
            of_document[number]
            for of_document in documents
            if number < len(of_document)
        ]
    return drawn[:count]


def tasks_in_order(drawn: Sequence[Task], *, author: str, seed: int) -> list[Task]:
    """Return an author's order of tasks, so that several people do not begin with the same."""
    return random.Random(f"order {seed} {author}").sample(drawn, len(drawn))


def _read(path: Path, tasks: Mapping[str, Task]) -> dict[Slot, WrittenAnswer]:
    by_question: dict[str, list[str]] = {}
    for task in tasks.values():
        by_question.setdefault(task.question, []).append(task.task_id)
    by_slot: dict[Slot, WrittenAnswer] = {}
    lines: dict[Slot, int] = {}
    for line, answer in read_written(path):
        task_id = answer.task_id or ""
        if answer.task_id is None:  # of the only task that asks its question
            task_id, *others = by_question.get(answer.question, [""])
            task_id = "" if others else task_id
        task = tasks.get(task_id)
        if task is not None:
            for field, what in _changed(answer, task):
                raise RubricFileError(
                    f"was written for another version of the {what} of task {task_id!r}: "
                    "write it anew, or give the tasks that it was written for",
                    path=path,
                    line=line,
                    field=field,
                )
        slot = _slot(answer, task_id if task else "", line=line)
        if slot in by_slot:
            raise RubricFileError(
                f"{answer.author!r} has written a second answer to task {task_id!r} that is "
                f"{answer.truth.value}, as line {lines[slot]} is: keep one of the two",
                path=path,
                line=line,
                field="author",
            )
        by_slot[slot] = answer
        lines[slot] = line
    return by_slot


def _changed(answer: WrittenAnswer, task: Task) -> Iterable[tuple[str, str]]:
    if answer.question != task.question:
        yield "question", "question"
    if answer.rubric_sha256 not in (None, hash_rubric(task.rubric)):
        yield "rubric_sha256", "rubric"


def _slot(answer: WrittenAnswer, task_id: str, *, line: int = 0) -> Slot:
    place = 0 if task_id else line
    return Slot(answer.author, answer.by_model, task_id, answer.truth, place)
