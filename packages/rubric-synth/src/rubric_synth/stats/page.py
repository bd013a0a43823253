"""The statistics as one page that needs no other file and no network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from rubric_judge.page import render_page
from rubric_synth.dataset import asked_of_models
from rubric_synth.files import write_lines
from rubric_synth.stats import charts
from rubric_synth.stats.drawing import svg

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_synth.calls import CallTotals
    from rubric_synth.dataset import Manifest
    from rubric_synth.stats.examples import Examples
    from rubric_synth.stats.report import DatasetStatistics


class Figure(NamedTuple):
    """One number at the top."""

    label: str
    value: str
    note: str = ""


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
        "origin": _origin(manifest),
        "found": statistics,
        "usage": asked_of_models(statistics.usage),
        "manifest": manifest,
        "configuration": json.dumps(manifest.config, ensure_ascii=False, indent=2),
        "examples": examples,
        "figures": figures(statistics),
        "charts": charts,
        "svg": svg,
    }
    page = render_page(
        __package__ or "", "stats.html.j2", content, style="stats.css", scripts=("stats.js",)
    )
    write_lines(path, [page])


def figures(found: DatasetStatistics) -> list[Figure]:
    """Return the numbers at the top of the page."""
    tasks = sum(found.tasks.values())
    criteria = sum(number * count for number, count in found.criteria_per_task.items()) / tasks
    splits = " · ".join(f"{count:,} {split}" for split, count in found.tasks.items())
    accepted = found.documents_accepted / max(found.documents_collected, 1)
    shown = [
        Figure("Tasks", f"{tasks:,}", splits),
        Figure(
            "Documents accepted",
            f"{100 * accepted:.0f} %",
            f"{found.documents_accepted:,} of {found.documents_collected:,}",
        ),
        Figure("Criteria per task", f"{criteria:.1f}", "mean"),
        Figure("Effective criteria", f"{found.effective_criteria.median:.2f}", "median M_eff"),
    ]
    if (reference := found.controls.get("reference")) is not None:
        learned = found.controls.get("learned_template")
        note = "" if learned is None else f"a learned template {learned:.2f}"
        shown.append(Figure("Reference answer earns", f"{reference:.2f}", note))
    asked = asked_of_models(found.usage).total
    return [*shown, _cost(asked)] if asked.calls else shown


def _cost(total: CallTotals) -> Figure:
    unpriced = f", {total.unpriced_calls:,} without a price" if total.unpriced_calls else ""
    others = f", {total.fallback_calls:,} by a fallback" if total.fallback_calls else ""
    return Figure("Cost", f"${total.cost_usd:,.2f}", f"{total.calls:,} calls{unpriced}{others}")


def _origin(manifest: Manifest) -> str:
    if manifest.model:
        return f"Synthesis by {manifest.model.get('model', 'a language model')}"
    kind = str(manifest.config.get("synthesiser", {}).get("type", "unknown"))
    return "Synthesis by a language model" if kind == "llm" else f"{kind.capitalize()} synthesis"
