"""What the numbers say: every model's score, and every difference, tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rubric_eval.comparison import CompareSettings, EvalComparison, compare_measured
from rubric_eval.comparison.pairing import score
from rubric_eval.records import EvalFolder, changed_inputs
from rubric_eval.records.digests import read_derived

if TYPE_CHECKING:
    from rubric_eval.comparison import AverageDelta, ModelScore
    from rubric_eval.report.reading import Evaluation

_Column = tuple[str, str | None]
"""Benchmark and judge."""


@dataclass(frozen=True)
class Findings:
    """Scores of all models, and their comparison where there are two of them."""

    scores: tuple[ModelScore, ...]
    comparison: EvalComparison | None
    settings: CompareSettings
    is_anew: bool = False
    """Whether comparison.json was of other files, so that everything was compared again."""

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


def findings(evaluations: Sequence[Evaluation]) -> Findings:
    """Score and compare, or take what `compare` has found of these very files.

    Args:
        evaluations: what is reported.

    Returns:
        Scores of all models. A comparison.json whose inputs have changed since is not used, but
        its settings are, as far as its pairs of models are still there.

    Raises:
        ComparisonError: sides that do not match.
        EvalShapeError: a model without a value.
        RubricFileError: comparison.json is no comparison.
    """
    paths = [one.folder.comparison for one in evaluations]
    read = (
        (path, read_derived(path, EvalComparison, command="rubric-eval compare")) for path in paths
    )
    stored = [(path, found) for path, found in read if found is not None]
    for path, found in stored:
        if _is_of(found, path, evaluations):
            return Findings(found.scores, found, found.settings)
    measured = [values for one in evaluations for values in one.measured]
    models = {one.model for one in measured}
    settings = stored[0][1].settings if stored else CompareSettings()
    if not models.issuperset(name for pair in settings.pairs for name in pair):
        settings = settings.model_copy(update={"pairs": ()})
    if len(models) == 1:
        return Findings(tuple(score(one, settings) for one in measured), None, settings)
    compared = compare_measured(measured, settings)
    return Findings(compared.scores, compared, settings, is_anew=bool(stored))


def _is_of(stored: EvalComparison, path: Path, evaluations: Sequence[Evaluation]) -> bool:
    """Whether a comparison was made of these evaluations, as they are now."""
    home = path.resolve().parent
    folders = [EvalFolder(home / name) for name in stored.folders]
    given: set[Path] = {one.folder.root.resolve() for one in evaluations}
    if not stored.inputs or {folder.root.resolve() for folder in folders} != given:
        return False
    return not changed_inputs(stored.inputs, beside=path, folders=folders)
