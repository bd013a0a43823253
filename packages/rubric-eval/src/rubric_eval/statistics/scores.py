"""A model's score on one benchmark, by one judge: its mean, its interval, and further figures."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from rubric_eval.records.run import Measure, Measured, ModelQuality
from rubric_eval.statistics.intervals import Interval, score_interval

FEWEST_QUESTIONS = 5
"""Least number of questions for a criterion or field to be shown by itself."""


class ModelScore(Interval, ModelQuality):
    """One model on one benchmark, by one judge."""

    score_10: float
    """The mean on the scale of the paper's judge figure, 0 to 10."""

    answers: int
    """Number of answers to each question, K."""

    values: int
    """Number of answers that could be measured; those of a question are averaged first."""

    clusters: int
    """Number of documents."""

    zero_frac: float
    """Share of value 0 among the answers that could be measured, invalid judgements included."""

    is_above_chance: bool | None
    """Whether the whole interval is above chance, so that a gain may be more than format; None
    where guessing has no accuracy."""

    criteria: dict[str, float]
    """Mean z by criterion, for criteria of enough questions."""


def score(measured: Measured, *, confidence: float = 0.95) -> ModelScore:
    """Return a model's mean with its interval and further figures.

    Args:
        measured: all values of the model.
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
    means = zip(measured.clusters, measured.means_N, strict=True)
    documents = {document for document, mean in means if mean is not None}
    criteria = {
        name: fmean(z.values())
        for name, z in criterion_values(measured).items()
        if len(z) >= FEWEST_QUESTIONS
    }
    is_above_chance = None
    if measured.chance is not None:
        is_above_chance = interval.is_above(measured.chance)
    return ModelScore(
        **interval.model_dump(),
        **measured.model_dump(include=set(ModelQuality.model_fields)),
        score_10=10 * interval.mean,
        answers=measured.answers,
        values=len(values),
        clusters=len(documents),
        zero_frac=values.count(0.0) / len(values),
        is_above_chance=is_above_chance,
        criteria=criteria,
    )


def criterion_values(measured: Measured) -> Mapping[str, Mapping[str, float]]:
    """Return z by question of each criterion."""
    values: dict[str, dict[str, float]] = {}
    for question, z_by_name in zip(measured.ids, measured.criteria_z_N, strict=False):
        for name, z in z_by_name.items():
            values.setdefault(name, {})[question] = z
    return values


@dataclass(frozen=True)
class CriterionMeans:
    """Mean z of one criterion, model by model."""

    name: str
    means: tuple[float | None, ...]
    """In the order of the models; None for one that was not asked for it."""

    questions: int
    """Number of questions that have it."""


def criterion_means(models: Iterable[Measured]) -> tuple[CriterionMeans, ...]:
    """Return the means of every criterion, those of most questions first."""
    values = [criterion_values(model) for model in models]
    questions: Counter[str] = Counter()
    for of_model in values:
        questions |= Counter({name: len(z) for name, z in of_model.items()})
    criteria: list[CriterionMeans] = []
    for name, count in questions.most_common():
        means: list[float | None] = []
        for of_model in values:
            z = of_model.get(name, {}).values()
            means.append(sum(z) / len(z) if z else None)
        criteria.append(CriterionMeans(name, tuple(means), count))
    return tuple(criteria)
