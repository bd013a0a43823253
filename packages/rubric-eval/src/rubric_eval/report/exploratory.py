"""Differences by criterion and by field: where to look, not what to claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rubric_eval.report.tables import benchmark_title

if TYPE_CHECKING:
    from rubric_eval.comparison import Part
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
