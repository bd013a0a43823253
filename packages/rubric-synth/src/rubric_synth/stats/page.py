"""The statistics as one page that needs no other file and no network."""

from __future__ import annotations

import json
from pathlib import Path

from rubric_judge.page.rendering import render_page
from rubric_judge.page.tables import Cell, Column, Figure, Row, Table
from rubric_synth.calls import CallTotals
from rubric_synth.dataset.manifest import Manifest, Usage
from rubric_synth.dataset.writing import asked_of_models
from rubric_synth.files import write_lines
from rubric_synth.stats import charts
from rubric_synth.stats.examples import Examples
from rubric_synth.stats.report import DatasetStatistics


def write_page(
    path: Path, statistics: DatasetStatistics, manifest: Manifest, examples: Examples, *, name: str
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
        "calls": _calls(asked_of_models(statistics.usage)),
        "manifest": manifest,
        "configuration": json.dumps(manifest.config, ensure_ascii=False, indent=2),
        "examples": examples,
        "figures": figures(statistics),
        "charts": charts,
        "record": _record(manifest),
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
        Figure("Tasks", f"{tasks:,}", note=splits),
        Figure(
            "Documents accepted",
            f"{100 * accepted:.0f} %",
            note=f"{found.documents_accepted:,} of {found.documents_collected:,}",
        ),
        Figure("Criteria per task", f"{criteria:.1f}", note="mean"),
        Figure("Effective criteria", f"{found.effective_criteria.median:.2f}", note="median M_eff"),
    ]
    if (reference := found.controls.get("reference")) is not None:
        learned = found.controls.get("learned_template")
        note = "" if learned is None else f"a learned template {learned:.2f}"
        shown.append(Figure("Reference answer earns", f"{reference:.2f}", note=note))
    asked = asked_of_models(found.usage).total
    return [*shown, _cost(asked)] if asked.calls else shown


def _cost(total: CallTotals) -> Figure:
    unpriced = f", {total.unpriced_calls:,} without a price" if total.unpriced_calls else ""
    others = f", {total.fallback_calls:,} by a fallback" if total.fallback_calls else ""
    note = f"{total.calls:,} calls{unpriced}{others}"
    return Figure("Cost", f"${total.cost_usd:,.2f}", note=note)


def _calls(usage: Usage) -> Table | None:
    """What was asked of models, by stage and in all."""
    counts = {
        "Calls": "calls", "Attempts": "attempts", "Tokens read": "prompt_tokens",
        "Tokens written": "completion_tokens", "US$": "cost_usd",
        "Without a price": "unpriced_calls",
    }  # fmt: skip
    if not usage.total.calls:
        return None
    rows = [
        Row(
            name=stage,
            cells=tuple(
                Cell(text=f"{getattr(totals, field):,{'.2f' if field == 'cost_usd' else ''}}")
                for field in counts.values()
            ),
        )
        for stage, totals in {**usage.by_stage, "all": usage.total}.items()
    ]
    columns = [Column(key=field, title=title, form="text") for title, field in counts.items()]
    return Table(
        key="calls", title="", caption="", first="Stage", columns=tuple(columns), rows=tuple(rows)
    )


def _record(manifest: Manifest) -> list[tuple[str, str]]:
    """Versions, prompts and files, by name."""
    prompts = {f"prompt {name}": sha256 for name, sha256 in manifest.prompts.items()}
    collected = ("collected documents", manifest.collected_sha256)
    return [*manifest.versions.items(), collected, *prompts.items(), *manifest.sha256.items()]


def _origin(manifest: Manifest) -> str:
    if manifest.model:
        return f"Synthesis by {manifest.model.get('model', 'a language model')}"
    kind = str(manifest.config.get("synthesiser", {}).get("type", "unknown"))
    return "Synthesis by a language model" if kind == "llm" else f"{kind.capitalize()} synthesis"
