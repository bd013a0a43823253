"""Task sets, the boundary between the policy's side and the judge's.

Tasks stay in their set; the policy gets views that hold only a question and its context.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import structlog

from rubric_core import SftExample, Task, check_no_leak, read_tasks
from rubric_core.files import text_sha256
from rubric_core.nearest import near
from rubric_core.schema.context import context_sha256
from rubric_train_openrlhf.config.sections import PathModel, TinyModel
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError

_log = structlog.get_logger()

TEXTS = ("questions", "passages", "rubrics")
"""Parts of a task set's hashes that are made from texts; the others are made from ids."""
CONTEXTS = "contexts"
"""Another such part, of tasks with a context."""
_OTHER_TASKS = "name a file of other tasks in data.validation"


class TaskSet(dict[str, Task]):
    """Tasks by id. Holds passages and rubrics; nothing on the policy's side may hold the set."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        """Store each task once, in the order given."""
        super().__init__({task.task_id: task for task in tasks})
        self.views = tuple(task.policy_view() for task in self.values())

    def __repr__(self) -> str:
        """Show the number of tasks, no text."""
        return f"TaskSet({len(self)} tasks)"

    def first(self, n: int | None) -> TaskSet:
        """Return the first n tasks, or all of them for None."""
        return TaskSet(list(self.values())[:n])

    @property
    def sha256(self) -> dict[str, str]:
        """Hashes of the parts of the tasks that the two sides see, by part.

        An id is made from question, rubric and the document's hash, which the file may give: it
        does not show whether the passage is the same.
        """
        contexts = [
            task.context and context_sha256(task.context) for task in self.values()
        ]
        parts: dict[str, list[Any]] = {
            "tasks": sorted(self),
            "ids": list(self),
            "questions": [task.question for task in self.values()],
            "passages": [task.grounding.sha256 for task in self.values()],
            "rubrics": [task.rubric.reveal() for task in self.values()],
        }
        if any(contexts):
            parts[CONTEXTS] = contexts
        return {
            name: text_sha256(json.dumps(part, sort_keys=True))
            for name, part in parts.items()
        }

    @property
    def doc_hashes(self) -> frozenset[str]:
        """Hashes of the documents that the tasks were made from."""
        return frozenset(task.doc_hash for task in self.values())

    def reference_answers(self) -> list[SftExample]:
        """Return the questions with a reference answer, for the warm start."""
        examples = (task.sft_example() for task in self.values())
        return [example for example in examples if example is not None]


def read_task_sets(config: TrainConfig, *, warn: bool = False) -> dict[str, TaskSet]:
    """Read the tasks to train on, as `train`, and those of the held-out passes, as `validation`.

    Args:
        config: configuration of the run.
        warn: whether to warn of held-out tasks that are trained on; only in the process that
            starts a run.

    Raises:
        TrainConfigError, RubricFileError, LeakError: as `read_task_set`.
    """
    data = config.data
    train = read_task_set(data.train, leak_ngram=data.leak_ngram, key="data.train")
    sets = {"train": train}
    if data.validation is not None:
        heldout = read_task_set(
            data.validation, leak_ngram=data.leak_ngram, key="data.validation"
        )
        sets["validation"] = heldout.first(config.validation.questions)
        why = _shared(train, sets["validation"]) if warn else ""
        if why:
            _log.warning("train.validation.shared", why=why, todo=_OTHER_TASKS)
    return sets


def heldout_questions(config: TrainConfig) -> int | None:
    """Count the questions of a held-out pass: 0 without one, the limit if there is no file yet.

    Raises:
        RubricFileError: a line of the file is not a valid task.
        TrainConfigError: there is no task in it.
    """
    path = config.data.validation
    limit = config.validation.questions
    if path is None:
        return 0
    if not path.is_file():
        return limit
    count = sum(1 for _ in islice(read_tasks(path), limit))
    if not count:
        raise _no_task(path, named=" (data.validation)")
    return count


def shared_lines(config: TrainConfig) -> Iterator[str]:
    """Say for a plan how many validation tasks are trained on; nothing if a file is missing.

    Raises:
        RubricFileError: a line of a file is not a valid task.
    """
    train = config.data.train
    heldout = config.data.validation
    if heldout is None or not (train.is_file() and heldout.is_file()):
        return
    validation = TaskSet(read_tasks(heldout)).first(config.validation.questions)
    why = _shared(TaskSet(read_tasks(train)), validation)
    if why:
        yield f"data.validation: {why}; {_OTHER_TASKS}"


def missing_lines(config: TrainConfig) -> Iterator[str]:
    """Name the files without which a run would end; they may be made after the plan is read."""
    files = {"data.train": config.data.train, "data.validation": config.data.validation}
    files["judge.calibration"] = config.judge.calibration
    if isinstance(config.model, TinyModel):
        files["model.documents"] = config.model.documents
    if isinstance(config.model, PathModel):
        files["model.path"] = config.model.path / "config.json"
    for key, path in files.items():
        if path is not None and not path.is_file():
            yield f"not there yet: {path} ({key})"


def _shared(train: TaskSet, heldout: TaskSet) -> str:
    shared = len(heldout.keys() & train.keys())
    if not shared:
        return ""
    return f"{shared} of {len(heldout)} validation tasks are training tasks"


def read_task_set(path: Path, *, leak_ngram: int, key: str = "") -> TaskSet:
    """Read the tasks of a file and check that no prompt gives its passage or rubric away.

    Args:
        path: the file.
        leak_ngram: number of words in a row that a question must not share with its passage or
            rubric.
        key: key of the configuration, which an error names.

    Raises:
        RubricFileError: a line of the file is not a valid task.
        LeakError: a question shares a run of words with its passage or rubric, or a context shares
            one with the rubric or the reference answer.
        TrainConfigError: there is no such file, or no task in it.
    """
    named = f" ({key})" if key else ""
    # Unlike `Path.is_file`, false also for a name that is too long or holds a null character.
    if not os.path.isfile(path):  # noqa: PTH113
        raise TrainConfigError(
            f"no task file at {str(path)!r}{named}; write one with `rubric-synth run`{near(path)}",
            location=str(path),
        )
    tasks = list(read_tasks(path))
    if not tasks:
        raise _no_task(path, named=named)
    check_no_leak(tasks, n=leak_ngram)
    return TaskSet(tasks)


def _no_task(path: Path, *, named: str) -> TrainConfigError:
    otherwise = ", or leave `validation` out" if "data.validation" in named else ""
    return TrainConfigError(
        f"{str(path)!r}{named} holds no task; splits share no document, and of a few "
        "documents one may be left empty: collect more documents, or change their shares, "
        f"`train_frac` and `validation_frac` of rubric-synth{otherwise}",
        location=str(path),
    )
