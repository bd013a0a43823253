"""Estimates of evaluations as their files hold them; `rubric_judge.statistics` computes them.

A mean, a share, a paired difference, and a model's score on one benchmark, by one judge: its mean,
its interval, and further figures.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Self, Unpack

from pydantic import ConfigDict, Field

from rubric_core.arrays import FloatArray
from rubric_eval.errors import EvalShapeError
from rubric_eval.records.run import Measure, Measured, ModelQuality
from rubric_judge.errors import SampleShapeError
from rubric_judge.statistics import means, shares
from rubric_judge.statistics.bootstrap import IntervalDraws
from rubric_judge.statistics.estimate import TOO_FEW, Estimate, MeanRecord, TooFew


class Interval(MeanRecord):
    """A mean over n questions and its confidence interval."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    no_interval: TooFew | None = Field(
        default_factory=lambda known: TOO_FEW if known.get("ci_low") is None else None,
        repr=False,
    )
    """Reason why there is no interval."""

    @classmethod
    def of(cls, estimate: Estimate, **others: Any) -> Self:
        """Return the record of an estimate.

        Args:
            estimate: an estimate with a number and n.
            others: the other fields of a record that has some.
        """
        return cls(
            mean=estimate.number,
            ci_low=estimate.low,
            ci_high=estimate.high,
            n=estimate.n or 0,
            **others,
        )

    def is_above(self, value: float) -> bool:
        """Return whether the whole interval lies above a value; an unknown one never does."""
        return self.ci_low is not None and self.ci_low > value

    def in_percent(self, *, sign: str = "", unknown: str = TOO_FEW) -> str:
        """Return the limits in per cent as text; `sign` is "+" for differences."""
        if self.ci_low is None or self.ci_high is None:
            return unknown
        return f"{100 * self.ci_low:{sign}.1f} to {100 * self.ci_high:{sign}.1f}"

    def is_below(self, value: float) -> bool:
        """Return whether the whole interval lies below a value; an unknown one never does."""
        return self.ci_high is not None and self.ci_high < value


class Difference(Interval):
    """Mean of a − b over the questions that both were judged on."""

    a: str
    b: str


@contextmanager
def _of_evaluations() -> Generator[None]:
    """Raise what is said of a sample as an error of evaluations."""
    try:
        yield
    except SampleShapeError as error:
        raise EvalShapeError(str(error)) from None


def mean_interval(
    x_N: Sequence[float | None] | FloatArray,
    *,
    clusters_N: Sequence[str] | None = None,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
    least: float = float("-inf"),
) -> Interval:
    """Estimate a mean with the wider of its BCa bootstrap interval and Student's, on each side.

    Args:
        x_N: one finite value per question; None and NaN are missing and are left out.
        clusters_N: document of each question: documents are drawn, with all their questions.
        confidence: nominal coverage, in (0, 1).
        resamples: bootstrap draws.
        seed: seed of the draws; the same input gives the same interval.
        least: lower bound of all values, and so of the limits: 0 for counts. For values in [0, 1]
            use `score_interval`.

    Returns:
        What `rubric_judge.statistics.means.mean_estimate` computes, with formula and source.

    Raises:
        EvalShapeError: not one axis, no value at all, or an infinite one.
    """
    with _of_evaluations():
        estimate = means.mean_estimate(
            x_N,
            clusters_N=clusters_N,
            confidence=confidence,
            resamples=resamples,
            seed=seed,
            least=least,
        )
    return Interval.of(estimate)


def paired_interval(
    a_N: Sequence[float | None] | FloatArray,
    b_N: Sequence[float | None] | FloatArray,
    *,
    clusters_N: Sequence[str] | None = None,
    **draws: Unpack[IntervalDraws],
) -> Interval:
    """Estimate the mean of a − b over the same questions with its BCa bootstrap interval.

    Args:
        a_N: one value per question; None and NaN are missing.
        b_N: the other side, in the same order of questions.
        clusters_N: document of each question: documents are drawn, with all their questions.
        draws: confidence, resamples and seed, as for `mean_interval`.

    Returns:
        `mean_interval` of the differences; a question that either side lacks is left out.

    Raises:
        EvalShapeError: different lengths, no complete pair, or an infinite value.
    """
    with _of_evaluations():
        estimate = means.paired_difference(a_N, b_N, clusters_N=clusters_N, **draws)
    return Interval.of(estimate)


def differences(
    a_N: Sequence[float | None] | FloatArray, b_N: Sequence[float | None] | FloatArray
) -> FloatArray:
    """Return a − b of each question; NaN where a side is missing.

    Raises:
        EvalShapeError: different lengths, or an infinite value.
    """
    with _of_evaluations():
        return means.differences(a_N, b_N)


def wilson_interval(right: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Estimate a share of n with Wilson's modified interval, which has a width even at 0 and n.

    Args:
        right: number of items that count, at most n.
        n: number of items, at least 1.
        confidence: nominal coverage, in (0, 1).

    Reference: see `rubric_judge.statistics.shares.binomial_limits`.
    """
    return Interval.of(shares.share_estimate(right, n, confidence=confidence))


def score_interval(
    means_N: Sequence[float | None] | FloatArray,
    *,
    clusters_N: Sequence[str],
    is_accuracy: bool = False,
    answers: int = 1,
    confidence: float = 0.95,
) -> Interval:
    """Estimate a mean of values in [0, 1] with Wilson's interval, at an effective sample size.

    Args:
        means_N: mean over the answers to each question; None and NaN are missing.
        clusters_N: document of each question.
        is_accuracy: whether an answer is right or wrong, and no reward.
        answers: K, the number of answers to each question; it counts for an accuracy alone.
        confidence: nominal coverage, in (0, 1).

    Returns:
        What `rubric_judge.statistics.shares.bounded_mean` computes, with formula and source;
        unknown for a single question or document, which says nothing of the spread.

    Raises:
        EvalShapeError: no value at all, or one that is not in [0, 1].
    """
    with _of_evaluations():
        estimate = shares.bounded_mean(
            means_N,
            clusters_N=clusters_N,
            is_accuracy=is_accuracy,
            answers=answers,
            confidence=confidence,
        )
    return Interval.of(estimate)


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
