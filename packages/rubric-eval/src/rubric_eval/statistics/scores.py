"""A model's score on one benchmark, by one judge: its mean, the interval, and what explains it."""

from collections.abc import Mapping
from statistics import fmean
from typing import Final

from rubric_eval.records.run import Measure, Measured, ModelQuality
from rubric_eval.statistics.intervals import Interval, score_interval

FEWEST_QUESTIONS: Final = 5
"""That a criterion or field needs to be shown by itself."""


class ModelScore(Interval, ModelQuality):
    """One model on one benchmark, by one judge."""

    score_10: float
    """The mean on the scale of the paper's judge figure, 0 to 10."""

    answers: int
    """Given to each question, K."""

    values: int
    """Answers that could be measured; those of a question are averaged first."""

    clusters: int
    """Documents."""

    zero_frac: float
    """Share of value 0 among the answers that could be measured, invalid judgements included."""

    is_above_chance: bool | None
    """Whether the whole interval is, so that a gain may be more than format; None where guessing
    has no accuracy."""

    criteria: dict[str, float]
    """Mean z by criterion, of those that enough questions ask."""


def score(measured: Measured, *, confidence: float = 0.95) -> ModelScore:
    """Give a model's mean with its interval, and what explains it.

    Args:
        measured: all its values.
        confidence: nominal coverage, in (0, 1).

    Raises:
        EvalShapeError: no question has a value.
    """
    interval = score_interval(
        measured.means_N,
        clusters_N=measured.clusters,
        is_accuracy=measured.measure is Measure.ACCURACY,
        answers=measured.answers,
        confidence=confidence,
    )
    values = [
        value
        for values_K in measured.values_NK
        for value in values_K
        if value is not None
    ]
    chance = measured.chance
    return ModelScore(
        **interval.model_dump(),
        **measured.model_dump(include=set(ModelQuality.model_fields)),
        score_10=10 * interval.mean,
        answers=measured.answers,
        values=len(values),
        clusters=len(
            {
                document
                for document, mean in zip(
                    measured.clusters, measured.means_N, strict=True
                )
                if mean is not None
            }
        ),
        zero_frac=values.count(0.0) / len(values),
        is_above_chance=None if chance is None else interval.is_above(chance),
        criteria={
            name: fmean(z.values())
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
