"""Tasks and refused drafts to read on the page: a sample with a fixed seed."""

import hashlib
import heapq
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, cast

from rubric_core import Task, read_tasks
from rubric_synth.document import Rejection
from rubric_synth.run.dataset.folder import (
    REJECTED_FILE,
    read_manifest,
    read_rejections,
    split_path,
)
from rubric_synth.stages.stages import TERM_FIELDS, TEXT_FIELDS
from rubric_synth.stats.controls import OF_PASSAGE, ControlAnswer

_T = TypeVar("_T")


class Sample(Generic[_T]):
    """A sample of bounded size, in which each item is as likely as any other.

    No more items than those of the sample are in memory.
    """

    def __init__(self, limit: int, *, seed: str) -> None:
        """Begin an empty sample of at most `limit` items; another seed chooses other items."""
        self._limit = limit
        self._seed = seed
        self._chosen: list[tuple[int, int, _T]] = []
        self.offered = 0
        """Number of items that were offered."""

    def offer(self, key: str, item: _T) -> None:
        """Offer one item; its key tells it from the others."""
        self.offered += 1
        text = f"{self._seed} {key}".encode("utf-8", "replace")
        digest = hashlib.blake2b(text, digest_size=8).digest()
        rank = -int.from_bytes(digest)
        entry = (rank, self.offered, item)
        if len(self._chosen) < self._limit:
            heapq.heappush(self._chosen, entry)
            return
        lowest_rank, _, _ = self._chosen[0]
        if rank > lowest_rank:
            heapq.heapreplace(self._chosen, entry)

    def items(self) -> list[_T]:
        """Return the chosen items in the order in which they were offered."""
        return [item for _, _, item in sorted(self._chosen, key=itemgetter(1))]


Facets: TypeAlias = dict[str, list[str | float]]
"""Names and numbers of a task, by the field of the statistics that they are counted in."""
_SEED = "examples"
_TASK_SEED = "controls"
"""That of the tasks whose controls are judged, so that the tasks to read are among them."""
_MOST_CHARS = 6_000
_LARGEST_WEIGHT = 1e9


@dataclass(frozen=True)
class Example:
    """One task or refused draft as the page shows it."""

    question: str
    """The question; "" where no draft was made."""
    criteria: list[dict[str, Any]]
    """The rubric."""
    reference: str
    """The reference answer."""
    rationale: str
    """Why the question is asked."""
    passage: str | None
    """The passage; None unless passages are revealed."""
    tags: tuple[str, ...]
    """Split and kind of a task, or stage and reason of a refusal."""
    origin: str
    """Task id and document, or the source."""
    detail: str = ""
    """Explanation of a refusal."""
    facets: Facets = field(default_factory=dict[str, list[str | float]])
    """Names and numbers of a task that the statistics count, by their field."""
    controls: tuple[tuple[str, str, str], ...] = ()
    """Name, reward and text of each control's answer to a task."""

    @property
    def facets_json(self) -> str:
        """The same for the page's script."""
        return json.dumps(self.facets, separators=(",", ":"))

    @property
    def total_weight(self) -> float:
        """W, the sum of the weights that are numbers."""
        weights = (criterion["weight"] for criterion in self.criteria)
        return sum(weight for weight in weights if isinstance(weight, float))


class Examples:
    """The examples of one page."""

    def __init__(
        self,
        *,
        reveal_grounding: bool,
        facets_of: Callable[[Task], Facets] = lambda _: {},
    ) -> None:
        """Begin without an example.

        Args:
            reveal_grounding: Whether passages are shown.
            facets_of: What the statistics count of a task.
        """
        self._reveal = reveal_grounding
        self._facets_of = facets_of
        self._accepted: Sample[tuple[Task, tuple[str, ...]]] = Sample(
            60, seed=_TASK_SEED
        )
        self._controls: dict[str, list[tuple[str, str, str]]] = {}
        self._rejected: dict[str, Sample[Rejection]] = {}

    @property
    def accepted(self) -> list[Example]:
        """Tasks of the dataset."""
        chosen = self._accepted.items()
        examples: list[Example] = []
        for task, tags in chosen:
            example = task_example(task, tags, reveal_grounding=self._reveal)
            answers = tuple(self._controls.get(task.task_id, ()))
            facets = self._facets_of(task)
            facets["control"] = [name for name, _, _ in answers]
            examples.append(replace(example, facets=facets, controls=answers))
        return examples

    @property
    def answered_controls(self) -> set[str]:
        """Names of the controls that have an answer to one of the tasks."""
        return {name for answers in self._controls.values() for name, _, _ in answers}

    @property
    def rejected(self) -> list[Example]:
        """Refusals, the same number for each reason that has so many."""
        samples = sorted(self._rejected.values(), key=lambda sample: -sample.offered)
        return [
            rejection_example(rejection, reveal_grounding=self._reveal)
            for sample in samples
            for rejection in sample.items()
        ]

    @property
    def rejected_of(self) -> int:
        """Number of refusals that were offered."""
        return sum(sample.offered for sample in self._rejected.values())

    def offer_task(self, task: Task, split: str, kind: str) -> None:
        """Offer a task of the dataset."""
        self._accepted.offer(task_key(task), (task, (split, kind)))

    def task_sample(self, limit: int) -> Sample[Task]:
        """Return an empty sample that holds the tasks of this page, or some of them."""
        return Sample(limit, seed=_TASK_SEED)

    def add_control(self, answer: ControlAnswer, reward: float | None) -> None:
        """Keep what a control answers one of the tasks with, unless it is a part of the passage."""
        if answer.control in OF_PASSAGE and not self._reveal:
            return
        shown = {task.task_id for task, _ in self._accepted.items()}
        if answer.task.task_id in shown:
            earned = "not judged" if reward is None else f"{100 * reward:.1f} %"
            row = (answer.control, earned, _cut(answer.text))
            self._controls.setdefault(answer.task.task_id, []).append(row)

    def offer_rejections(self, path: Path) -> int:
        """Offer the lines of a file, and return how many are damaged: `check` names them."""
        if not path.exists():
            return 0
        damaged = 0
        for line, rejection in read_rejections(path):
            if rejection is None:
                damaged += 1
                continue
            sample = self._rejected.setdefault(rejection.reason, Sample(5, seed=_SEED))
            sample.offer(f"{rejection.doc_hash} {line}", rejection)
        return damaged


