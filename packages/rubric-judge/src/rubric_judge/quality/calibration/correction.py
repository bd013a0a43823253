"""Correction of a judge's mean reward by labels of a part of the same answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from rubric_core.arrays import FloatArray
from rubric_core.errors import RewardError, RewardShapeError
from rubric_judge.quality.calibration.record import Calibration, RewardPair
from rubric_judge.quality.reliability.ratings import IntArray
from rubric_judge.statistics.clusters import ClusteredMean
from rubric_judge.statistics.estimate import Estimate
from rubric_judge.statistics.shares import score_limits
from rubric_judge.statistics.student import t_quantile
from rubric_judge.ui.page.tables import Part

FEWEST_DOCUMENTS = 10
"""Fewest labelled documents for an interval; with fewer its coverage would be wrong."""
_NO_VARIANCE = 1e-20
"""Variance of a mean of shares that is no more than rounding."""
_LEAST_WORTH = 1 + 1e-6


class CorrectedMean(Part):
    """A mean reward, corrected by labels."""

    mean: float
    ci_low: float
    ci_high: float
    raw: float
    """The judge's own mean."""
    trust: float
    """λ, 0 to 1: how much the judge is believed; 0 leaves the labels alone."""
    judged: int
    """N, rewards of the population."""
    labelled: int
    """n, labelled answers of it."""
    documents: int
    """Number of documents that the labelled answers come from."""


