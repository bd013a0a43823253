"""The questions of a dataset, as a policy sees them: no passage, no rubric, no reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_core import read_tasks
from rubric_synth.dataset import split_path
from rubric_synth.errors import DatasetFolderError
from rubric_synth.files import json_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def question_lines(dataset: Path, *, split: str = "test") -> Iterator[str]:
    """Yield one line of JSON with `task_id` and `question` for each task of a split.

    Args:
        dataset: Folder written by `synthesise`.
        split: "train", "validation" or "test".

    Raises:
        DatasetFolderError: The split is unknown, missing or empty.
        RubricFileError: A row is not a task.
    """
    path = split_path(dataset, split)
    count = 0
    for count, task in enumerate(read_tasks(path), start=1):  # noqa: B007 - whether there was one
        view = task.policy_view()
        yield json_line({"task_id": view.task_id, "question": view.question}).decode()
    if not count:
        message = f"{str(path)!r} holds no task; choose another split or collect more documents"
        raise DatasetFolderError(message, path=path)
