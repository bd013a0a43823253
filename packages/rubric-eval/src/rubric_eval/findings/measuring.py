"""Measuring of what was read: scores, tested differences, signs of hacking, corrected rewards."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rubric_eval.comparison import (
    AverageDelta,
    CompareSettings,
    EvalComparison,
    ModelScore,
)
from rubric_eval.comparison.evaluations import compare_measured
from rubric_eval.comparison.pairing import scores
from rubric_eval.findings.reading import Reading
from rubric_eval.hacking.evaluation import hacking_panel
from rubric_eval.hacking.results import HackingPanel, HackingSettings
from rubric_eval.heldout.table import CorrectedReward, corrected_rewards

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
        for score in self.scores:
            column = columns.setdefault((score.benchmark, score.judge), {})
            column[score.model] = score
        return columns

    @property
    def judges(self) -> Mapping[str, Mapping[str, ModelScore]]:
        """Held-out columns, by judge."""
        return {
            judge: column
            for (_, judge), column in self.columns.items()
            if judge is not None
        }

    def of_models(
        self, columns: Mapping[str, Mapping[str, ModelScore]]
    ) -> dict[str, list[ModelScore | None]]:
        """Return each model's score in each of these columns, by model."""
        models = dict.fromkeys(model for column in columns.values() for model in column)
        return {
            model: [column.get(model) for column in columns.values()]
            for model in models
        }

    @property
    def benchmarks(self) -> Mapping[str, Mapping[str, ModelScore]]:
        """Columns of benchmarks, by name."""
        return {
            name: column
            for (name, judge), column in self.columns.items()
            if judge is None
        }

    def average(self, a: str, b: str) -> AverageDelta | None:
        """Return the mean over benchmarks of a − b; None unless these two were compared."""
        averages = self.comparison.averages if self.comparison else ()
        for average in averages:
            if (average.a, average.b) == (a, b):
                return average
        return None


@dataclass(frozen=True)
class Signs:
    """Panel of hacking signs, and whether hacking.json was out of date."""

    panel: HackingPanel
    is_anew: bool


@dataclass(frozen=True)
class Results:
    """All that was measured of what was read."""

    findings: Findings
    signs: Signs | None
    """Signs of judge hacking in a held-out evaluation."""

    corrected: tuple[CorrectedReward, ...]
    """Rewards that labels correct, where the judge is calibrated."""


def measure(reading: Reading) -> Results:
    """Score and compare models, and look for signs of judge hacking.

    Raises:
        ComparisonError: sides do not match.
        EvalShapeError: a model has no value, or no judged answer.
        ConfigError: the calibration in the held-out evaluation is not valid.
    """
    findings = _findings(reading)
    signs = _signs(reading)
    heldout = reading.heldout
    corrected: tuple[CorrectedReward, ...] = ()
    if heldout is not None:
        corrected = corrected_rewards(
            heldout.folder, heldout.run.judges, heldout.measured
        )
    return Results(findings, signs, corrected)


def _findings(reading: Reading) -> Findings:
    """Score and compare models, or use the results of `compare` if they are of these very files.

    Of results of other files the settings are used, as far as their pairs of models are there.
    """
    evaluations = reading.evaluations
    measured = [values for evaluation in evaluations for values in evaluation.measured]
    controls = [control for each in evaluations for control in each.controls]
    stored = reading.comparison
    settings = CompareSettings() if stored is None else stored.content.settings
    if stored is not None and stored.is_current:
        return Findings(
            stored.content.scores, stored.content, settings, scores(controls, settings)
        )
    models = {values.model for values in measured}
    if not {name for pair in settings.pairs for name in pair} <= models:
        settings = settings.model_copy(update={"pairs": ()})
    control_scores = scores(controls, settings)
    if len(models) == 1:
        return Findings(scores(measured, settings), None, settings, control_scores)
    compared = compare_measured(measured, settings)
    return Findings(
        compared.scores, compared, settings, control_scores, is_anew=stored is not None
    )


def _signs(reading: Reading) -> Signs | None:
    """Take the signs of hacking.json if it is up to date, and look for them otherwise."""
    heldout = reading.heldout
    stored = reading.panel
    if heldout is None:
        return None
    if stored is not None and stored.is_current:
        return Signs(stored.content, is_anew=False)
    judges = list(heldout.groups)
    second = judges[1] if len(judges) > 1 else None
    settings = HackingSettings(judge=judges[0], second=second)
    by_second = heldout.judged.get(settings.second or "", {})
    panel = hacking_panel(
        heldout.judged[settings.judge],
        settings,
        tasks=(reading.tasks or {}).values(),
        second={model: judged.rewards for model, judged in by_second.items()},
    )
    return Signs(panel, is_anew=stored is not None)
