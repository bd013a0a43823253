"""What a dataset looks like: criteria, weights, lengths, rejections and control rewards."""

from __future__ import annotations

import json
from collections import Counter
from statistics import mean, median
from typing import TYPE_CHECKING, Final

import anyio
from pydantic import BaseModel, ConfigDict
from structlog import get_logger

from rubric_core import read_tasks
from rubric_judge import LexicalJudge
from rubric_synth.controls import control_rewards
from rubric_synth.errors import DatasetFolderError
from rubric_synth.files import write_json
from rubric_synth.language import words
from rubric_synth.pipeline import REJECTED_FILE, SPLITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rubric_core import Judge, Task

_log = get_logger(__name__)

STATS_FILE: Final = "stats.json"


class Spread(BaseModel):
    """Minimum, median, mean and maximum of some numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min: float
    median: float
    mean: float
    max: float


class DatasetStatistics(BaseModel):
    """Statistics of a dataset folder; nothing of it holds text of a passage or a rubric."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: dict[str, int]
    """Tasks by split."""
    documents: dict[str, int]
    """Documents by split."""
    criteria_per_task: dict[int, int]
    """How many tasks have how many criteria."""
    criteria: dict[str, int]
    """How many tasks have each criterion id."""
    weights: dict[str, int]
    """How many criteria have each weight."""
    total_weight: Spread
    """W."""
    effective_criteria: Spread
    """M_eff = W² / Σ w_j²."""
    question_words: Spread
    """Length of questions."""
    passage_words: Spread
    """Length of passages."""
    reference_words: Spread
    """Length of reference answers."""
    rejected: dict[str, int]
    """Left-out documents and drafts, by reason."""
    controls: dict[str, float]
    """Mean reward of answers that should or should not score well."""


def dataset_statistics(dataset: Path, *, judge: Judge | None = None) -> DatasetStatistics:
    """Read a dataset folder, write `stats.json` into it and return what it holds.

    Args:
        dataset: Folder written by `synthesise`.
        judge: Scores the controls; the lexical judge if None.

    Raises:
        DatasetFolderError: A file is missing, or there is no task.
        RubricFileError: A row is not a task.
    """
    by_split = {split: _read_split(dataset, split) for split in SPLITS}
    tasks = [task for split in SPLITS for task in by_split[split]]
    if not tasks:
        message = f"{str(dataset)!r} holds no task; see {REJECTED_FILE} for the reasons"
        raise DatasetFolderError(message, path=dataset)
    statistics = DatasetStatistics(
        tasks={split: len(found) for split, found in by_split.items()},
        documents={s: len({task.doc_hash for task in found}) for s, found in by_split.items()},
        criteria_per_task=dict(sorted(Counter(len(task.rubric) for task in tasks).items())),
        criteria=dict(Counter(name for task in tasks for name in task.rubric.ids).most_common()),
        weights=_counted(f"{c.weight:g}" for task in tasks for c in task.rubric),
        total_weight=_spread([task.rubric.total_weight for task in tasks]),
        effective_criteria=_spread([task.rubric.effective_criteria for task in tasks]),
        question_words=_spread([len(words(task.question)) for task in tasks]),
        passage_words=_spread([len(words(task.grounding.reveal())) for task in tasks]),
        reference_words=_spread([len(words(task.reference_answer or "")) for task in tasks]),
        rejected=_rejected(dataset),
        controls=anyio.run(control_rewards, tasks, judge or LexicalJudge()),
    )
    write_json(dataset / STATS_FILE, statistics.model_dump(mode="json"))
    _log.info("synth.stats.finished", tasks=statistics.tasks)
    return statistics


def _read_split(dataset: Path, split: str) -> list[Task]:
    path = dataset / f"{split}.jsonl"
    if not path.is_file():
        message = f"{str(path)!r} is missing; write the dataset with `rubric-synth run`"
        raise DatasetFolderError(message, path=path)
    return list(read_tasks(path))


def _rejected(dataset: Path) -> dict[str, int]:
    path = dataset / REJECTED_FILE
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8") as lines:
        return _counted(str(json.loads(line)["reason"]) for line in lines)


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _spread(values: Sequence[float]) -> Spread:
    return Spread(min=min(values), median=median(values), mean=mean(values), max=max(values))
