"""The parts of the report put into one page that needs no other file and no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_judge.page import inert_json, render_page
from rubric_train_openrlhf.report import headline
from rubric_train_openrlhf.report.charts import sections
from rubric_train_openrlhf.report.drawing import LEFT, RIGHT, step_limits, svg
from rubric_train_openrlhf.report.excerpt import excerpt
from rubric_train_openrlhf.report.reading import read_run
from rubric_train_openrlhf.run.writing import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rubric_train_openrlhf.report.charts import Section
    from rubric_train_openrlhf.run.records import MetricsRow

_TABLE_STEPS = 100


def write_report(run_dir: Path) -> Path:
    """Make report.html out of what a run folder holds so far.

    Works on a run that has just begun as on one that has ended: what there are no rows for is
    left out, and the page says how far the run had got.

    Args:
        run_dir: the run folder; nothing else is read.

    Returns:
        Path of the page, which replaces an earlier one in one step.

    Raises:
        RubricFileError: no such folder, or a broken row; names the file, line and field.
        DiskWriteError: the page could not be written.
    """
    run = read_run(run_dir)
    notes = list(run.notes)
    best = max(run.heldout, key=lambda row: row.reward_mean).step if run.heldout else None
    rollouts = excerpt(run_dir, best_step=best, notes=notes)
    drawn = sections(run.metrics, run.heldout)
    content = {
        "run": run,
        "name": run_dir.resolve().name,
        "notes": notes,
        "status": headline.status(run),
        "description": headline.description(run),
        "figures": headline.figures(run),
        "sections": drawn,
        "svg": svg,
        "chart_json": inert_json(_readings(drawn)),
        "table": _table(run.metrics),
        "table_of": len(run.metrics),
        "rollouts": rollouts,
        "policy_json": inert_json(rollouts.policy),
        "judge_json": inert_json(rollouts.judge),
    }
    page = render_page(
        __package__ or "",
        "report.html.j2",
        content,
        style="report.css",
        scripts=("charts.js", "rollouts.js"),
        filters={"percent": _percent, "points": _points},
    )
    path = run_dir / "report.html"
    write_text(path, page)
    return path


def _readings(drawn: Sequence[Section]) -> dict[str, object]:
    """What a pointer over a chart can ask for: the values, and where the steps lie."""
    readings: dict[str, object] = {}
    for chart in (chart for section in drawn for chart in section.charts):
        low, high = step_limits(chart)
        readings[chart.key] = {
            "left": LEFT,
            "right": RIGHT,
            "low": low,
            "high": high,
            "share": chart.is_share,
            "series": [
                {
                    "label": series.label,
                    "role": series.role,
                    "steps": list(series.steps),
                    "values": [float(f"{value:.5g}") for value in series.values],
                }
                for series in chart.series
            ],
        }
    return readings


def _table(metrics: Sequence[MetricsRow]) -> list[MetricsRow]:
    """All steps, or evenly spaced ones with the ends among them."""
    last = len(metrics) - 1
    if last < _TABLE_STEPS:
        return list(metrics)
    return [metrics[round(i * last / (_TABLE_STEPS - 1))] for i in range(_TABLE_STEPS)]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _points(value: float | None) -> str:
    """A difference in percentage points, with its sign."""
    return "–" if value is None else f"{100 * value:+.1f}".replace("-", "−")
