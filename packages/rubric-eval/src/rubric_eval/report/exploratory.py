"""Differences by criterion and by field: where to look, not what to claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rubric_eval.report.tables import benchmark_title, bounded
from rubric_judge.page.tables import Cell, Column, Row, Table

if TYPE_CHECKING:
    from rubric_eval.comparison import Part
    from rubric_eval.records import Measured
    from rubric_eval.report.findings import Findings

MOST_PARTS: Final = 24
"""Of one difference; the greatest."""
MOST_ROWS: Final = 40
"""Criteria that a reader can still compare."""


def exploratory(found: Findings) -> list[Table]:
    """Return the breakdowns of the last model's difference from the first one.

    Every pair's is in comparison.json; a page shows the one that a reader asks about first.
    """
    if found.comparison is None:
        return []
    groups: dict[tuple[str, str, str | None], list[Part]] = {}
    for part in found.comparison.exploratory:
        models = list(found.columns[part.benchmark, part.judge])
        if (part.a, part.b) == (models[-1], models[0]):
            groups.setdefault((part.kind, part.benchmark, part.judge), []).append(part)
    several = len(found.judges) > 1
    return [
        _breakdown(kind, benchmark, f", judged by {judge}" if several and judge else "", parts)
        .model_copy(update={"level": found.level})
        for (kind, benchmark, judge), parts in groups.items()
        if len(parts) > 1
    ]  # fmt: skip


def _breakdown(kind: str, benchmark: str, judged: str, parts: list[Part]) -> Table:
    shown = sorted(parts, key=lambda one: -abs(one.mean))[:MOST_PARTS]
    of = f"the {len(shown)} greatest of {len(parts)}" if len(shown) < len(parts) else ""
    return Table(
        key=f"by-{kind}-{benchmark}",
        title=f"{parts[0].a} − {parts[0].b} by {kind}: {benchmark_title(benchmark)}{judged}",
        caption=of,
        first=kind.capitalize(),
        look="dots",
        columns=(
            Column(key="difference", title="Δ, points", form="points", has_interval=True),
            Column(key="questions", title="Questions", form="count"),
        ),
        rows=tuple(
            Row(name=one.name, cells=(bounded(one), Cell(value=one.n)))
            for one in sorted(shown, key=lambda one: -one.mean)
        ),
    )


def heat(judge: str, models: Mapping[str, Measured], *, is_alone: bool = True) -> Table:
    """Mean z of each criterion under one judge, models' greatest differences first.

    Args:
        judge: whose scores.
        models: values of each.
        is_alone: whether there is no other judge to tell it from.
    """
    z_by_model: dict[str, dict[str, list[float]]] = {}
    questions: Counter[str] = Counter()
    for model, one in models.items():
        found = z_by_model[model] = {}
        for criteria in one.criteria_z_N:
            for name, z in criteria.items():
                found.setdefault(name, []).append(z)
        questions |= Counter({name: len(values) for name, values in found.items()})
    rows: list[tuple[float, Row]] = []
    for name, count in questions.most_common(MOST_ROWS):
        means = [
            sum(z) / len(z) if (z := found.get(name)) else None for found in z_by_model.values()
        ]
        known = [mean for mean in means if mean is not None]
        spread = max(known) - min(known)
        cells = (*means, spread, float(count))
        rows.append((spread, Row(name=name, cells=tuple(Cell(value=cell) for cell in cells))))
    rows.sort(key=lambda row: -row[0])
    left_out = len(questions) - len(rows)
    judged = "" if is_alone else f"; judged by {judge}"
    others = f"; the {len(rows)} criteria of most questions, {left_out:,} others are left out"
    return Table(
        key=judge,
        title="",
        caption=(
            "Mean share of each criterion’s weight that was earned, in %, over the questions that "
            f"have it{judged}. The greatest differences come first{others if left_out else ''}."
        ),
        first="Criterion",
        look="heat",
        columns=(
            *(Column(key=model, title=model, form="percent", is_ranked=True) for model in models),
            Column(key="difference", title="Difference", form="percent"),
            Column(key="questions", title="Questions", form="count"),
        ),
        rows=tuple(row for _, row in rows),
    )
