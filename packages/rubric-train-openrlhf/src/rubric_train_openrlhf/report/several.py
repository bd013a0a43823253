"""Several runs on one page: their results, what their settings differ in, their curves together."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rubric_core import ConfigError
from rubric_core.files import toml_beside
from rubric_judge.page.charts import Chart, Series
from rubric_judge.page.rendering import render_page
from rubric_judge.page.tables import Cell, Row, Table, TextTable, written
from rubric_train_openrlhf.config.sections import leaves
from rubric_train_openrlhf.report.reading import Run, read_run
from rubric_train_openrlhf.run.writing import write_text

MOST_RUNS: Final = 8
"""Colours that can be told apart."""
_TOLD: Final[dict[str, Any]] = toml_beside(__file__, "runs.toml")
_PLACES: Final = ("out",)
"""Settings in which any two runs differ."""


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
        raise ConfigError(f"{twice[0]} is named twice: name each run once", location="folders")
    if len(places) > MOST_RUNS:
        problem = f"{len(places)} runs are named, and a chart can show {MOST_RUNS}: name fewer"
        raise ConfigError(problem, location="folders")
    page = out or places[0].parent / "runs.html"
    runs = {name: read_run(place) for name, place in _named(places).items()}
    charts = run_charts(runs)
    content = {
        "result": result(runs),
        "names": list(runs),
        "table": _table(runs),
        "settings": differing_settings(runs),
        "charts": charts,
        "notes": [f"{name}: {note}" for name, run in runs.items() for note in run.notes],
        "pages": {
            name: os.path.relpath(place / "report.html", page.resolve().parent)
            for name, place in _named(places).items()
            if (place / "report.html").is_file()
        },
    }
    text = render_page(__package__, "runs", content, style="report", scripts=("charts.js",))
    write_text(page, text)
    return page


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
        parts.append(f"Best validation reward: {name} with {written(best[name], 'percent')} %")
    tested = {
        name: list(run.contrast.heldout.values())[-1].mean
        for name, run in runs.items()
        if run.contrast and run.contrast.heldout
    }
    if tested:
        told = (f"{name} {written(mean, 'percent')} %" for name, mean in tested.items())
        parts.append(f"on the test questions: {', '.join(told)}")
    return f"{'; '.join(parts)}." if parts else "No run has a validation pass or a test result."


def run_charts(runs: Mapping[str, Run]) -> list[Chart]:
    """Draw each quantity that some run has, one line a run, in the same colour everywhere."""
    charts: list[Chart] = []
    for told in _TOLD["charts"]:
        fields = dict(told)
        rows, field = fields.pop("rows"), fields.pop("field")
        series = tuple(
            one
            for number, (name, run) in enumerate(runs.items(), start=1)
            if (one := _series(name, f"c{number}", run, rows, field)).values
        )
        if series:
            charts.append(Chart(**fields, series=series))
    return charts


def _series(name: str, role: str, run: Run, rows: str, field: str) -> Series:
    found = [
        (row.step, value)
        for row in (run.heldout if rows == "validation" else run.metrics)
        if (value := getattr(row, field)) is not None
    ]
    steps, values = tuple(step for step, _ in found), tuple(value for _, value in found)
    return Series(name, role, steps, values, style="dots" if rows == "validation" else "line")


def _table(runs: Mapping[str, Run]) -> Table:
    rows = (Row(name=name, cells=_cells(run)) for name, run in runs.items())
    return Table.told(_TOLD["table"], rows, key="runs")


def _cells(run: Run) -> tuple[Cell, ...]:
    last = run.metrics[-1] if run.metrics else None
    stages = list(run.contrast.heldout.values()) if run.contrast else []
    return (
        stages[-1].cell if stages else Cell(),
        Cell(value=run.best.reward_mean if run.best else None),
        Cell(value=run.best.step if run.best else None),
        Cell(value=last.reward_mean if last else None),
        Cell(value=last.zero_reward_frac if last else None),
        Cell(value=last.kl if last else None),
        Cell(value=len(run.metrics)),
        Cell(text=run.summary.status),
    )


def differing_settings(runs: Mapping[str, Run]) -> TextTable:
    """Return the settings that are not the same in all runs."""
    settings = [dict(leaves(run.config)) for run in runs.values()]
    names = dict.fromkeys(name for of in settings for name in of if name not in _PLACES)
    rows = (
        (name, *(str(of.get(name, "–")) for of in settings))
        for name in names
        if len({str(of.get(name)) for of in settings}) > 1
    )
    return TextTable("Settings that differ", ("setting", *runs), tuple(rows))
