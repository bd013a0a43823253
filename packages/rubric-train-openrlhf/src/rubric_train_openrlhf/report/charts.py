"""Charts of a run in the report: series by name, role and style, as `charts.toml` lists them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Any, Literal

from rubric_core.files import toml_beside
from rubric_judge.ui.page.charts import Chart, Series
from rubric_judge.ui.page.links import AT_STEP, link_to
from rubric_train_openrlhf.run.records import (
    AuditRow,
    DistillationRow,
    HeldoutRow,
    MetricsRow,
)

Steps = Sequence[MetricsRow | DistillationRow]
Rows = Steps | Sequence[MetricsRow] | Sequence[HeldoutRow] | Sequence[AuditRow]

MAX_PARTS = 8
"""Lines or layers that one chart can hold and still be read."""
_ZEROS = {
    "scored": "zero",
    "empty answer": "empty",
    "unclosed thought": "unclosed",
    "all other": "unrewarded",
}
"""Outcome to show the responses of, by the layer of the chart; of all other layers, `invalid`."""
_CHARTS: list[dict[str, Any]] = toml_beside(__file__, "charts.toml")["charts"]


def sections(
    metrics: Sequence[MetricsRow],
    heldout: Sequence[HeldoutRow],
    *,
    distilled: Sequence[DistillationRow] = (),
    best_step: int | None = None,
    leads: bool = True,
    known: Collection[str] | None = None,
) -> dict[str, tuple[Chart, ...]]:
    """Choose the charts that these rows can fill, by the heading that they stand under.

    Args:
        metrics: the steps.
        heldout: the validation passes.
        distilled: the steps of self-distillation.
        best_step: step of the pass to ring in the chart of rewards.
        leads: whether points of training are links to the responses of their step.
        known: names of criteria that responses can be chosen by; all if None.
    """
    names = _criterion_names(metrics, heldout)
    charts: dict[str, tuple[Chart, ...]] = {}
    for entry in _CHARTS:
        series: list[Series] = []
        for series_entry in entry["series"]:
            lines = [
                *_series(series_entry, metrics, heldout, names),
                *_line(series_entry, [*metrics, *distilled]),
            ]
            for line in lines:
                link = _link(series_entry, line, known) if leads else ""
                series.append(replace(line, link=link))
        if not any(drawn.values for drawn in series):
            continue
        fields: dict[str, Any] = {**entry, "series": tuple(series), "ringed": None}
        if entry.get("size") == "lead":
            fields["ringed"] = best_step
        if entry["key"].startswith("criteria") and len(names) > MAX_PARTS:
            part = f" The {MAX_PARTS} of {len(names)} criteria that most steps have."
            fields["caption"] += part
        heading = fields.pop("heading")
        charts[heading] = (*charts.get(heading, ()), Chart(**fields))
    return charts


def is_flat(chart: Chart) -> bool:
    """Return whether a chart would show nothing but zeros."""
    values = [value for series in chart.series for value in series.values]
    return not any(value != 0 for value in values if isfinite(value))


def is_measured(rows: Iterable[MetricsRow]) -> bool:
    """Return whether the divergence from the reference policy was measured.

    It is not where it has no weight in the loss, and then 0 in every row.
    """
    return any(row.kl != 0 for row in rows)


def _link(
    entry: Mapping[str, Any], series: Series, known: Collection[str] | None
) -> str:
    """Return the address that the points of a series lead to: the responses of their step.

    Where they can be told apart, only the responses that a point counts; "" for a validation pass,
    whose answers are not kept.
    """
    match entry:
        case {"dots": _} | {"criteria": "validation"}:
            return ""
        case {"criteria": _} if known is not None and series.label not in known:
            return link_to("", step=AT_STEP)
        case {"criteria": _}:
            return link_to("", step=AT_STEP, criterion=series.label, sort="order")
        case {"layers": "zero_reward_by_reason"}:
            outcome = _ZEROS.get(series.label, "invalid")
            return link_to("", step=AT_STEP, outcome=outcome)
        case _:
            return link_to("", step=AT_STEP, **entry.get("samples", {}))


def _series(
    entry: Mapping[str, Any],
    metrics: Sequence[MetricsRow],
    heldout: Sequence[HeldoutRow],
    names: Sequence[str],
) -> Iterator[Series]:
    """Yield the layers, criteria or dots of an entry; nothing where it is a line (see `_line`)."""
    match entry:
        case {"layers": "seconds"}:
            yield from _stack(metrics, map(_seconds, metrics))
        case {"layers": field}:
            yield from _stack(metrics, (getattr(row, field) for row in metrics))
        case {"criteria": rows}:
            yield from _criteria(heldout if rows == "validation" else metrics, names)
        case {"label": label, "role": role, "dots": field}:
            yield series_of(label, role, heldout, field, style="dots")
        case _:
            pass


def _line(entry: Mapping[str, str], steps: Steps) -> Iterator[Series]:
    """Yield the line of an entry over the steps; nothing where it is of another kind."""
    field = entry.get("field")
    if field is None:
        return
    line = series_of(entry["label"], entry["role"], steps, field)
    if spread := entry.get("spread"):
        line = replace(line, spread=series_of("", "", steps, spread).values)
    yield line


def _seconds(row: MetricsRow) -> dict[str, float]:
    """Return the seconds of a step by what they went to; they add up to the whole step."""
    parts = {
        "generating": row.generate_s,
        "waiting for the judge": row.judge_wait_s,
        "updating": row.update_s,
    }
    if row.cluster is not None:
        parts["log-probabilities"] = row.cluster.experience_s
        parts["weights to the engines"] = row.cluster.sync_s
    return {**parts, "other": max(row.step_s - sum(parts.values()), 0.0)}


def series_of(
    label: str,
    role: str,
    rows: Rows,
    field: str,
    *,
    style: Literal["line", "dots"] = "line",
) -> Series:
    """Make a series of one field, of the rows that have it: no backend fills all of them."""
    points = [(row.step, getattr(row, field, None)) for row in rows]
    known = [(step, value) for step, value in points if value is not None]
    steps = tuple(step for step, _ in known)
    return Series(label, role, steps, tuple(value for _, value in known), style)


def _stack(
    metrics: Sequence[MetricsRow], parts: Iterable[Mapping[str, float]]
) -> Iterator[Series]:
    """Yield the parts of each step as layers, the largest first, with the rest as one layer."""
    rows = list(parts)
    steps = tuple(row.step for row in metrics)
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row)
    kept = [name for name, _ in total.most_common(MAX_PARTS - 1) if total[name] > 0]
    for i, name in enumerate(kept, start=1):
        layer = tuple(row.get(name, 0.0) for row in rows)
        yield Series(name.replace("_", " "), f"c{i}", steps, layer, style="layer")
    rest = tuple(sum(v for name, v in row.items() if name not in kept) for row in rows)
    if any(rest):
        yield Series("all other", f"c{MAX_PARTS}", steps, rest, style="layer")


def _criteria(
    rows: Sequence[MetricsRow] | Sequence[HeldoutRow], names: Sequence[str]
) -> Iterator[Series]:
    """Yield a line for each criterion; a name has the same colour in every chart."""
    steps = tuple(row.step for row in rows)
    for i, name in enumerate(names[:MAX_PARTS], start=1):
        if any(name in row.criteria for row in rows):
            yield Series(
                name, f"c{i}", steps, tuple(row.criteria.get(name, nan) for row in rows)
            )


def _criterion_names(
    metrics: Sequence[MetricsRow], heldout: Sequence[HeldoutRow]
) -> list[str]:
    """Return the ids of criteria: those in most rows first, then in the order of naming."""
    counts: Counter[str] = Counter()
    for row in (*heldout, *metrics):
        counts.update(row.criteria.keys())
    names = [name for name, _ in counts.most_common()]
    shown = set(names[:MAX_PARTS])
    return [name for name in counts if name in shown] + names[MAX_PARTS:]
