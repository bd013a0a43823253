"""The parts of a report put into one page that needs no other file and no network.

A page is of one run, or of several: their results, what their settings differ in, their curves.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from rubric_core import ConfigError
from rubric_core.files import toml_beside
from rubric_judge.ui.console.snapshot import duration_text
from rubric_judge.ui.page.charts import Chart, Series
from rubric_judge.ui.page.rendering import inert_json, render_page
from rubric_judge.ui.page.tables import (
    Cell,
    Figure,
    Form,
    Row,
    Table,
    counted,
    written,
)
from rubric_train_openrlhf.config.sections import leaves
from rubric_train_openrlhf.report.charts import sections
from rubric_train_openrlhf.report.contrast import known_questions, revealed_tasks
from rubric_train_openrlhf.report.reading import Run, excerpt, read_run, spread
from rubric_train_openrlhf.run.records import MetricsRow
from rubric_train_openrlhf.run.writing import write_text

_TABLE_STEPS: Final = 100
_TABLES: Final = toml_beside(__file__, "tables.toml")
_WINDOW: Final = 5
"""Most steps that the first and the last training figures are averaged over."""


@dataclass(frozen=True)
class Revealed:
    """Permission to show passages, rubrics and the judge's words on a page."""

    files: tuple[Path, ...] = ()
    """Files of tasks; those that the run names when left out."""


def write_report(
    run_dir: Path, *, reveal: Revealed | None = None, out: Path | None = None
) -> Path:
    """Make report.html out of what a run folder holds so far.

    Works on a run that has just begun as on one that has ended: what there are no rows for is
    left out, and the page says how far the run had got.

    Args:
        run_dir: the run folder; nothing else is read, but the tasks where they are revealed.
        reveal: given for a page of the judge's side, which is report_revealed.html.
        out: the page, where it is to be another one.

    Returns:
        Path of the page, which replaces an earlier one in one step.

    Raises:
        RubricFileError: no such folder, or a broken row; names the file, line and field.
        ConfigError: the tasks to reveal are not there.
        DiskWriteError: the page could not be written.
    """
    run = read_run(run_dir)
    best_step = run.best.step if run.best else None
    tasks = None if reveal is None else revealed_tasks(run.config, reveal.files)
    rollouts = excerpt(run_dir, best_step=best_step, notes=run.notes, tasks=tasks)
    drawn = sections(run.metrics, run.heldout, best_step=best_step)
    content = {
        "run": run,
        "name": run_dir.resolve().name,
        "settings": dict(leaves(run.config)),
        "admitted": _admitted(run),
        "duration_text": duration_text,
        "plural": counted,
        "figures": [*_heldout_figures(run), *_training_figures(run.metrics)],
        "sections": drawn,
        "charts": [chart for charts in drawn.values() for chart in charts],
        "steps": _steps_table(run.metrics),
        "rollouts": rollouts,
        "policy_json": inert_json(rollouts.policy),
        "judge_json": inert_json(rollouts.judge),
        "is_revealed": tasks is not None,
        "grounding_json": inert_json(rollouts.grounding),
        "known": known_questions(run.contrast, tasks) if run.contrast and tasks else [],
    }
    page = render_page(
        __package__, "report", content, scripts=("charts.js", "rollouts.js")
    )
    path = out or run_dir / (
        "report.html" if reveal is None else "report_revealed.html"
    )
    write_text(path, page)
    return path


def _admitted(run: Run) -> str:
    """Say what a calibration leaves of the rubrics' weight; empty without one."""
    if run.admission is None:
        return ""
    factors = run.admission.factors.values()
    masked = sum(factor == 0 for factor in factors)
    lowered = sum(factor != 0 for factor in factors)
    counts = f"criteria masked: {masked}"
    if lowered:
        counts += f", weighed down: {lowered}"
    fractions = [row.withheld_weight_frac for row in run.metrics]
    withheld = [fraction for fraction in fractions if fraction is not None]
    if not withheld:
        return counts
    return f"{written(1 - fmean(withheld), 'percent')} % ({counts})"


