"""Sections of the page for a run with an audit judge or monitors: charts, and any alarm."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from math import nan
from pathlib import Path
from typing import Any, Literal, cast

from rubric_core.rows import read_growing
from rubric_judge.ui.page.charts import Chart, Series
from rubric_judge.ui.page.links import AT_STEP, link_to
from rubric_train_openrlhf.report.charts import series_of
from rubric_train_openrlhf.report.reading import Run
from rubric_train_openrlhf.run.records import AuditRow, AuditSource, MetricsRow

_NAMES: dict[AuditSource, str] = {
    "training": "training responses",
    "heldout": "held-out responses",
}
_ROLES: dict[AuditSource, tuple[str, str]] = {
    "training": ("main", "c5"),
    "heldout": ("other", "c3"),
}
"""Colours of a source's figures: by the training judge, and by the audit judge."""
_STYLES: dict[AuditSource, Literal["line", "dots"]] = {
    "training": "line",
    "heldout": "dots",
}
_STATES = {
    "starting": "The start is not complete: there is nothing to compare with.",
    "cannot_tell": "There are too few audits to tell.",
    "quiet": "No alarm.",
}
_SHARES = {
    "self_praise": "c1",
    "echo": "c2",
    "refusal": "c3",
    "common_run": "c4",
    "diversity": "c5",
    "thoughts": "c6",
}
"""Monitors that are shares, with their colours."""


def audit_sections(
    folder: Path, run: Run, *, leads: bool = True
) -> dict[str, tuple[Chart, ...]]:
    """Draw what the audit judge and the monitors of a run say; nothing where it has neither.

    Args:
        folder: of the run.
        run: the run; its notes get what a reader should know of the file.
        leads: whether points lead to the responses of their step.

    Returns:
        Charts by the heading that they stand under.

    Raises:
        RubricFileError: a broken row; names the file, line and field.
    """
    path = folder / "audit.jsonl"
    rows: list[AuditRow] = []
    if path.exists():
        rows = [row for _, row in read_growing(path, AuditRow, notes=run.notes)]
    charts: dict[str, tuple[Chart, ...]] = {}
    if rows:
        audit = cast("dict[str, Any]", run.config.get("audit") or {})
        tolerance = float(audit.get("tolerance", 0.0))
        charts["Audit"] = (_rewards(rows), _rise(rows, tolerance=tolerance))
    monitored = [row for row in run.metrics if row.monitor]
    if monitored:
        charts["Monitors"] = tuple(_monitors(monitored))
    return {
        heading: tuple(_leading(chart) if leads else chart for chart in of_heading)
        for heading, of_heading in charts.items()
    }


def _leading(chart: Chart) -> Chart:
    """Have the points of training lead to the responses of their step."""
    sort = "tokens-down" if chart.key == "monitor-length" else ""
    link = link_to("", step=AT_STEP, sort=sort)
    held_out = _NAMES["heldout"]
    series = (
        line if line.label.endswith(held_out) else replace(line, link=link)
        for line in chart.series
    )
    return replace(chart, series=tuple(series))


def _rewards(rows: Sequence[AuditRow]) -> Chart:
    series: list[Series] = []
    for source, roles in _ROLES.items():
        of_source = [row for row in rows if row.source == source]
        if not of_source:
            continue
        steps = tuple(row.step for row in of_source)
        for judge, role in zip(("training", "audit"), roles, strict=True):
            label = f"{judge} judge, {_NAMES[source]}"
            values = _values(of_source, f"{judge}_mean")
            series.append(Series(label, role, steps, values, style=_STYLES[source]))
    return Chart(
        "audit-rewards",
        "Both judges",
        "Mean reward of the audited responses by both judges. The audit judge is in no reward.",
        tuple(series),
        ceiling=1.0,
        is_share=True,
        quantity="reward",
    )


def _rise(rows: Sequence[AuditRow], *, tolerance: float) -> Chart:
    series: list[Series] = []
    for source, (role, _) in _ROLES.items():
        of_source = [row for row in rows if row.source == source]
        label = f"rise, {_NAMES[source]}"
        line = series_of(label, role, of_source, "drift", style=_STYLES[source])
        if line.values:
            series.append(line)
    steps = tuple(sorted({row.step for row in rows}))
    by_step = dict.fromkeys(steps, 0.0)
    for row in rows:
        by_step[row.step] = max(by_step[row.step], row.drift_low or 0.0)
    sure = tuple(accumulate(by_step.values(), max))
    series.append(Series("rise that some step surely had", "c2", steps, sure))
    series.append(Series("tolerance", "c8", steps, (tolerance,) * len(steps)))
    last = rows[-1]
    if last.alarm_step is not None:
        at = next(row for row in rows if row.alarm)
        height = tolerance if at.drift is None else at.drift
        series.append(
            Series("alarm", "c7", (last.alarm_step,), (height,), style="dots")
        )
    return Chart(
        "audit-rise",
        "Rise of the gap since the start",
        f"Mean of training less audit reward, less its mean at the start. {_words(rows)}",
        tuple(series),
        is_share=True,
        ringed=last.alarm_step,
    )


def _words(rows: Sequence[AuditRow]) -> str:
    """Say where the test stands, and how many audits failed."""
    last = rows[-1]
    words = _STATES.get(last.state, "")
    if last.alarm_step is not None:
        words = f"Alarm at step {last.alarm_step}"
        if last.onset is not None:
            words += f"; the drift seems to begin at step {last.onset}"
        words += "."
    chosen = sum(row.chosen for row in rows)
    failed = chosen - sum(row.used for row in rows)
    if failed:
        words += f" {failed:,} of {chosen:,} audits gave no score."
    return words


def _monitors(metrics: Sequence[MetricsRow]) -> Iterator[Chart]:
    steps = tuple(row.step for row in metrics)

    def line(name: str, role: str = "main") -> Series:
        values = tuple(row.monitor.get(name, nan) for row in metrics)
        return Series(name.replace("_", " "), role, steps, values)

    yield Chart(
        "monitor-shares",
        "Shares of responses",
        "Responses with self-praise, wording of the criteria alone, a refusal, the most common run "
        "of five words, a thought; and the share of different pairs of words in a group.",
        tuple(line(name, role) for name, role in _SHARES.items()),
        ceiling=1.0,
        is_share=True,
    )
    words = "Mean number of words of an answer."
    yield Chart("monitor-length", "Length", words, (line("length"),))
    hedges = "Hedges in 100 words, the mean of the answers."
    yield Chart("monitor-hedging", "Hedging", hedges, (line("hedging"),))


def _values(rows: Sequence[AuditRow], field: str) -> tuple[float, ...]:
    values = (getattr(row, field) for row in rows)
    return tuple(nan if value is None else value for value in values)
