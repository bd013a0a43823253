"""The statistics as one page that needs no other file and no network: bars, histograms, words."""

import json
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from rubric_judge.quality.labels import written
from rubric_judge.ui.page.charts import Bar, Bars, Distribution
from rubric_judge.ui.page.links import link_to, linked
from rubric_judge.ui.page.rendering import render_page
from rubric_judge.ui.page.tables import Row, Table, counted
from rubric_synth.calls import CallTotals
from rubric_synth.files import write_lines
from rubric_synth.run.dataset.folder import Manifest
from rubric_synth.run.dataset.writing import asked_of_models
from rubric_synth.stats.controls import OF_PASSAGE, described, overpaid
from rubric_synth.stats.examples import Examples
from rubric_synth.stats.report import Coverage, DatasetStatistics, Histogram, Spread

_SHOULD_SCORE_WELL = ("reference", written.CONTROLS[written.Truth.RIGHT])
"""Controls that should score well."""
_MOST_BARS = 12
_SECTIONS = {"accepted": "#tasks", "rejected": "#rejected"}
"""Places of the page that show some of those documents."""


def whereabouts(statistics: DatasetStatistics) -> Bars:
    """Return where the collected documents ended."""
    parts = (
        ("accepted", statistics.documents_accepted, "main"),
        ("rejected", statistics.documents_rejected, "other"),
        ("pending", statistics.documents_pending, "muted"),
    )
    total = max(statistics.documents_collected, 1)
    bars = tuple(
        Bar(
            name,
            f"{count:,}",
            count / total,
            note=f"{100 * count / total:.1f} %",
            role=role,
            link=_SECTIONS.get(name, "") if count else "",
        )
        for name, count, role in parts
        if count or name != "pending"
    )
    return Bars("Documents", f"Of {statistics.documents_collected:,} collected.", bars)


def reasons(statistics: DatasetStatistics) -> list[Bars]:
    """Return the reasons for leaving documents and drafts out, by stage, all to one scale."""
    by_stage = statistics.rejected_by_stage
    longest = max(
        (max(by_reason.values(), default=1) for by_reason in by_stage.values()),
        default=1,
    )
    charts: list[Bars] = []
    for stage, by_reason in by_stage.items():
        total = counted(
            sum(by_reason.values()), "document or draft", "documents or drafts"
        )
        bars = counts(
            f"Left out in stage “{stage}”",
            f"{total}.",
            by_reason,
            role="other",
            longest=longest,
        )
        links = {name: link_to("", stage=stage, reason=name) for name in by_reason}
        charts.append(bars.linked(links))
    return charts


def per_task(statistics: DatasetStatistics) -> dict[str, int]:
    """Return the numbers of tasks, by their numbers of criteria in words."""
    return {
        f"{number} criteria": count
        for number, count in statistics.criteria_per_task.items()
    }


def criteria(statistics: DatasetStatistics) -> int:
    """Return how many criteria all rubrics have together."""
    return sum(number * count for number, count in statistics.criteria_per_task.items())


def counts(
    title: str,
    caption: str,
    named: Mapping[str, int],
    *,
    role: str = "main",
    longest: int | None = None,
    facet: str = "",
) -> Bars:
    """Return counts by name, the first dozen drawn.

    Args:
        title: their title.
        caption: what they are.
        named: the counts.
        role: their colour.
        longest: count of a bar of full length; the greatest if None.
        facet: what the shown tasks are chosen by where a name is clicked on: `split`, `kind` or a
            field of the statistics.
    """
    longest = longest or max(named.values(), default=1)
    bars = tuple(
        Bar(
            name,
            f"{count:,}",
            count / longest,
            role=role,
            link=link_to("", **{facet: name}) if facet else "",
        )
        for name, count in islice(named.items(), _MOST_BARS)
    )
    return Bars(title, caption, bars, _left(named))


def spread(
    title: str,
    caption: str,
    numbers_spread: Spread,
    facet: str,
    noun: tuple[str, str] = ("task", "tasks"),
) -> Distribution:
    """Return where some numbers lie; a bar leads to the shown tasks that it counts."""
    numbers = numbers_spread.model_dump(exclude={"histogram"})
    return Distribution(
        title,
        caption,
        noun=noun,
        numbers=tuple((name, _number(value)) for name, value in numbers.items()),
        marked=numbers_spread.median,
        links=_ranges(facet, numbers_spread.histogram),
        **numbers_spread.histogram.model_dump(),
    )


def _ranges(facet: str, histogram: Histogram) -> tuple[str, ...]:
    """Return the address of each bar: a range without its upper end, the last one open."""
    edges = [f"{edge:g}" for edge in histogram.edges]
    ends = [*edges[1:-1], ""]
    return tuple(
        link_to("", **{facet: f"{low}..{high}"})
        for low, high in zip(edges[:-1], ends, strict=True)
    )


