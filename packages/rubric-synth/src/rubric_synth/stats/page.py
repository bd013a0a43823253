"""The statistics as one page that needs no other file and no network: bars, histograms, words."""

import json
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from rubric_judge.labels import written
from rubric_judge.page.charts import Bar, Bars, Distribution
from rubric_judge.page.rendering import render_page
from rubric_judge.page.tables import TextTable, counted
from rubric_synth.dataset.folder import Manifest
from rubric_synth.dataset.writing import asked_of_models
from rubric_synth.files import write_lines
from rubric_synth.stats.controls import described, overpaid
from rubric_synth.stats.examples import Examples
from rubric_synth.stats.report import Coverage, DatasetStatistics, Spread

_GOOD: Final = ("reference", written.CONTROLS[written.Truth.RIGHT])
"""Controls that should score well."""
_MOST_BARS: Final = 12


def whereabouts(found: DatasetStatistics) -> Bars:
    """Return where the collected documents ended."""
    parts = (
        ("accepted", found.documents_accepted, "main"),
        ("rejected", found.documents_rejected, "other"),
        ("pending", found.documents_pending, "muted"),
    )
    total = max(found.documents_collected, 1)
    bars = tuple(
        Bar(
            name,
            f"{count:,}",
            count / total,
            note=f"{100 * count / total:.1f} %",
            role=role,
        )
        for name, count, role in parts
        if count or name != "pending"
    )
    return Bars("Documents", f"Of {found.documents_collected:,} collected.", bars)


def reasons(found: DatasetStatistics) -> list[Bars]:
    """Return the reasons for leaving documents and drafts out, by stage, all to one scale."""
    by_stage = found.rejected_by_stage
    longest = max(
        (count for of in by_stage.values() for count in of.values()), default=1
    )
    noun = "document or draft", "documents or drafts"
    told = (
        (stage, f"{counted(sum(of.values()), *noun)}.", of)
        for stage, of in by_stage.items()
    )
    return [
        counts(
            f"Left out in stage “{stage}”", caption, of, role="other", longest=longest
        )
        for stage, caption, of in told
    ]


def per_task(found: DatasetStatistics) -> dict[str, int]:
    """Return the numbers of tasks, by their numbers of criteria in words."""
    return {
        f"{number} criteria": count for number, count in found.criteria_per_task.items()
    }


def criteria(found: DatasetStatistics) -> int:
    """Return how many criteria all rubrics have together."""
    return sum(number * count for number, count in found.criteria_per_task.items())


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
    numbers = found.model_dump(exclude={"histogram"})
    return Distribution(
        title,
        caption,
        noun=noun,
        numbers=tuple((name, _number(value)) for name, value in numbers.items()),
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
    warned = overpaid(found.controls)
    of = "all" if judged == sum(found.tasks.values()) else "a sample with a fixed seed:"
    caption = (
        f"Mean reward of answers to {of} {counted(judged, 'task')}, by the judge "
        f"{found.control_judge}. A rubric is worth training on where the reference is far above "
        "what knows nothing."
    )
    bars = tuple(
        Bar(
            name.replace("_", " "),
            f"{100 * reward:.1f} %",
            min(max(reward, 0.0), 1.0),
            note=described(name, found.written_answers),
            role="main" if name in _GOOD else "bad" if name in warned else "muted",
        )
        for name, reward in found.controls.items()
    )
    return Bars("Controls", caption, bars)


def judged_by_words(found: DatasetStatistics) -> str:
    """Return what the controls do not show where the judge finds words and reads nothing."""
    of = counted(criteria(found), "criterion", "criteria")
    return (
        f"Judged by words only: {found.unread_criteria:,} of {of} are "
        f"in free text or unit tests, of which the judge {found.control_judge} sees the words and "
        "not the meaning. These rewards say little of such rubrics; name the judge of the "
        "training: rubric-synth stats --judge JUDGE.yaml"
    )


def unreadable_rejections(found: DatasetStatistics) -> str:
    """Return how many damaged lines were skipped."""
    lines = counted(found.unreadable_rejections, "damaged line")
    return f"{lines} of rejected.jsonl left out; see `rubric-synth check`"


def _left(counts: Mapping[str, int]) -> str:
    left = list(islice(counts.values(), _MOST_BARS, None))
    if not left:
        return ""
    rest = "each once" if sum(left) == len(left) else f"{sum(left):,} together"
    return f"and {len(left)} more, {rest}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"  # noqa: PLR2004 - four digits


def write_page(
    path: Path,
    statistics: DatasetStatistics,
    manifest: Manifest,
    examples: Examples,
    *,
    name: str,
) -> None:
    """Write the page; the same dataset gives the same bytes.

    Args:
        path: HTML file.
        statistics: Numbers to show.
        manifest: Where the dataset comes from.
        examples: Tasks and refused drafts to read.
        name: Of the dataset, for the heading.

    Raises:
        OutputError: The page could not be written.
    """
    content = {
        "name": name,
        "found": statistics,
        "asked": asked_of_models(statistics.usage).total,
        "manifest": manifest,
        "configuration": json.dumps(manifest.config, ensure_ascii=False, indent=2),
        "examples": examples,
        "charts": sys.modules[__name__],  # the template calls the functions above
        "record": _record(manifest),
    }
    write_lines(
        path, [render_page(__package__, "stats", content, scripts=("stats.js",))]
    )


def context(found: DatasetStatistics) -> TextTable:
    """Return what the policy may look up, and how often its task's own passage is there."""
    counts = found.context
    rows = () if counts is None else tuple(counts.told().items())
    return TextTable("What the policy may look up", ("", ""), rows)


def calls(found: DatasetStatistics) -> TextTable:
    """Return what was asked of models, by stage and in all; without a row where nothing was."""
    asked = asked_of_models(found.usage)
    shown = {**asked.by_stage, "all": asked.total} if asked.total.calls else {}
    counts = (
        "calls",
        "attempts",
        "prompt_tokens",
        "completion_tokens",
        "unpriced_calls",
    )
    rows = (
        (
            stage,
            *(f"{getattr(took, name):,}" for name in counts),
            f"{took.cost_usd:,.2f}",
        )
        for stage, took in shown.items()
    )
    header = (
        "calls",
        "attempts",
        "tokens read",
        "tokens written",
        "without a price",
        "US$",
    )
    return TextTable("Calls of models", ("stage", *header), tuple(rows))


def _record(manifest: Manifest) -> list[tuple[str, str]]:
    """Versions, prompts and files, by name."""
    prompts = {f"prompt {name}": sha256 for name, sha256 in manifest.prompts.items()}
    collected = ("collected documents", manifest.collected_sha256)
    return [
        *manifest.versions.items(),
        collected,
        *prompts.items(),
        *manifest.sha256.items(),
    ]