def task_key(task: Task) -> str:
    """Return what tells a task from the others of a dataset."""
    return f"{task.doc_hash} {task.question}"


def task_example(
    task: Task,
    tags: tuple[str, ...],
    *,
    reveal_grounding: bool,
) -> Example:
    """Return a task of the dataset to read.

    Args:
        task: The task.
        tags: Its split, and its kind where it is known.
        reveal_grounding: Whether to show its passage.
    """
    row = task.to_json(reveal_grounding=True)
    origin = f"task {task.task_id}, document {task.doc_hash[:12]}"
    return _example(row, tags, origin, reveal=reveal_grounding)


def rejection_example(rejection: Rejection, *, reveal_grounding: bool) -> Example:
    """Return a document or draft that was left out, whatever its fields hold."""
    row = rejection.draft or {}
    tags = (rejection.stage, str(rejection.reason))
    example = _example(
        row,
        tags,
        _cut(rejection.source),
        reveal=reveal_grounding,
    )
    return replace(example, detail=_cut(rejection.detail))


def _example(
    row: Mapping[str, Any],
    tags: tuple[str, ...],
    origin: str,
    *,
    reveal: bool,
) -> Example:
    value: object = row.get("criteria")
    criteria: list[dict[str, Any]] = []
    if isinstance(value, list):
        for item in cast("list[object]", value):
            if isinstance(item, dict):
                criterion = _criterion(cast("dict[str, object]", item))
                criteria.append(criterion)
    passage = None
    if reveal and row.get("passage"):
        passage = _cut(row["passage"])
    return Example(
        question=_cut(row.get("question")),
        criteria=criteria,
        reference=_cut(row.get("reference_answer")),
        rationale=_cut(row.get("question_rationale")),
        passage=passage,
        tags=tags,
        origin=origin,
    )


def _criterion(row: dict[str, object]) -> dict[str, Any]:
    """Return the fields of a criterion, each with the type that it should have."""
    fields: dict[str, Any] = {"weight": _weight(row.get("weight", 0.0))}
    for name in TEXT_FIELDS:
        fields[name] = _cut(row.get(name))
    for name in TERM_FIELDS:
        fields[name] = _items(row.get(name))
    return fields


def _weight(value: object) -> float | str:
    if not isinstance(value, int | float):
        return _cut(value)
    is_shown = abs(value) < _LARGEST_WEIGHT  # no NaN is
    if not is_shown:
        return "a number too large"
    return float(value)


def _items(value: object) -> list[str]:
    if isinstance(value, list | tuple):
        return [_cut(item) for item in cast("list[object]", value)]
    if not value:
        return []
    return [_cut(value)]


def _cut(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            left = len(value) - _MOST_CHARS
            if left <= 0:
                return value
            return f"{value[:_MOST_CHARS]} […{left:,} more characters]"
        case _:  # a model may put anything anywhere, of any size and depth
            return f"[a {type(value).__name__} and no text]"


def chosen_examples(
    dataset: Path,
    split: str | None,
    *,
    limit: int,
    seed: int,
    reveal_grounding: bool,
) -> list[Example]:
    """Return some tasks of a split, or some of what was left out, in the order of the file.

    Args:
        dataset: Folder written by `synthesise`.
        split: "train", "validation" or "test"; None for what was left out, without damaged lines.
        limit: Largest number of examples.
        seed: Seed of the choice.
        reveal_grounding: Whether to show their passages.

    Raises:
        DatasetFolderError: The folder is not a dataset, or the split or the account of what was
            left out is unknown or missing.
        RubricFileError: A row is not a task.
    """
    if split is not None:
        tasks: Sample[Task] = Sample(limit, seed=f"show {seed}")
        for task in read_tasks(split_path(dataset, split)):
            tasks.offer(task_key(task), task)
        chosen = tasks.items()
        return [
            task_example(task, (split,), reveal_grounding=reveal_grounding)
            for task in chosen
        ]
    read_manifest(dataset)
    refused: Sample[Rejection] = Sample(limit, seed=f"show {seed}")
    for line, rejection in read_rejections(dataset / REJECTED_FILE):
        if rejection is not None:
            refused.offer(f"{rejection.doc_hash} {line}", rejection)
    return [
        rejection_example(rejection, reveal_grounding=reveal_grounding)
        for rejection in refused.items()
    ]
