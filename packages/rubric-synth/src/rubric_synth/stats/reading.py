"""A few tasks or refused drafts of a dataset folder, chosen by a seed, to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_core import read_tasks
from rubric_synth.dataset import REJECTED_FILE, read_manifest, read_rejections, split_path
from rubric_synth.stats.examples import Example, rejection_example, task_example
from rubric_synth.stats.sample import Sample

if TYPE_CHECKING:
    from pathlib import Path


def chosen_tasks(
    dataset: Path, *, split: str = "train", limit: int = 3, seed: int = 0, reveal_grounding: bool
) -> list[Example]:
    """Return some tasks of a split, in the order of its file.

    Args:
        dataset: Folder written by `synthesise`.
        split: "train", "validation" or "test".
        limit: At most this many.
        seed: Another one chooses others.
        reveal_grounding: With their passages.

    Raises:
        DatasetFolderError: The split is unknown or missing.
        RubricFileError: A row is not a task.
    """
    sample: Sample[Example] = Sample(limit, seed=f"show {seed}")
    for task in read_tasks(split_path(dataset, split)):
        sample.offer(
            f"{task.doc_hash} {task.question}",
            lambda task=task: task_example(task, (split,), reveal_grounding=reveal_grounding),
        )
    return sample.items()


def chosen_rejections(
    dataset: Path, *, limit: int = 3, seed: int = 0, reveal_grounding: bool
) -> list[Example]:
    """Return some of what was left out, in the order of its file; damaged lines are skipped.

    Args:
        dataset: Folder written by `synthesise`.
        limit: At most this many.
        seed: Another one chooses others.
        reveal_grounding: With the passages of drafts.

    Raises:
        DatasetFolderError: The folder is no dataset, or holds no account of what was left out.
    """
    read_manifest(dataset)
    sample: Sample[Example] = Sample(limit, seed=f"show {seed}")
    for line, rejection in read_rejections(dataset / REJECTED_FILE):
        if rejection is not None:
            sample.offer(
                f"{rejection.doc_hash} {line}",
                lambda found=rejection: rejection_example(found, reveal_grounding=reveal_grounding),
            )
    return sample.items()
