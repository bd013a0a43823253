"""Which task a stored response is judged under now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rubric_core import ConfigError, Task
from rubric_judge.ledger.keys import hash_text
from rubric_judge.rejudge.sources import StoredResponse


@dataclass(frozen=True, slots=True)
class Matched:
    """Stored responses with their tasks, and those that have none."""

    pairs: tuple[tuple[StoredResponse, Task], ...]
    same: int
    """Pairs whose task is the very one of before, rubric and all."""
    unmatched: tuple[StoredResponse, ...]
    """No task asks their question of their document, or more than one does."""


def match_tasks(
    stored: Sequence[StoredResponse],
    tasks: Iterable[Task],
    *,
    before: Iterable[Task] = (),
) -> Matched:
    """Find the task of each response.

    By task id; then, for a task file with other rubrics, by passage and question, as far as the
    source knows them; then by the question, where a single task asks it.

    Args:
        stored: responses of a source.
        tasks: what they are to be judged under.
        before: the tasks that they were written for, where a source knows only their ids. These
            are matched by document and question, even if the passage was cut differently.

    Returns:
        Every response once, paired or unmatched.

    Raises:
        ConfigError: there is no task at all.
    """
    tasks = tuple(tasks)
    if not tasks:
        raise ConfigError("the task file holds no task", location="tasks")
    by_id = {task.task_id: task for task in tasks}
    find_successor = _by_document(tasks)
    successors = {task.task_id: find_successor(task) for task in before}
    by_passage = _unique(tasks, lambda task: (task.grounding.sha256, hash_text(task.question)))
    by_question = _unique(tasks, lambda task: hash_text(task.question))
    pairs: list[tuple[StoredResponse, Task]] = []
    unmatched: list[StoredResponse] = []
    for one in stored:
        task = (
            by_id.get(one.task_id)
            or successors.get(one.task_id)
            or by_passage.get((one.passage_sha256, one.question_sha256))
        )
        if task is None and one.passage_sha256 is None:
            task = by_question.get(one.question_sha256)
        if task is None:
            unmatched.append(one)
        else:
            pairs.append((one, task))
    same = sum(one.task_id == task.task_id for one, task in pairs)
    return Matched(pairs=tuple(pairs), same=same, unmatched=tuple(unmatched))


def _by_document(tasks: Sequence[Task]) -> Callable[[Task], Task | None]:
    index = _unique(tasks, lambda task: (task.doc_hash, task.question))
    return lambda task: index.get((task.doc_hash, task.question))


def _unique(tasks: Sequence[Task], key: Callable[[Task], Hashable]) -> Mapping[Hashable, Task]:
    """Index the tasks that are alone with their key."""
    found: defaultdict[Hashable, list[Task]] = defaultdict(list)
    for task in tasks:
        found[key(task)].append(task)
    return {value: alike[0] for value, alike in found.items() if len(alike) == 1}
