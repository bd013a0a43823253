"""The parts of the report put into one page that needs no other file and no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

from rubric_core.files import toml_beside
from rubric_judge.console.snapshot import duration_text
from rubric_judge.page.rendering import inert_json, render_page
from rubric_judge.page.tables import Figure, Form, TextTable, counted, written
from rubric_train_openrlhf.config.sections import leaves
from rubric_train_openrlhf.report.charts import sections
from rubric_train_openrlhf.report.contrast import known_questions, revealed_tasks
from rubric_train_openrlhf.report.reading import Run, excerpt, read_run, spread
from rubric_train_openrlhf.run.records import MetricsRow
from rubric_train_openrlhf.run.writing import write_text

_TABLE_STEPS: Final = 100
_TABLES: Final = toml_beside(__file__, "tables.toml")
_COLUMNS: Final[list[list[str]]] = _TABLES["steps"]["columns"]
"""Of the table of steps: title, field of the row and how it is written."""
_WINDOW: Final = 5
"""Most steps that the first and the last training figures are averaged over."""


@dataclass(frozen=True)
class Revealed:
    """That a page may show passages, rubrics and the judge's words."""

    files: tuple[Path, ...] = ()
    """Of tasks; those that the run names when left out."""


def write_report(run_dir: Path, *, reveal: Revealed | None = None, out: Path | None = None) -> Path:
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
    page = render_page(__package__, "report", content, scripts=("charts.js", "rollouts.js"))
    path = out or run_dir / ("report.html" if reveal is None else "report_revealed.html")
    write_text(path, page)
    return path


def _admitted(run: Run) -> str:
    """Say what a calibration leaves of the rubrics' weight; empty without one."""
    if run.admission is None:
        return ""
    factors = run.admission.factors.values()
    masked, lowered = sum(one == 0 for one in factors), sum(one != 0 for one in factors)
    told = f"criteria masked: {masked}" + (f", weighed down: {lowered}" if lowered else "")
    withheld = [one for row in run.metrics if (one := row.withheld_weight_frac) is not None]
    return f"{written(1 - fmean(withheld), 'percent')} % ({told})" if withheld else told


def _steps_table(metrics: Sequence[MetricsRow]) -> TextTable:
    """All steps, or evenly spaced ones with the ends among them."""

    def cell(row: MetricsRow, field: str, form: str) -> str:
        return "" if (value := getattr(row, field)) is None else format(value, form)

    shown = [metrics[place] for place in spread(range(len(metrics)), _TABLE_STEPS)]
    header = ("Step", *(title for title, _, _ in _COLUMNS))
    rows = ((str(row.step), *(cell(row, *told) for _, *told in _COLUMNS)) for row in shown)
    return TextTable("Step", header, tuple(rows))


def _heldout_figures(run: Run) -> list[Figure]:
    if run.best is None:
        return []
    first, last, best = run.heldout[0], run.heldout[-1], run.best
    label, value = "Validation reward, %", written(best.reward_mean, "percent")
    questions = counted(first.n, "question")
    if len(run.heldout) == 1:
        return [Figure(label, value, note=questions)]
    chosen = f"; before, and the best pass, step {best.step}"
    after = "" if last is best else f"; the last has {written(last.reward_mean, 'percent')}"
    before = written(first.reward_mean, "percent")
    return [Figure(label, value, before, questions + chosen + after)]


def _training_figures(metrics: Sequence[MetricsRow]) -> list[Figure]:
    if not metrics:
        return []
    window_steps = max(1, min(_WINDOW, len(metrics) // 2))
    head, tail = metrics[:window_steps], metrics[-window_steps:]
    alone = len(metrics) == 1
    window = "" if alone else f"first and last {counted(window_steps, 'step')}"

    def figure(label: str, field: str, form: Form) -> Figure:
        ends = [fmean(getattr(row, field) for row in rows) for rows in (head, tail)]
        before, after = (written(end, form) for end in ends)
        return Figure(label, after, "" if alone else before, window)

    kl = Figure("KL to reference", f"{metrics[-1].kl:.3g}", note="last step")
    return [*(figure(*told) for told in _TABLES["figures"]["of_steps"]), kl]
