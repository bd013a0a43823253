"""What is drawn on the page: bars by name, histograms, and the words beside them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from rubric_synth.controls import CONTROLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_synth.stats.report import Coverage, DatasetStatistics, Histogram, Spread

_MOST_BARS: Final = 12
_SINGULAR: Final = {
    "tasks": "task",
    "criteria": "criterion",
    "documents or drafts": "document or draft",
    "damaged lines": "damaged line",
    "problems": "problem",
}


@dataclass(frozen=True)
class Bar:
    """One bar with its name."""

    name: str
    shown: str
    """The value in words."""
    share: float
    """Length, in [0, 1]."""
    note: str = ""
    role: str = "main"
    """Names its colour."""


@dataclass(frozen=True)
class Bars:
    """Bars under each other, on one scale."""

    title: str
    caption: str
    bars: tuple[Bar, ...]
    left: str = ""
    """What is not shown."""


@dataclass(frozen=True)
class Distribution:
    """A histogram and its numbers."""

    title: str
    caption: str
    histogram: Histogram
    numbers: tuple[tuple[str, str], ...]
    unit: str
    """Of one count, for labels."""
    marked: float | None = None
    """Where the median is."""
    is_share: bool = False


def whereabouts(found: DatasetStatistics) -> Bars:
    """Return where the collected documents ended."""
    parts = (
        ("accepted", found.documents_accepted, "main"),
        ("rejected", found.documents_rejected, "other"),
        ("pending", found.documents_pending, "quiet"),
    )
    total = max(found.documents_collected, 1)
    bars = tuple(
        Bar(name, f"{count:,}", count / total, note=f"{100 * count / total:.1f} %", role=role)
        for name, count, role in parts
        if count or name != "pending"
    )
    return Bars("Documents", f"Of {found.documents_collected:,} collected.", bars)


def reasons(found: DatasetStatistics) -> list[Bars]:
    """Return the reasons for leaving documents and drafts out, by stage."""
    longest = max((n for c in found.rejected_by_stage.values() for n in c.values()), default=1)
    return [
        Bars(
            f"Left out in stage “{stage}”",
            f"{counted(sum(counts.values()), 'documents or drafts')}.",
            _bars(counts, role="other", longest=longest),
            _left(counts),
        )
        for stage, counts in found.rejected_by_stage.items()
    ]


def rubric_charts(found: DatasetStatistics) -> list[Bars]:
    """Return the counts over criteria."""
    per_task = {f"{number} criteria": count for number, count in found.criteria_per_task.items()}
    verified = "Head of the verification method; what a program can execute, or free text."
    return [
        Bars("Criteria per task", "Tasks by the number of criteria.", _bars(per_task)),
        Bars("Weights", "Criteria by weight.", _bars(found.weights), _left(found.weights)),
        Bars("Verification", verified, _bars(found.verification), _left(found.verification)),
        Bars("Criteria", "Tasks that have a criterion of this id.", _bars(found.criteria),
             _left(found.criteria)),
    ]  # fmt: skip


def subject_charts(found: DatasetStatistics) -> list[Bars]:
    """Return what the documents are about, as stage 1 of synthesis saw it."""
    named = (
        ("Kind of task", "By the checks that a program can execute.", found.task_kinds),
        ("Genre", "Tasks by the document's genre.", found.genres),
        ("Depth", "Tasks by technical depth.", found.depths),
        ("Reasoning", "Tasks by the dominant mode.", found.reasoning_modes),
        ("Concepts", "Tasks whose document has this central concept.", found.concepts),
    )
    return [
        Bars(title, caption, _bars(counts), _left(counts))
        for title, caption, counts in named
        if counts
    ]


def controls(found: DatasetStatistics) -> Bars:
    """Return what answers earn that should or should not score well."""
    judged = found.control_tasks
    of = "all" if judged == sum(found.tasks.values()) else "a sample with a fixed seed:"
    caption = (
        f"Mean reward of answers to {of} {counted(judged, 'tasks')}, by the judge "
        f"{found.control_judge}. A rubric is worth training on where the reference is far above "
        "what knows nothing."
    )
    bars = tuple(
        Bar(
            name.replace("_", " "),
            f"{reward:.3f}",
            min(max(reward, 0.0), 1.0),
            note=CONTROLS.get(name, ""),
            role="main" if name == "reference" else "other",
        )
        for name, reward in found.controls.items()
    )
    return Bars("Controls", caption, bars)


def rubric_distributions(found: DatasetStatistics) -> list[Distribution]:
    """Return the numbers of rubrics."""
    return [
        _distribution(
            "Effective criteria",
            "M_eff = W² / Σ w². Near the number of criteria, no one criterion rules the reward.",
            found.effective_criteria,
            "tasks",
        ),
        _distribution("Total weight", "W = Σ w.", found.total_weight, "tasks"),
    ]


def length_distributions(found: DatasetStatistics) -> list[Distribution]:
    """Return the lengths of texts."""
    return [
        _distribution("Question", "Words.", found.question_words, "tasks"),
        _distribution("Passage", "Words.", found.passage_words, "tasks"),
        _distribution("Reference answer", "Words.", found.reference_words, "tasks"),
        _distribution("Criterion", "Words of all its parts.", found.criterion_words, "criteria"),
    ]


def coverage_distributions(found: DatasetStatistics) -> list[Distribution]:
    """Return which share of a rubric's terms occurs in passage and reference answer."""
    titles = {
        "keywords_in_passage": "Expected keywords in the passage",
        "keywords_in_reference": "Expected keywords in the reference answer",
        "elements_in_passage": "Required elements in the passage",
        "elements_in_reference": "Required elements in the reference answer",
    }
    return [
        _coverage(titles[name], coverage)
        for name, coverage in found.coverage.items()
        if coverage.tasks
    ]