def corrected_mean(
    judge_N: ArrayLike,
    pairs: Sequence[RewardPair],
    *,
    answers_N: Sequence[str] | None = None,
    documents_N: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> CorrectedMean:
    """Estimate a population's mean label from its judge's rewards and labels of a part of it.

        θ̂ = λ f̄_N + mean_n(Y − λ f),   λ = Cov_n(Y, f) / Var_n(f), within [0, 1]
        Var(θ̂) = (C − 1) / C Σ_c (θ̂_(−c) − θ̂)² + Σ_d (θ̂_(−d) − θ̂)²

    f are the judge's rewards, Y the labels. It is unbiased for any judge, because the n pairs
    are a sample of the N answers: a pair of any other answer is left out, since a judge that errs
    by .2 on one model's answers need not do so on another's. θ̂_(−c) leaves out a document, of C
    with labels and of the others; λ is estimated anew each time. The interval is Wilson's with the
    number of answers that such a variance is worth, θ̂ (1 − θ̂) / Var(θ̂), and Student's t with
    Satterthwaite's degrees of freedom. Pairs count by their weights (Hájek).

    Args:
        judge_N: rewards by the judge, shape [N].
        pairs: labelled answers; those that are among `answers_N`, from at least ten documents.
        answers_N: `hash_answer` of the answer of each reward.
        documents_N: document of each reward; left out, each reward has its own.
        confidence: nominal coverage, in (0, 1).

    Returns:
        The estimate, within [0, 1].

    Raises:
        RewardShapeError: not one axis, or not one document and answer a reward.
        RewardError: it is not said which answers the rewards are of; too few rewards or documents,
            a value not finite, or Y − λ f has no spread.

    Source: arXiv 2311.01453 (PPI++), Eq. (2); λ is its best where the labelled are among the N.
    Source: Efron and Stein, The jackknife estimate of variance, Annals of Statistics 9 (1981).
    """
    if not 0 < confidence < 1:
        raise RewardError(f"confidence must be in (0, 1), not {confidence!r}")
    sample = _Sample.of(judge_N, pairs, answers_N, documents_N)
    trust = sample.trust
    mean = sample.estimate
    residual_D = sample.without_D - mean
    variance = sample.variance_of(residual_D)
    if variance < _NO_VARIANCE or sample.residual_spread < _NO_VARIANCE:
        answers = f"{len(sample.label_n)} labelled responses"
        raise _without_spread(sample.rectifier, answers)
    t = t_quantile(confidence, sample.freedom(variance))
    within = min(max(mean, 0.0), 1.0)
    low, high = score_limits(within, variance, t, least=0.5 / sample.labelled_documents)
    return CorrectedMean(
        mean=within,
        ci_low=low,
        ci_high=high,
        raw=float(sample.judge_N.mean()),
        trust=trust,
        judged=len(sample.judge_N),
        labelled=len(sample.label_n),
        documents=sample.labelled_documents,
    )


def _without_spread(residual: float, answers: str) -> RewardError:
    return RewardError(
        f"label − λ·judge is {residual:+.3f} in every document of {answers}: without a spread no "
        "interval is valid, so label responses on which they differ"
    )


def labelled_population(
    calibration: Calibration, answers: Mapping[str, Iterable[str]]
) -> tuple[RewardPair, ...]:
    """Return the labelled answers of a population, where its labels were drawn from all of it.

    Answers that two models happen to share are no sample of either's: labels of the one are used
    for the other only where its answers to all questions were there when labels were drawn.

    Args:
        calibration: calibration of a judge.
        answers: `hash_answer` of each answer of the population, by task.

    Raises:
        RewardError: the labels were drawn from other answers, or from a part of these.
    """
    if not calibration.answers:
        raise RewardError(
            "the calibration does not say of which answers its labels are, as one of an "
            "older version: make it anew with `rubric-judge calibrate`"
        )
    drawn_from = set(calibration.answers)
    known = {
        task for task, hashes in answers.items() if drawn_from.intersection(hashes)
    }
    if len(known) < len(answers):
        raise RewardError(
            "the calibration's labels were drawn from other answers: among them is one of "
            f"these to {len(known)} of {len(answers)} questions, and a correction holds for "
            "the answers alone that labels were drawn from"
        )
    own = {hash_ for hashes in answers.values() for hash_ in hashes}
    return tuple(pair for pair in calibration.reward.pairs if pair.answer in own)


class PopulationCheck(Part):
    """Test of whether a judge errs on some answers as it does on the labelled ones."""

    transfers: bool
    """Whether no difference is shown. Only labels of the answers permit a correction."""
    reason: str
    """Why, in one sentence with its figures."""
    difference: Estimate | None = None
    """Mean of label − λ·judge among the probes, less that of the pairs; None without probes."""
    probes: int = 0


def check_population(
    judge_N: ArrayLike,
    pairs: Sequence[RewardPair],
    probes: Sequence[RewardPair] = (),
    *,
    confidence: float = 0.95,
) -> PopulationCheck:
    """Tell whether a judge errs differently on other answers than on the labelled ones.

    Welch's interval of the difference of mean residuals Y − λ f, over documents, with λ of the
    pairs. Without probes it says no: rewards that look alike show nothing of the errors in them.

    Args:
        judge_N: rewards of the other answers by the judge.
        pairs: labelled answers.
        probes: a few labelled ones of the other answers.
        confidence: confidence of the interval, in (0, 1).

    Raises:
        RewardError: pairs or probes of fewer than two documents, or without a spread.

    Source: Welch, The generalization of "Student's" problem, Biometrika 34 (1947).
    """
    here_mean = np.asarray(judge_N, dtype=np.float64).mean()
    means = (
        f"mean reward {here_mean:.3f} here, {_mean_reward(pairs):.3f} where labelled"
    )
    if not probes:
        reason = f"no label of these answers shows how the judge errs on them; {means}"
        return PopulationCheck(transfers=False, reason=reason)
    trust = _slope(pairs)
    there = _residuals(pairs, trust)
    here = _residuals(probes, trust)
    for mean, answers in (
        (there, f"{len(pairs)} labelled responses"),
        (here, f"{len(probes)} probes"),
    ):
        if not mean.variance > _NO_VARIANCE:
            raise _without_spread(mean.mean, answers)
    total = here.variance + there.variance
    parts = sum(mean.variance**2 / mean.freedom for mean in (here, there))
    t = t_quantile(confidence, total**2 / parts)
    value = here.mean - there.mean
    half = t * math.sqrt(total)
    difference = Estimate(
        value=value, low=value - half, high=value + half, unit="document"
    )
    is_alike = value - half <= 0 <= value + half
    finding = "is no difference shown" if is_alike else "leaves out 0"
    reason = (
        f"label − {trust:.2f}·judge differs by {value:+.3f} [{value - half:+.3f}, "
        f"{value + half:+.3f}] between {len(probes)} labels of these answers and {len(pairs)} of "
        f"others, which {finding}; {means}"
    )
    return PopulationCheck(
        transfers=is_alike, reason=reason, difference=difference, probes=len(probes)
    )


def errors_elsewhere(
    judge_N: Sequence[float], others: Sequence[RewardPair], own: Sequence[RewardPair]
) -> str:
    """Say whether a judge errs on a model's answers as on others; "" without a label of others.

    Args:
        judge_N: rewards of the model's answers by the judge.
        others: labelled answers of other models.
        own: labelled answers of the model.
    """
    if not others:
        return ""
    try:
        return check_population(judge_N, others, own).reason
    except RewardError as error:
        return str(error)


def _slope(pairs: Sequence[RewardPair]) -> float:
    """Return λ of labelled answers."""
    if not np.ptp([pair.judge for pair in pairs]):
        return 0.0
    both = np.cov(
        [pair.label for pair in pairs],
        [pair.judge for pair in pairs],
        bias=True,
        aweights=[pair.weight for pair in pairs],
    )
    return float(np.clip(both[0, 1] / both[1, 1], 0.0, 1.0))


def _residuals(pairs: Sequence[RewardPair], trust: float) -> ClusteredMean:
    """Return the mean of Y − λ f, over documents."""
    _, place = np.unique([pair.document for pair in pairs], return_inverse=True)
    weights = np.array([pair.weight for pair in pairs])
    residuals = np.array([pair.label - trust * pair.judge for pair in pairs])
    sums_C = np.bincount(place, weights * residuals).astype(np.float64)
    return ClusteredMean.of(sums_C, np.bincount(place, weights).astype(np.float64))


def _mean_reward(pairs: Sequence[RewardPair]) -> float:
    rewards = [pair.judge for pair in pairs]
    weights = [pair.weight for pair in pairs]
    return float(np.average(rewards, weights=weights))


@dataclass(frozen=True)
class _Sample:
    """Rewards of the population and its labelled part; documents are numbered from 0."""

    judge_N: FloatArray
    document_N: IntArray
    judge_n: FloatArray
    label_n: FloatArray
    document_n: IntArray
    weights_n: FloatArray
    """Weights, the greatest of which is 1."""

    @classmethod
    def of(
        cls,
        judge_N: ArrayLike,
        pairs: Sequence[RewardPair],
        answers_N: Sequence[str] | None,
        documents_N: Sequence[str] | None,
    ) -> _Sample:
        """Read and check the rewards and pairs."""
        rewards_N = np.asarray(judge_N, dtype=np.float64)
        if rewards_N.ndim != 1:
            raise RewardShapeError(
                f"judge_N has shape {rewards_N.shape!r}; give one reward each"
            )
        if answers_N is None:
            raise RewardError(
                "it is not said which answers the rewards are of (answers_N): labels correct "
                "the mean of the answers alone that they were drawn from"
            )
        for name, names_N in (("answers", answers_N), ("documents", documents_N)):
            if names_N is not None and len(names_N) != len(rewards_N):
                raise RewardShapeError(
                    f"{len(names_N)} {name} for {len(rewards_N)} rewards"
                )
        documents = answers_N if documents_N is None else documents_N
        names, document_N = np.unique(np.asarray(documents), return_inverse=True)
        place = dict(zip(answers_N, document_N.tolist(), strict=True))
        own = [pair for pair in pairs if pair.answer in place]
        weights_n = np.array([pair.weight for pair in own])
        sample = cls(
            judge_N=rewards_N,
            document_N=document_N,
            judge_n=np.array([pair.judge for pair in own]),
            label_n=np.array([pair.label for pair in own]),
            document_n=np.array([place[pair.answer] for pair in own], dtype=np.intp),
            weights_n=weights_n / max((pair.weight for pair in own), default=1),
        )
        values = np.concatenate([sample.judge_N, sample.judge_n, sample.label_n])
        if not np.isfinite(values).all():
            missing = int((~np.isfinite(values)).sum())
            raise RewardError(
                f"{missing} rewards are not finite: leave out what has none"
            )
        if len(names) < 2:  # noqa: PLR2004  # one has no spread
            raise RewardError(
                f"{len(names)} document(s) with a reward: a spread needs two"
            )
        documents = sample.labelled_documents
        if documents < FEWEST_DOCUMENTS:
            raise RewardError(
                f"{len(own)} labelled responses of {documents} documents: a correction with a "
                f"valid interval needs labels from {FEWEST_DOCUMENTS} documents or more: "
                f"label {FEWEST_DOCUMENTS - documents} more"
            )
        worth = float(sample.weights_n.sum() ** 2 / (sample.weights_n**2).sum())
        if worth < _LEAST_WORTH:
            raise RewardError(
                f"by their weights, {len(own)} labelled responses are worth no more than one: "
                "a spread needs two"
            )
        return sample

    @property
    def labelled_documents(self) -> int:
        """Number of documents that labelled answers come from."""
        return len(np.unique(self.document_n))

    def _by_document(self, values_n: FloatArray | float) -> FloatArray:
        """Sum the labelled answers' values by document, weighed."""
        weighed_n = self.weights_n * values_n
        sums_D = np.bincount(self.document_n, weighed_n, int(self.document_N.max()) + 1)
        return sums_D.astype(np.float64)

    @cached_property
    def _moments(self) -> FloatArray:
        """Sums by document: weight, f, Y, f² and f Y of labelled answers, number and f of all."""
        # Centred, so that a variance is no difference of large numbers.
        f_n = self.judge_n - self._centre[0]
        label_n = self.label_n - self._centre[1]
        factors = (1.0, f_n, label_n, f_n**2, f_n * label_n)
        sums_by_factor = [self._by_document(factor) for factor in factors]
        counts_D = np.bincount(self.document_N).astype(np.float64)
        centred_N = self.judge_N - self._centre[0]
        sums_D = np.bincount(self.document_N, centred_N).astype(np.float64)
        return np.stack([*sums_by_factor, counts_D, sums_D])

    @cached_property
    def _centre(self) -> tuple[float, float]:
        f = np.average(self.judge_n, weights=self.weights_n)
        label = np.average(self.label_n, weights=self.weights_n)
        return float(f), float(label)

    def _solved(self, moments: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return λ and θ̂ of summed moments, whose axes after the first are kept."""
        w, f, y, ff, fy, count, sum_N = moments
        # Leaving out the only labelled answers, or all answers, gives nan.
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = ff / w - (f / w) ** 2
            slope = (fy / w - f * y / w**2) / spread
            trust = np.where(spread > _NO_VARIANCE, np.clip(slope, 0.0, 1.0), 0.0)
            estimate = self._centre[1] + trust * sum_N / count + y / w - trust * f / w
        return trust, estimate

    @property
    def trust(self) -> float:
        """λ."""
        return float(self._solved(self._moments.sum(axis=1))[0])

    @property
    def estimate(self) -> float:
        """θ̂."""
        return float(self._solved(self._moments.sum(axis=1))[1])

    @property
    def without_D(self) -> FloatArray:
        """θ̂ without each document."""
        moments = self._moments
        rest = moments.sum(axis=1, keepdims=True) - moments
        return self._solved(rest)[1]

    @property
    def _residual_n(self) -> FloatArray:
        return self.label_n - self.trust * self.judge_n

    @property
    def rectifier(self) -> float:
        """Mean of Y − λ f."""
        return float(np.average(self._residual_n, weights=self.weights_n))

    @property
    def residual_spread(self) -> float:
        """Variance of the rectifier for a known λ."""
        residual_D = self._by_document(self._residual_n)
        return ClusteredMean.of(residual_D, self._by_document(1.0)).variance

    def variance_of(self, moved_D: FloatArray) -> float:
        """Return Var(θ̂) from the change of θ̂ without each document."""
        is_labelled_D = self._moments[0] > 0
        labelled = int(is_labelled_D.sum())
        squares = float((moved_D[is_labelled_D] ** 2).sum())
        squares = squares * (labelled - 1) / labelled
        variance = squares + float((moved_D[~is_labelled_D] ** 2).sum())
        # Documents alike by chance must not give less variance than independent answers.
        alone = ClusteredMean.of(self.weights_n * self._residual_n, self.weights_n)
        variance = max(variance, alone.variance)
        if not math.isfinite(variance):
            of = f"{len(self.label_n)} labelled responses"
            raise RewardError(
                f"{of} give no finite correction: look at their rewards and weights"
            )
        return variance

    def freedom(self, variance: float) -> float:
        """Degrees of freedom of Var(θ̂): of the judged mean and of the labels, by Satterthwaite.

        λ takes one from the labelled documents.
        """
        weight_D, *_, count_D, sum_D = self._moments
        judged = ClusteredMean.of(sum_D, count_D).times(self.trust)
        labels = ClusteredMean.of(weight_D, weight_D)
        of_labels = max(variance - judged.variance, 0.0)
        parts = (judged.variance, judged.freedom), (of_labels, labels.freedom - 1)
        total = sum(part for part, _ in parts)
        denominator = sum(part**2 / max(df, 1.0) for part, df in parts)
        return max(total**2 / denominator, 1.0)
