"""Tasks and refused drafts to read on the page: a sample with a fixed seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from rubric_synth.stats.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_core import Task
    from rubric_synth.rejection import Rejection

_SEED: Final = "examples"
_ACCEPTED: Final = 60
_REJECTED_PER_REASON: Final = 5
_MOST_CHARS: Final = 6_000
_LARGEST_WEIGHT: Final = 1e9
_TEXTS: Final = ("id", "name", "description", "scoring_guide", "verification_method")
_LISTS: Final = ("required_elements", "expected_keywords", "expected_concepts")


@dataclass(frozen=True)
class Example:
    """One task or refused draft as the page shows it."""

    question: str
    """What is asked; "" where no draft was made."""
    criteria: list[dict[str, Any]]
    """The rubric."""
    reference: str
    """The reference answer."""
    rationale: str
    """Why it is asked."""
    passage: str | None
    """None unless it was asked for by name."""
    tags: tuple[str, ...]
    """Split and kind, or stage and reason."""
    origin: str
    """Task id and document, or the source."""
    detail: str = ""
    """What explains a refusal."""

    @property
    def total_weight(self) -> float:
        """W, of the weights that are numbers."""
        return sum(c["weight"] for c in self.criteria if isinstance(c["weight"], float))


class Examples:
    """The examples of one page."""

    def __init__(self, *, reveal_grounding: bool) -> None:
        """Begin without one; passages are kept only if `reveal_grounding` says so."""
        self._reveal = reveal_grounding
        self._accepted: Sample[Example] = Sample(_ACCEPTED, seed=_SEED)
        self._rejected: dict[str, Sample[Example]] = {}

    @property
    def accepted(self) -> list[Example]:
        """Tasks of the dataset."""
        return self._accepted.items()

    @property
    def rejected(self) -> list[Example]:
        """Refusals, the same number for each reason that has so many."""
        reasons = sorted(self._rejected.items(), key=lambda item: -item[1].offered)
        return [example for _, sample in reasons for example in sample.items()]

    @property
    def rejected_of(self) -> int:
        """Refusals to choose from."""
        return sum(sample.offered for sample in self._rejected.values())

    def offer_task(self, task: Task, split: str, kind: str) -> None:
        """Offer a task of the dataset."""
        self._accepted.offer(
            f"{task.doc_hash} {task.question}", lambda: self._of_task(task, (split, kind))
        )

    def offer_rejection(self, rejection: Rejection, line: int) -> None:
        """Offer a line of rejected.jsonl."""
        sample = self._rejected.setdefault(
            str(rejection.reason), Sample(_REJECTED_PER_REASON, seed=_SEED)
        )
        sample.offer(
            f"{rejection.doc_hash} {line}",
            lambda: rejection_example(rejection, reveal_grounding=self._reveal),
        )

    def _of_task(self, task: Task, tags: tuple[str, str]) -> Example:
        return task_example(task, tags, reveal_grounding=self._reveal)


def task_example(task: Task, tags: tuple[str, ...], *, reveal_grounding: bool) -> Example:
    """Return a task of the dataset to read.

    Args:
        task: The task.
        tags: Its split, and its kind where it is known.
        reveal_grounding: With its passage.
    """
    origin = f"task {task.task_id}, document {task.doc_hash[:12]}"
    return _example(task.to_json(reveal_grounding=True), tags, origin, reveal=reveal_grounding)


def rejection_example(rejection: Rejection, *, reveal_grounding: bool) -> Example:
    """Return a document or draft that was left out, whatever its fields hold."""
    tags = (rejection.stage, str(rejection.reason))
    shown = _example(rejection.draft or {}, tags, _cut(rejection.source), reveal=reveal_grounding)
    return replace(shown, detail=_cut(rejection.detail))


def _example(
    row: Mapping[str, Any], tags: tuple[str, ...], origin: str, *, reveal: bool
) -> Example:
    found: object = row.get("criteria")
    criteria = cast("list[object]", found) if isinstance(found, list) else []
    return Example(
        question=_cut(row.get("question")),
        criteria=[
            _criterion(cast("dict[str, object]", c)) for c in criteria if isinstance(c, dict)
        ],
        reference=_cut(row.get("reference_answer")),
        rationale=_cut(row.get("question_rationale")),
        passage=_cut(row.get("passage")) if reveal and row.get("passage") else None,
        tags=tags,
        origin=origin,
    )


def _criterion(row: dict[str, object]) -> dict[str, Any]:
    """Return the fields of a criterion, each of the kind that it should be."""
    return {
        "weight": _weight(row.get("weight", 0.0)),
        **{name: _cut(row.get(name)) for name in _TEXTS},
        **{name: _items(row.get(name)) for name in _LISTS},
    }


def _weight(value: object) -> float | str:
    if isinstance(value, int | float):
        is_shown = abs(value) < _LARGEST_WEIGHT
        return float(value) if is_shown else "a number too large"
    return _cut(value)


def _items(value: object) -> list[str]:
    if not isinstance(value, list | tuple):
        return [_cut(value)] if value else []
    return [_cut(item) for item in cast("list[object]", value)]


def _cut(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            left = len(value) - _MOST_CHARS
            return value if left <= 0 else f"{value[:_MOST_CHARS]} […{left:,} more characters]"
        case _:  # a model may put anything anywhere, of any size and depth
            return f"[a {type(value).__name__} and no text]"
