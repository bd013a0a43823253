"""What the numbers say: every model's score, and every difference, tested."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rubric_eval.comparison import CompareSettings, compare_measured
from rubric_eval.comparison.levels import score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rubric_eval.comparison import AverageDelta, EvalComparison, ModelScore
    from rubric_eval.records import Measured

_Column = tuple[str, str | None]
"""Benchmark and judge."""


@dataclass(frozen=True)
class Findings:
    """Scores of all models, and their comparison where there are two of them."""

    scores: tuple[ModelScore, ...]
    comparison: EvalComparison | None
    settings: CompareSettings

    @property
    def level(self) -> str:
        """Confidence of the intervals, as it is written."""
        return f"{100 * self.settings.confidence:g} %"

    @cached_property
    def columns(self) -> Mapping[_Column, Mapping[str, ModelScore]]:
        """By benchmark and judge, the score of each model."""
        found: dict[_Column, dict[str, ModelScore]] = {}
        for one in self.scores:
            found.setdefault((one.benchmark, one.judge), {})[one.model] = one
        return found

    @property
    def judges(self) -> Mapping[str, Mapping[str, ModelScore]]:
        """The held-out columns, by judge."""
        return {judge: found for (_, judge), found in self.columns.items() if judge is not None}

    @property
    def benchmarks(self) -> Mapping[str, Mapping[str, ModelScore]]:
        """The columns of benchmarks."""
        return {name: found for (name, judge), found in self.columns.items() if judge is None}

    def average(self, a: str, b: str) -> AverageDelta | None:
        """Mean over benchmarks of a − b, where these two were compared."""
        averages = self.comparison.averages if self.comparison else ()
        return next((one for one in averages if (one.a, one.b) == (a, b)), None)


def findings(measured: Sequence[Measured], settings: CompareSettings | None = None) -> Findings:
    """Score and compare.

    Raises:
        ComparisonError: sides that do not match.
        EvalShapeError: a model without a value.
    """
    settings = settings or CompareSettings()
    if len({one.model for one in measured}) > 1:
        compared = compare_measured(measured, settings)
        return Findings(compared.scores, compared, settings)
    return Findings(tuple(score(one, settings) for one in measured), None, settings)
