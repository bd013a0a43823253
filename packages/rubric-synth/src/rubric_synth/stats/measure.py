"""A dataset folder read once, a task in memory at a time, into statistics and a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from rubric_core import read_tasks
from rubric_judge import LexicalJudge
from rubric_synth.controls import control_rewards
from rubric_synth.dataset import (
    REJECTED_FILE,
    SPLITS,
    read_manifest,
    read_rejections,
    split_path,
)
from rubric_synth.errors import DatasetFolderError
from rubric_synth.events import log_finished
from rubric_synth.files import write_json
from rubric_synth.stats.examples import Examples
from rubric_synth.stats.page import write_page
from rubric_synth.stats.report import DatasetStatistics
from rubric_synth.stats.sample import Sample
from rubric_synth.stats.tally import TaskTally

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_core import Judge, Task
    from rubric_synth.dataset import Manifest

STATS_FILE: Final = "stats.json"
PAGE_FILE: Final = "stats.html"
CONTROL_TASKS: Final = 500
_CONTROL_SEED: Final = "controls"


def dataset_statistics(
    dataset: Path,
    *,
    judge: Judge | Sequence[Judge] | None = None,
    controls: int = CONTROL_TASKS,
    page: Path | None = None,
    reveal_grounding: bool = False,
) -> DatasetStatistics:
    """Read a dataset folder, write `stats.json` and a page to look at, and return what it holds.

    Controls are scored on a sample of the tasks with a fixed seed; all else is of all tasks.

    Args:
        dataset: Folder written by `synthesise`.
        judge: Scores the controls, or replicas of one that do; the lexical judge if None.
        controls: Score the controls of at most this many tasks, each with an answer a control.
        page: HTML file to write; `stats.html` in the folder if None.
        reveal_grounding: Show passages on the page too.

    Raises:
        DatasetFolderError: The folder is no dataset, a file is missing, or there is no task.
        RubricFileError: A row is not a task.
        OutputError: A file could not be written.
        JudgeSetupError: The judge is not there.
        ValueError: `controls` is below 1.
    """
    if controls < 1:
        raise ValueError(f"controls={controls!r} must be at least 1")
    manifest = read_manifest(dataset)
    tally = TaskTally()
    examples = Examples(reveal_grounding=reveal_grounding)
    sample: Sample[Task] = Sample(controls, seed=_CONTROL_SEED)
    for split in SPLITS:
        for task in read_tasks(split_path(dataset, split)):
            examples.offer_task(task, split, tally.add(task, split))
            sample.offer(f"{task.doc_hash} {task.question}", lambda task=task: task)
    if not sample.offered:
        message = f"{str(dataset)!r} holds no task; see {REJECTED_FILE} for the reasons"
        raise DatasetFolderError(message, path=dataset)
    unreadable = _offer_rejections(dataset / REJECTED_FILE, examples)
    statistics = _statistics(manifest, tally, sample.items(), judge or LexicalJudge(), unreadable)
    write_json(dataset / STATS_FILE, statistics.model_dump(mode="json"))
    write_page(
        page or dataset / PAGE_FILE,
        statistics,
        manifest,
        examples,
        name=dataset.resolve().name,
    )
    log_finished("synth.stats.finished", tasks=statistics.tasks)
    return statistics


def _statistics(
    manifest: Manifest,
    tally: TaskTally,
    sample: Sequence[Task],
    judge: Judge | Sequence[Judge],
    unreadable: int,
) -> DatasetStatistics:
    earned = anyio.run(control_rewards, sample, judge)
    one = judge[0] if isinstance(judge, Sequence) else judge
    return DatasetStatistics(
        documents_collected=manifest.documents,
        documents_accepted=manifest.accepted_documents,
        documents_rejected=manifest.rejected_documents,
        documents_pending=manifest.pending_documents,
        tasks=tally.tasks,
        documents=tally.documents,
        task_kinds=dict(tally.kinds.most_common()),
        criteria_per_task=dict(sorted(tally.criteria_per_task.items())),
        criteria=tally.criteria.most(),
        weights=tally.weights.most(),
        verification=dict(tally.verification.most_common()),
        coverage=tally.coverage,
        genres=tally.genres.most(),
        depths=tally.depths.most(),
        reasoning_modes=tally.modes.most(),
        concepts=tally.concepts.most(),
        rejected=manifest.rejected,
        rejected_by_stage=manifest.rejected_by_stage,
        usage=manifest.usage,
        controls=earned.rewards,
        control_tasks=len(sample),
        control_judge=one.name,
        control_failures=earned.failures,
        unread_criteria=tally.worded_criteria if isinstance(one, LexicalJudge) else 0,
        unreadable_rejections=unreadable,
        **cast("dict[str, Any]", tally.spreads),
    )


def _offer_rejections(path: Path, examples: Examples) -> int:
    """Read the lines for the page, and return how many are damaged: `check` names them.

    The counts are in the manifest.
    """
    damaged = 0
    if path.exists():
        for number, rejection in read_rejections(path):
            if rejection is None:
                damaged += 1
            else:
                examples.offer_rejection(rejection, number)
    return damaged