def coverage(title: str, shares: Coverage, facet: str) -> Distribution:
    """Return which share of a rubric's terms occurs in a text."""
    numbers = (("mean", shares.mean), ("tasks with all", shares.complete_frac))
    return Distribution(
        title,
        f"Share of a task's terms that occur, over {shares.tasks:,} tasks that have any.",
        noun=("task", "tasks"),
        numbers=tuple((name, f"{100 * value:.1f} %") for name, value in numbers),
        is_share=True,
        links=_ranges(facet, shares.histogram),
        **shares.histogram.model_dump(),
    )


def controls(statistics: DatasetStatistics, examples: Examples) -> Bars:
    """Return the mean reward of answers that should or should not score well.

    A name leads to the shown tasks with such an answer.
    """
    answered = examples.answered_controls
    judged = statistics.control_tasks
    warned = overpaid(statistics.controls)
    which = "a sample with a fixed seed:"
    if judged == sum(statistics.tasks.values()):
        which = "all"
    caption = (
        f"Mean reward of answers to {which} {counted(judged, 'task')}, by the judge "
        f"{statistics.control_judge}. A rubric is worth training on where the reference is far "
        "above what knows nothing."
    )
    bars: list[Bar] = []
    for name, reward in statistics.controls.items():
        if name in _SHOULD_SCORE_WELL:
            role = "main"
        elif name in warned:
            role = "bad"
        else:
            role = "muted"
        bars.append(
            Bar(
                name.replace("_", " "),
                f"{100 * reward:.1f} %",
                min(max(reward, 0.0), 1.0),
                note=described(name, statistics.written_answers),
                role=role,
                link=link_to("", control=name) if name in answered else "",
            )
        )
    hidden = set(OF_PASSAGE) & statistics.controls.keys() - answered
    left = "Parts of passages are shown with --reveal-grounding." if hidden else ""
    return Bars("Controls", caption, tuple(bars), left)


def judged_by_words(statistics: DatasetStatistics) -> str:
    """Return what the controls do not show where the judge finds words and reads nothing."""
    total = counted(criteria(statistics), "criterion", "criteria")
    return (
        f"Judged by words only: {statistics.unread_criteria:,} of {total} are "
        f"in free text or unit tests, of which the judge {statistics.control_judge} sees the words "
        "and not the meaning. These rewards say little of such rubrics; name the judge of the "
        "training: rubric-synth stats --judge JUDGE.yaml"
    )


def unreadable_rejections(statistics: DatasetStatistics) -> str:
    """Return how many damaged lines were skipped."""
    lines = counted(statistics.unreadable_rejections, "damaged line")
    return f"{lines} of rejected.jsonl left out; see `rubric-synth check`"


def _left(counts: Mapping[str, int]) -> str:
    """Return a note on the counts that are not drawn; "" where all are."""
    left = list(islice(counts.values(), _MOST_BARS, None))
    if not left:
        return ""
    total = sum(left)
    rest = "each once" if total == len(left) else f"{total:,} together"
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
        name: Name of the dataset, for the heading.

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
        path,
        [
            render_page(
                __package__,
                "stats",
                content,
                scripts=("address.js", "bins.js", "stats.js"),
            )
        ],
    )


def context(statistics: DatasetStatistics) -> Table:
    """Return what the policy may look up, and how often its task's own passage is there."""
    title = "What the policy may look up"
    if statistics.context is None:
        return Table.from_texts(title, ("", ""), ())
    rows = tuple(statistics.context.summary().items())
    table = Table.from_texts(title, ("", ""), rows)
    kinds = statistics.context.kinds()
    usual = next(iter(kinds.values()), "")

    def address(row: Row) -> str:
        return link_to("", context=kinds.get(row.name, usual)) if usual else ""

    return linked(table, address)


def calls(statistics: DatasetStatistics) -> Table:
    """Return what was asked of models, by stage and in all; without a row where nothing was."""
    usage = asked_of_models(statistics.usage)
    totals_by_stage: dict[str, CallTotals] = {}
    if usage.total.calls:
        totals_by_stage = {**usage.by_stage, "all": usage.total}
    rows = tuple(
        (
            stage,
            f"{totals.calls:,}",
            f"{totals.attempts:,}",
            f"{totals.prompt_tokens:,}",
            f"{totals.completion_tokens:,}",
            f"{totals.unpriced_calls:,}",
            f"{totals.cost_usd:,.2f}",
        )
        for stage, totals in totals_by_stage.items()
    )
    header = (
        "stage",
        "calls",
        "attempts",
        "tokens read",
        "tokens written",
        "without a price",
        "US$",
    )
    table = Table.from_texts("Calls of models", header, rows)
    stages = {str(stage) for stage in statistics.rejected_by_stage}

    def address(row: Row) -> str:
        return link_to("", stage=row.name) if row.name in stages else "#tasks"

    return linked(table, address)


def _record(manifest: Manifest) -> list[tuple[str, str]]:
    """Return versions of packages and hashes of prompts and files, by name."""
    prompts = {f"prompt {name}": sha256 for name, sha256 in manifest.prompts.items()}
    collected = ("collected documents", manifest.collected_sha256)
    return [
        *manifest.versions.items(),
        collected,
        *prompts.items(),
        *manifest.sha256.items(),
    ]