def _steps_table(metrics: Sequence[MetricsRow]) -> Table:
    """All steps, or evenly spaced ones with the ends among them."""
    shown = (metrics[place] for place in spread(range(len(metrics)), _TABLE_STEPS))
    return Table.from_forms(_TABLES["steps"], zip(shown))


def _heldout_figures(run: Run) -> list[Figure]:
    if run.best is None:
        return []
    first = run.heldout[0]
    last = run.heldout[-1]
    best = run.best
    label = "Validation reward, %"
    value = written(best.reward_mean, "percent")
    questions = counted(first.n, "question")
    if len(run.heldout) == 1:
        return [Figure(label, value, note=questions)]
    chosen = f"; before, and the best pass, step {best.step}"
    after = (
        "" if last is best else f"; the last has {written(last.reward_mean, 'percent')}"
    )
    before = written(first.reward_mean, "percent")
    return [Figure(label, value, before, questions + chosen + after)]


def _training_figures(metrics: Sequence[MetricsRow]) -> list[Figure]:
    if not metrics:
        return []
    window_steps = max(1, min(_WINDOW, len(metrics) // 2))
    head = metrics[:window_steps]
    tail = metrics[-window_steps:]
    alone = len(metrics) == 1
    window = "" if alone else f"first and last {counted(window_steps, 'step')}"

    def figure(label: str, field: str, form: Form) -> Figure:
        ends = [fmean(getattr(row, field) for row in rows) for rows in (head, tail)]
        before, after = (written(end, form) for end in ends)
        return Figure(label, after, "" if alone else before, window)

    kl = Figure("KL to reference", f"{metrics[-1].kl:.3g}", note="last step")
    figures = [figure(*arguments) for arguments in _TABLES["figures"]["of_steps"]]
    return [*figures, kl]


MOST_RUNS: Final = 8
"""Number of colours that can be told apart."""
_RUNS: Final[dict[str, Any]] = toml_beside(__file__, "runs.toml")
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
        raise ConfigError(
            f"{twice[0]} is named twice: name each run once", location="folders"
        )
    if len(places) > MOST_RUNS:
        problem = f"{len(places)} runs are named, and a chart can show {MOST_RUNS}: name fewer"
        raise ConfigError(problem, location="folders")
    page = out or places[0].parent / "runs.html"
    runs = {name: read_run(place) for name, place in _named(places).items()}
    charts = run_charts(runs)
    content = {
        "result": result(runs),
        "names": list(runs),
        "table": _runs_table(runs),
        "settings": differing_settings(runs),
        "charts": charts,
        "notes": [
            f"{name}: {note}" for name, run in runs.items() for note in run.notes
        ],
        "pages": {
            name: os.path.relpath(place / "report.html", page.resolve().parent)
            for name, place in _named(places).items()
            if (place / "report.html").is_file()
        },
    }
    text = render_page(
        __package__, "runs", content, style="report", scripts=("charts.js",)
    )
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


def run_charts(runs: Mapping[str, Run]) -> list[Chart]:
    """Draw each quantity that some run has, one line a run, in the same colour everywhere."""
    charts: list[Chart] = []
    for entry in _RUNS["charts"]:
        fields = dict(entry)
        rows = fields.pop("rows")
        field = fields.pop("field")
        series: list[Series] = []
        for number, (name, run) in enumerate(runs.items(), start=1):
            line = _series(name, f"c{number}", run, rows, field)
            if line.values:
                series.append(line)
        if series:
            charts.append(Chart(**fields, series=tuple(series)))
    return charts


def _series(name: str, role: str, run: Run, rows: str, field: str) -> Series:
    points: list[tuple[int, float]] = []
    for row in run.heldout if rows == "validation" else run.metrics:
        value = getattr(row, field)
        if value is not None:
            points.append((row.step, value))
    steps = tuple(step for step, _ in points)
    values = tuple(value for _, value in points)
    return Series(
        name, role, steps, values, style="dots" if rows == "validation" else "line"
    )


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
        Cell(value=last.kl if last else None),
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
