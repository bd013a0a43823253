"""What is drawn on the page: bars by name, histograms, and the words beside them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from rubric_judge.page.charts import Bar, Bars, Distribution
from rubric_synth.stats.controls import CONTROLS
from rubric_synth.stats.report import Coverage, DatasetStatistics, Spread

_MOST_BARS: Final = 12
_SINGULAR: Final = {
    "tasks": "task",
    "criteria": "criterion",
    "documents or drafts": "document or draft",
    "damaged lines": "damaged line",
    "problems": "problem",
}


def whereabouts(found: DatasetStatistics) -> Bars:
    """Return where the collected documents ended."""
    parts = (
        ("accepted", found.documents_accepted, "main"),
        ("rejected", found.documents_rejected, "other"),
        ("pending", found.documents_pending, "muted"),
    )
    total = max(found.documents_collected, 1)
    bars = tuple(
        Bar(name, f"{count:,}", count / total, note=f"{100 * count / total:.1f} %", role=role)
        for name, count, role in parts
        if count or name != "pending"
    )
    return Bars("Documents", f"Of {found.documents_collected:,} collected.", bars)


def reasons(found: DatasetStatistics) -> list[Bars]:
    """Return the reasons for leaving documents and drafts out, by stage, all to one scale."""
    by_stage = found.rejected_by_stage
    longest = max((count for of in by_stage.values() for count in of.values()), default=1)
    captions = {
        stage: f"{counted(sum(of.values()), 'documents or drafts')}."
        for stage, of in by_stage.items()
    }
    return [
        counts(f"Left out in stage “{stage}”", captions[stage], of, role="other", longest=longest)
        for stage, of in by_stage.items()
    ]


def per_task(found: DatasetStatistics) -> dict[str, int]:
    """Return the numbers of tasks, by their numbers of criteria in words."""
    return {f"{number} criteria": count for number, count in found.criteria_per_task.items()}


def counts(
    title: str,
    caption: str,
    named: Mapping[str, int],
    *,
    role: str = "main",
    longest: int | None = None,
) -> Bars:
    """Return counts by name, the first dozen drawn."""
    longest = longest or max(named.values(), default=1)
    bars = tuple(
        Bar(name, f"{count:,}", count / longest, role=role)
        for name, count in islice(named.items(), _MOST_BARS)
    )
    return Bars(title, caption, bars, _left(named))


def spread(
    title: str, caption: str, found: Spread, noun: tuple[str, str] = ("task", "tasks")
) -> Distribution:
    """Return where some numbers lie."""
    shown = ("min", "p5", "median", "mean", "p95", "max")
    return Distribution(
        title,
        caption,
        noun=noun,
        numbers=tuple((name, _number(getattr(found, name))) for name in shown),
        marked=found.median,
        **found.histogram.model_dump(),
    )


def coverage(title: str, found: Coverage) -> Distribution:
    """Return which share of a rubric's terms occurs in a text."""
    numbers = (("mean", found.mean), ("tasks with all", found.complete_frac))
    return Distribution(
        title,
        f"Share of a task's terms that occur, over {found.tasks:,} tasks that have any.",
        noun=("task", "tasks"),
        numbers=tuple((name, f"{100 * value:.1f} %") for name, value in numbers),
        is_share=True,
        **found.histogram.model_dump(),
    )


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
