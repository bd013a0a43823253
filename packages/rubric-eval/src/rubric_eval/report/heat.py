"""Rewards by criterion: which parts of the rubrics a model earns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_eval.records import Measured

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
