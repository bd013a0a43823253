"""Measuring of what was read: scores, tested differences, signs of hacking, corrected rewards."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from rubric_eval.comparison import (
    AverageDelta,
    CompareSettings,
    EvalComparison,
    ModelScore,
)
from rubric_eval.comparison.evaluations import compare_measured
from rubric_eval.findings.reading import Reading
from rubric_eval.hacking.panel import hacking_panel
from rubric_eval.hacking.results import HackingPanel, HackingSettings
from rubric_eval.heldout.table import (
    CorrectedReward,
    JudgePair,
    corrected_rewards,
    judge_pairs,
)
from rubric_eval.statistics.intervals import CriterionMeans, criterion_means, score

_Column = tuple[str, str | None]
"""Benchmark and judge."""


@dataclass(frozen=True)
class Findings:
    """Scores of all models, and their comparison where there are two of them."""

    scores: tuple[ModelScore, ...]
    comparison: EvalComparison | None
    settings: CompareSettings
    controls: tuple[ModelScore, ...] = ()
    """Scores of answers that no model wrote."""

    is_anew: bool = False
    """Whether everything was compared again, since comparison.json was made from other files."""

    @property
    def level(self) -> str:
        """Confidence of the intervals, as text."""
        return f"{100 * self.settings.confidence:g} %"

    @cached_property
    def columns(self) -> Mapping[_Column, Mapping[str, ModelScore]]:
        """Score of each model, by benchmark and judge."""
        columns: dict[_Column, dict[str, ModelScore]] = {}
        for of_model in self.scores:
            column = columns.setdefault((of_model.benchmark, of_model.judge), {})
            column[of_model.model] = of_model
        return columns

    @property
    def judges(self) -> Mapping[str, Mapping[str, ModelScore]]:
        """Held-out columns, by judge."""
        return {
            judge: column
            for (_, judge), column in self.columns.items()
            if judge is not None
        }

    @property
    def benchmarks(self) -> Mapping[str, Mapping[str, ModelScore]]:
        """Columns of benchmarks, by name."""
        return {
            name: column
            for (name, judge), column in self.columns.items()
            if judge is None
        }

    @cached_property
    def averages(self) -> Mapping[tuple[str, str], AverageDelta]:
        """The mean over benchmarks of a − b, by the two models; of those that were compared."""
        averages = self.comparison.averages if self.comparison else ()
        return {(average.a, average.b): average for average in averages}


@dataclass(frozen=True)
class Signs:
    """Panel of hacking signs, and whether hacking.json was out of date."""

    panel: HackingPanel
    is_anew: bool


@dataclass(frozen=True)
class Results:
    """All that was measured of what was read."""

    findings: Findings
    signs: Signs | None = None
    """Signs of judge hacking in a held-out evaluation."""

    corrected: tuple[CorrectedReward, ...] = ()
    """Rewards that labels correct, where the judge is calibrated."""

    judge_pairs: tuple[JudgePair, ...] = ()
    """Agreement of each two judges."""

    criteria: Mapping[str, tuple[CriterionMeans, ...]] = field(
        default_factory=dict[str, tuple[CriterionMeans, ...]]
    )
    """Means of the criteria by judge, models in order."""


def measure(reading: Reading) -> Results:
    """Score and compare models, and look for signs of judge hacking.

    Raises:
        ComparisonError: sides do not match.
        EvalShapeError: a model has no value, or no judged answer.
    """
    findings = _findings(reading)
    heldout = reading.heldout
    if heldout is None:
        return Results(findings)
    criteria = {
        judge: criterion_means(models.values())
        for judge, models in heldout.groups.items()
    }
    stored = reading.panel
    if stored is not None and stored.is_current:
        signs = Signs(stored.content, is_anew=False)
    else:
        first, *others = heldout.groups
        second = others[0] if others else None
        by_second = heldout.judged.get(second or "", {})
        panel = hacking_panel(
            heldout.judged[first],
            HackingSettings(judge=first, second=second),
            tasks=(reading.tasks or {}).values(),
            second={model: judged.rewards for model, judged in by_second.items()},
        )
        signs = Signs(panel, is_anew=stored is not None)
    corrected: tuple[CorrectedReward, ...] = ()
    if heldout.calibration is not None:
        corrected = corrected_rewards(
            heldout.folder, heldout.calibration, heldout.run.judges, heldout.measured
        )
    of_judges = {(each.model, each.judge or ""): each for each in heldout.measured}
    pairs = judge_pairs(of_judges, heldout.groups)
    return Results(findings, signs, corrected, tuple(pairs), criteria)


def _findings(reading: Reading) -> Findings:
    """Score and compare models, or use the results of `compare` if they are of these very files.

    Of results of other files the settings are used, as far as their pairs of models are there.
    """
    evaluations = reading.evaluations
    measured = [values for evaluation in evaluations for values in evaluation.measured]
    models = {values.model for values in measured}
    stored = reading.comparison
    comparison: EvalComparison | None = None
    settings = CompareSettings() if stored is None else stored.content.settings
    if stored is not None and stored.is_current:
        comparison = stored.content
    else:
        if not {name for pair in settings.pairs for name in pair} <= models:
            settings = settings.model_copy(update={"pairs": ()})
        if len(models) > 1:
            comparison = compare_measured(measured, settings)
    controls = [control for each in evaluations for control in each.controls]
    score_of = partial(score, confidence=settings.confidence)
    is_outdated = stored is not None and not stored.is_current
    return Findings(
        comparison.scores if comparison else tuple(map(score_of, measured)),
        comparison,
        settings,
        controls=tuple(map(score_of, controls)),
        is_anew=is_outdated and comparison is not None,
    )