def judged_by_words(found: DatasetStatistics) -> str:
    """Return what the controls do not show where the judge finds words and reads nothing."""
    criteria = sum(number * count for number, count in found.criteria_per_task.items())
    return (
        f"Judged by words only: {found.unread_criteria:,} of {counted(criteria, 'criteria')} are "
        f"in free text or unit tests, of which the judge {found.control_judge} sees the words and "
        "not the meaning. These rewards say little of such rubrics; name the judge of the "
        "training: rubric-synth stats --judge JUDGE.yaml"
    )


def unreadable_rejections(found: DatasetStatistics) -> str:
    """Return how many damaged lines were skipped."""
    lines = counted(found.unreadable_rejections, "damaged lines")
    return f"{lines} of rejected.jsonl left out; see `rubric-synth check`"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which is given in the plural."""
    return f"{count:,} {_SINGULAR.get(noun, noun) if count == 1 else noun}"


def _distribution(title: str, caption: str, spread: Spread, unit: str) -> Distribution:
    shown = ("min", "p5", "median", "mean", "p95", "max")
    numbers = tuple((name, _number(getattr(spread, name))) for name in shown)
    return Distribution(title, caption, spread.histogram, numbers, unit, marked=spread.median)


def _coverage(title: str, coverage: Coverage) -> Distribution:
    return Distribution(
        title,
        f"Share of a task's terms that occur, over {coverage.tasks:,} tasks that have any.",
        coverage.histogram,
        (
            ("mean", f"{100 * coverage.mean:.1f} %"),
            ("tasks with all", f"{100 * coverage.complete_frac:.1f} %"),
        ),
        "tasks",
        is_share=True,
    )


def _bars(
    counts: Mapping[str, int], *, role: str = "main", longest: int | None = None
) -> tuple[Bar, ...]:
    longest = longest or max(counts.values(), default=1)
    return tuple(
        Bar(name, f"{count:,}", count / longest, role=role)
        for name, count in islice(counts.items(), _MOST_BARS)
    )


def _left(counts: Mapping[str, int]) -> str:
    left = list(islice(counts.values(), _MOST_BARS, None))
    if not left:
        return ""
    rest = "each once" if sum(left) == len(left) else f"{sum(left):,} together"
    return f"and {len(left)} more, {rest}"


def _number(value: float) -> str:
    if value >= 1000:  # noqa: PLR2004 - separators are for four digits
        return f"{value:,.0f}"
    return f"{value:.3g}"
