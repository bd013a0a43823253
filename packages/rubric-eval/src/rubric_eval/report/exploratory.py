"""Differences by criterion and by field: where to look, not what to claim."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rubric_eval.report.tables import benchmark_title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_eval.comparison import Part
    from rubric_eval.records import Measured
    from rubric_eval.report.findings import Findings

MOST_PARTS: Final = 24
"""Of one difference; the greatest."""

_MARGIN: Final = 1.08


@dataclass(frozen=True)
class Breakdown:
    """One difference, by criterion or by field."""

    title: str
    what: str
    parts: tuple[Part, ...]
    """The greatest first."""

    left_out: int

    @property
    def reach(self) -> float:
        """Half width of an axis that holds every difference and its interval."""
        ends = (end for one in self.parts for end in (one.mean, one.ci_low, one.ci_high))
        return max((abs(end) for end in ends if end is not None), default=0.0) * _MARGIN or 1.0


def exploratory(found: Findings) -> list[Breakdown]:
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
    return [
        _breakdown(kind, benchmark, judge if len(found.judges) > 1 else None, parts)
        for (kind, benchmark, judge), parts in groups.items()
        if len(parts) > 1
    ]


def _breakdown(kind: str, benchmark: str, judge: str | None, parts: list[Part]) -> Breakdown:
    ordered = sorted(parts, key=lambda one: -one.mean)
    if len(ordered) > MOST_PARTS:
        kept = sorted(ordered, key=lambda one: -abs(one.mean))[:MOST_PARTS]
        ordered = [one for one in ordered if one in kept]
    judged = f", judged by {judge}" if judge else ""
    return Breakdown(
        title=f"{parts[0].a} − {parts[0].b} by {kind}: {benchmark_title(benchmark)}{judged}",
        what=kind,
        parts=tuple(ordered),
        left_out=len(parts) - len(ordered),
    )


MOST_ROWS: Final = 40
"""Criteria that a reader can still compare."""


@dataclass(frozen=True)
class HeatRow:
    """One criterion: mean z of each model, over the questions that have it."""

    criterion: str
    questions: int
    z: tuple[float | None, ...]

    @property
    def spread(self) -> float:
        """Difference between the best and the worst model."""
        known = [value for value in self.z if value is not None]
        return max(known) - min(known) if known else 0.0


@dataclass(frozen=True)
class Heat:
    """The map of one judge."""

    judge: str
    models: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    """Those of most questions, models' greatest differences first."""

    left_out: int
    """Criteria of fewer questions."""


def heat(judge: str, models: Mapping[str, Measured]) -> Heat:
    """Average the criteria of one judge's scores."""
    questions: Counter[str] = Counter()
    sums: dict[str, Counter[str]] = {}
    counts: dict[str, Counter[str]] = {}
    for model, one in models.items():
        sums[model], counts[model] = Counter(), Counter()
        for criteria in one.criteria_z_N:
            sums[model].update(criteria)
            counts[model].update(criteria.keys())
        questions |= counts[model]
    kept = [name for name, _ in questions.most_common(MOST_ROWS)]
    rows = [
        HeatRow(
            criterion=name,
            questions=questions[name],
            z=tuple(
                sums[model][name] / counts[model][name] if counts[model][name] else None
                for model in models
            ),
        )
        for name in kept
    ]
    rows.sort(key=lambda row: -row.spread)
    return Heat(judge, tuple(models), tuple(rows), left_out=len(questions) - len(kept))
