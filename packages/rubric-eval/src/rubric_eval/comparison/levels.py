"""How high each model scores, with an interval that fits what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rubric_eval.comparison.found import ModelScore
from rubric_eval.comparison.pairing import question_means
from rubric_eval.records import Measure
from rubric_eval.statistics import score_interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_eval.comparison.found import CompareSettings
    from rubric_eval.records import Measured

FEWEST_QUESTIONS = 5
"""That a criterion or field needs to be shown by itself."""


def score(measured: Measured, settings: CompareSettings) -> ModelScore:
    """Give a model's mean with its interval, and what explains it.

    Raises:
        EvalShapeError: no question has a value.
    """
    interval = score_interval(
        question_means(measured),
        clusters_N=measured.clusters,
        is_accuracy=measured.measure is Measure.ACCURACY,
        answers=len(measured.values_NK[0]),
        confidence=settings.confidence,
        resamples=settings.resamples,
        seed=settings.seed,
    )
    values = [one for values_K in measured.values_NK for one in values_K if one is not None]
    chance = measured.chance
    return ModelScore(
        **interval.model_dump(),
        model=measured.model,
        benchmark=measured.benchmark,
        measure=measured.measure,
        judge=measured.judge,
        seeds=measured.seeds,
        answers=len(measured.values_NK[0]),
        clusters=len(set(measured.clusters)),
        zero_frac=sum(value == 0 for value in values) / len(values),
        invalid_frac=measured.invalid_frac,
        unavailable_frac=measured.unavailable_frac,
        truncated_frac=measured.truncated_frac,
        no_answer_frac=measured.no_answer_frac,
        tokens_mean=measured.tokens_mean,
        chance=chance,
        is_above_chance=None if chance is None else interval.is_above(chance),
        criteria={
            name: float(np.mean(list(z.values())))
            for name, z in criterion_values(measured).items()
            if len(z) >= FEWEST_QUESTIONS
        },
    )


def criterion_values(measured: Measured) -> Mapping[str, Mapping[str, float]]:
    """Z of each criterion by question."""
    found: dict[str, dict[str, float]] = {}
    for question, z_by_name in zip(measured.ids, measured.criteria_z_N, strict=False):
        for name, z in z_by_name.items():
            found.setdefault(name, {})[question] = z
    return found
