"""Is each question asked once, and nothing in it but text?"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# transformers annotates these methods in part only.
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from transformers import AutoTokenizer

from rubric_train_openrlhf.cluster.rehearse.finding import passed, warning
from rubric_train_openrlhf.config import PathModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rubric_core import Task
    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.cluster.rehearse.subject import Subject

_REPORTED: Final = 5


def check_questions(subject: Subject) -> Iterator[Finding]:
    """Look for questions that would be read as something else, or scored in two ways."""
    tasks = (*subject.train_tasks, *subject.tasks.get("data.validation", ()))
    findings = [
        *_asked_twice(subject, subject.train_tasks),
        *_with_nul(subject, tasks),
        *_with_special_tokens(subject, tasks),
    ]
    yield from findings
    if not findings:
        yield passed(f"{len(tasks)} questions, each asked once, and nothing in them but text")


def _asked_twice(subject: Subject, tasks: Sequence[Task]) -> Iterator[Finding]:
    """Tasks of one question are judged by different rubrics or passages: else they were one."""
    same: dict[str, list[Task]] = {}
    for task in tasks:
        same.setdefault(task.question, []).append(task)
    repeated = [group for group in same.values() if len(group) > 1]
    if repeated:
        places = _named(subject, repeated[0])
        yield warning(
            f"{len(repeated)} questions are asked by several tasks, which reward the same answer "
            f"differently, the first by {len(repeated[0])}: {places}",
            where="data.train",
            remedy="keep one task of each question, or say in the questions what differs",
        )


def _with_nul(subject: Subject, tasks: Sequence[Task]) -> Iterator[Finding]:
    if found := [task for task in tasks if "\0" in task.question]:
        yield warning(
            f"{len(found)} questions hold a NUL character: {_named(subject, found)}",
            where="data.train",
            remedy="remove it: the text was probably read from a file that is none",
        )


def _with_special_tokens(subject: Subject, tasks: Sequence[Task]) -> Iterator[Finding]:
    """A special token in a question ends or begins a turn, as if the template had written it."""
    model = subject.known.model
    if subject.codec is None or not isinstance(model, PathModel):
        return
    read: Any = AutoTokenizer
    tokenizer = read.from_pretrained(model.path, local_files_only=True)
    added: list[Any] = list(tokenizer.added_tokens_decoder.values())
    named: list[str] = tokenizer.all_special_tokens
    special = {str(token) for token in added if token.special} | set(named)
    found = [task for task in tasks if any(token in task.question for token in special)]
    if found:
        token = min(token for token in special if token in found[0].question)
        yield warning(
            f"{len(found)} questions hold special tokens of the model, which it does not read as "
            f"text, the first {token!r}: {_named(subject, found)}",
            where="data.train",
            remedy="reword the questions, or drop the tasks",
        )


def _named(subject: Subject, tasks: Sequence[Task]) -> str:
    shown = [subject.place(task.task_id) for task in tasks[:_REPORTED]]
    more = f" and {len(tasks) - _REPORTED} more" if len(tasks) > _REPORTED else ""
    return f"{', '.join(shown)}{more}"
