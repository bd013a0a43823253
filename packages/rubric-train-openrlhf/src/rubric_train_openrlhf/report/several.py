"""Several runs on one page: their results, what their settings differ in, and their curves."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rubric_core import ConfigError
from rubric_core.files import toml_beside
from rubric_judge.ui.page.charts import Chart, Series, on_one_scale
from rubric_judge.ui.page.links import AT_STEP, link_to, linked
from rubric_judge.ui.page.rendering import render_page
from rubric_judge.ui.page.tables import Cell, Row, Table, written
from rubric_train_openrlhf.config.sections import leaves
from rubric_train_openrlhf.report.charts import is_flat, is_measured, series_of
from rubric_train_openrlhf.report.reading import Run, read_run
from rubric_train_openrlhf.run.writing import write_text

MOST_RUNS = 8
"""Number of colours that can be told apart."""
_RUNS: dict[str, Any] = toml_beside(__file__, "runs.toml")
_PLACES = ("out",)
"""Settings in which any two runs differ."""


@dataclass(frozen=True)
class RunsContext:
    """All that the page of several runs shows, by the names that its template uses."""

    result: str
    """Which run is best, in one sentence."""
    names: Sequence[str]
    table: Table
    settings: Table
    """Settings that differ."""
    charts: Sequence[Chart]
    notes: Sequence[str]
    pages: Mapping[str, str]
    """Addresses of the runs' own pages, for those that have one."""


def write_runs_report(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Write one page of several runs; each run keeps a page of its own.

    Args:
        folders: run folders; nothing else is read.
        out: the page; by default runs.html in the folder above the first run.

    Returns:
        Path of the page, which replaces an earlier one in one step.

    Raises:
        ConfigError: a folder is named twice, or there are more than can be told apart.
        RubricFileError: no such folder, or a broken row; names the file, line and field.
        DiskWriteError: the page could not be written.
    """
    places = [folder.resolve() for folder in folders]
    if twice := [place for place, count in Counter(places).items() if count > 1]:
        raise ConfigError(
            f"{twice[0]} is named twice: name each run once", location="folders"
        )
    if len(places) > MOST_RUNS:
        problem = f"{len(places)} runs are named, and a chart can show {MOST_RUNS}: name fewer"
        raise ConfigError(problem, location="folders")
    page = out or places[0].parent / "runs.html"
    named = _named(places)
    runs = {name: read_run(place) for name, place in named.items()}
    pages = _pages(named, beside=page)
    context = RunsContext(
        result=result(runs),
        names=list(runs),
        table=linked(_runs_table(runs), lambda row: pages.get(row.name, "")),
        settings=differing_settings(runs),
        charts=run_charts(runs, pages),
        notes=[f"{name}: {note}" for name, run in runs.items() for note in run.notes],
        pages=pages,
    )
    text = render_page(
        __package__, "runs", vars(context), style="report", scripts=("charts.js",)
    )
    write_text(page, text)
    return page


def _pages(places: Mapping[str, Path], *, beside: Path) -> dict[str, str]:
    """Return the way from a page to the page of each run that has one."""
    start = beside.resolve().parent
    pages: dict[str, str] = {}
    for name, place in places.items():
        page = place / "report.html"
        if page.is_file():
            pages[name] = os.path.relpath(page, start)
    return pages


def _named(places: Sequence[Path]) -> dict[str, Path]:
    """Name each run by as many of its last folders as tell all apart."""
    names = [place.name for place in places]
    for parts in range(2, 1 + max(len(place.parts) for place in places)):
        if len({*names}) == len(names):
            break
        names = ["/".join(place.parts[-parts:]) for place in places]
    return dict(zip(names, places, strict=True))


def result(runs: Mapping[str, Run]) -> str:
    """Say which run has the best validation reward, and what the runs earn on the test."""
    best = {name: run.best.reward_mean for name, run in runs.items() if run.best}
    parts: list[str] = []
    if best:
        name = max(best, key=best.__getitem__)
        parts.append(
            f"Best validation reward: {name} with {written(best[name], 'percent')} %"
        )
    tested = {
        name: list(run.contrast.heldout.values())[-1].mean
        for name, run in runs.items()
        if run.contrast and run.contrast.heldout
    }
    if tested:
        results = [
            f"{name} {written(mean, 'percent')} %" for name, mean in tested.items()
        ]
        parts.append(f"on the test questions: {', '.join(results)}")
    if not parts:
        return "No run has a validation pass or a test result."
    return f"{'; '.join(parts)}."


def run_charts(
    runs: Mapping[str, Run], pages: Mapping[str, str] | None = None
) -> Sequence[Chart]:
    """Draw each quantity that some run has, one line a run, in the same colour everywhere.

    Args:
        runs: the runs by name.
        pages: addresses of their own pages, to whose responses the points of training lead.
    """
    pages = pages or {}
    charts: list[Chart] = []
    for entry in _RUNS["charts"]:
        fields = dict(entry)
        rows = fields.pop("rows")
        field = fields.pop("field")
        series: list[Series] = []
        for number, (name, run) in enumerate(runs.items(), start=1):
            if rows == "validation":
                line = series_of(name, f"c{number}", run.heldout, field, style="dots")
            else:
                line = series_of(name, f"c{number}", run.metrics, field)
            if name in pages and rows == "training":
                line = replace(line, link=link_to(pages[name], step=AT_STEP))
            if line.values:
                series.append(line)
        chart = Chart(**fields, series=tuple(series))
        if not is_flat(chart):
            charts.append(chart)
    return on_one_scale(charts)


def _runs_table(runs: Mapping[str, Run]) -> Table:
    rows = (Row(name=name, cells=_cells(run)) for name, run in runs.items())
    return Table.from_words(_RUNS["table"], rows, key="runs")


def _cells(run: Run) -> tuple[Cell, ...]:
    last = run.metrics[-1] if run.metrics else None
    stages = list(run.contrast.heldout.values()) if run.contrast else []
    return (
        Cell.of(stages[-1].estimate) if stages else Cell(),
        Cell(value=run.best.reward_mean if run.best else None),
        Cell(value=run.best.step if run.best else None),
        Cell(value=last.reward_mean if last else None),
        Cell(value=last.zero_reward_frac if last else None),
        Cell(value=last.kl if last and is_measured(run.metrics) else None),
        Cell(value=len(run.metrics)),
        Cell(text=run.summary.status),
    )


def differing_settings(runs: Mapping[str, Run]) -> Table:
    """Return the settings that are not the same in all runs."""
    settings = [dict(leaves(run.config)) for run in runs.values()]
    names: dict[str, None] = {}
    for run_settings in settings:
        names |= dict.fromkeys(run_settings)
    rows: list[tuple[str, ...]] = []
    for name in names:
        distinct = {str(run_settings.get(name)) for run_settings in settings}
        if name not in _PLACES and len(distinct) > 1:
            values = [str(run_settings.get(name, "–")) for run_settings in settings]
            rows.append((name, *values))
    return Table.from_texts("Settings that differ", ("setting", *runs), tuple(rows))
