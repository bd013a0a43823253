"""A judge's mean reward, corrected by the responses that have labels, and where that is valid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from rubric_core.arrays import FloatArray
from rubric_core.errors import RewardError, RewardShapeError
from rubric_judge.calibration.record import RewardPair
from rubric_judge.errors import says
from rubric_judge.estimates import ClusteredMean, Estimate
from rubric_judge.page.tables import Part

FEWEST_DOCUMENTS: Final = 10
"""From fewer labelled documents no interval is given: it would not hold what it says."""
LEAST_OVERLAP: Final = 0.5
"""At least this part of two distributions of rewards has to be common to both."""
MOST_UNCOVERED: Final = 0.05
"""At most this share of rewards may lie where there is no label within a tenth."""
_TENTHS: Final = 10
_NEAR: Final = 0.1
_NO_VARIANCE: Final = 1e-20
"""Of a mean of shares: what rounding leaves of none."""
_LEAST_WORTH: Final = 1 + 1e-6

Tuning: TypeAlias = Literal["regression", "power"]
"""How much the judge is believed: `regression` for any population, `power` for that alone which the
labelled responses are a sample of."""


class CorrectedMean(Part):
    """A mean reward as the labels would have it."""

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
    """n, labelled responses."""
    documents: int
    """That the labelled responses come from."""


class PopulationCheck(Part):
    """Whether a calibration is valid for a population of responses."""

    transfers: bool
    reason: str
    """Why, in one sentence with its figures."""
    overlap: float
    """Common part of the judge's rewards here and where there are labels, 0 to 1, by tenths."""
    uncovered_frac: float
    """Share of rewards without a labelled one within a tenth."""
    difference: Estimate | None = None
    """Mean of label − λ·judge among the probes, less that of the pairs; None without probes."""
    probes: int = 0


def corrected_mean(
    judge_N: ArrayLike,
    pairs: Sequence[RewardPair],
    *,
    tuning: Tuning = "regression",
    documents_N: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> CorrectedMean:
    """Estimate a population's mean label from its judge's rewards and some labelled responses.

        θ̂ = λ f̄_N + mean_n(Y − λ f)
        se² = λ² Var(f̄_N) + Var(mean_n(Y − λ f))          and (f̄_N − f̄_n)² Var(λ) of a slope
        λ = Cov_n(Y, f) / Var_n(f)                        "regression"
        λ = Cov_n(Y, f) / ((1 + n/N) Var_{n+N}(f))        "power"

    f are the judge's rewards, Y the labels; λ is kept within [0, 1], and 0 leaves the labels alone.
    A mean's variance is over documents, and the interval takes Student's t with Welch's degrees of
    freedom, for labels are few. Pairs count by their weights (Hájek); n is (Σ w)² / Σ w² (Kish).

    It is valid where Y − λ f has the same mean as among the labelled responses: ask
    `check_population`. "power" has the least variance where both are samples of one population,
    and draws every other population towards the labelled one (λ goes to 0 as n/N grows), so it must
    not compare models. "regression" is its limit for many judged responses: the residual is then
    uncorrelated with f, and another distribution of f alone leaves the estimate right, as far as Y
    is linear in f.

    Args:
        judge_N: rewards by the judge, shape [N].
        pairs: labelled responses, from at least ten documents.
        tuning: which λ.
        documents_N: document of each reward; each is one of its own where this is left out.
        confidence: nominal coverage, in (0, 1).

    Returns:
        The estimate; not clipped to [0, 1].

    Raises:
        RewardShapeError: not one axis, or not one document a reward.
        RewardError: too few rewards or documents, a value not finite, or Y − λ f has no spread.

    Source: arXiv 2311.01453 (PPI++), Example 6.1 and Eq. (9): mean estimation with power tuning.
    """
    if not 0 < confidence < 1:
        raise RewardError(f"confidence must be in (0, 1), not {confidence!r}")
    sample = _Sample.of(judge_N, pairs, documents_N)
    trust = sample.trust(tuning)
    judged = _clustered_mean(sample.judge_N, sample.documents_N)
    rectifier = sample.rectifier(trust, tuning=tuning, at=judged.mean)
    _require_spread(rectifier, f"{len(pairs)} labelled responses")
    low, high = _limits(judged.times(trust), rectifier, confidence=confidence)
    return CorrectedMean(
        mean=trust * judged.mean + rectifier.mean,
        ci_low=low,
        ci_high=high,
        raw=judged.mean,
        trust=trust,
        judged=len(sample.judge_N),
        labelled=len(pairs),
        documents=rectifier.clusters,
    )


def check_population(
    judge_N: ArrayLike,
    pairs: Sequence[RewardPair],
    probes: Sequence[RewardPair] | None = None,
    *,
    tuning: Tuning = "regression",
    confidence: float = 0.95,
) -> PopulationCheck:
    """Tell whether labelled responses can correct a judge on another population.

    With probes, labelled responses of that population, Welch's interval of the difference of mean
    residuals Y − λ f must hold 0, with λ as `corrected_mean` takes it. Without, the judge's rewards
    must overlap with those that are labelled; that is less: a policy may win the judge's favour at
    every reward.

    Args:
        judge_N: rewards of the population by the judge, shape [N].
        pairs: labelled responses that the correction is made of.
        probes: a few labelled responses of the population itself, from at least two documents.
        tuning: which λ.
        confidence: of the interval of the difference, in (0, 1).

    Raises:
        RewardShapeError, RewardError: as `corrected_mean`; too few probes, or without a spread.

    Source: Welch, The generalization of "Student's" problem, Biometrika 34 (1947).
    """
    sample = _Sample.of(judge_N, pairs, None)
    by_overlap = _overlap_check(sample)
    if probes is None:
        return by_overlap
    trust = sample.trust(tuning)
    probed = _Sample.of(judge_N, probes, None, fewest=2)
    there = sample.rectifier(trust, tuning=tuning, at=probed.mean(probed.judge_n))
    here = _clustered_mean(probed.residual_n(trust), probed.documents_n, probed.weights_n)
    _require_spread(there, f"{len(pairs)} labelled responses of the calibration")
    _require_spread(here, f"{len(probes)} probes")
    low, high = _limits(here, there.times(-1), confidence=confidence)
    difference = here.mean - there.mean
    transfers = low <= 0 <= high
    reason = (
        f"label − {trust:.2f}·judge differs by {difference:+.3f} [{low:+.3f}, {high:+.3f}] between "
        f"{len(probes)} probes of this population and {len(pairs)} labelled responses of the "
        f"calibration, which {'is no difference shown' if transfers else 'leaves out 0'}"
    )
    found = {
        "transfers": transfers,
        "reason": reason,
        "difference": Estimate(value=difference, low=low, high=high, unit="document"),
        "probes": len(probes),
    }
    return by_overlap.model_copy(update=found)


def _overlap_check(sample: _Sample) -> PopulationCheck:
    """Whether the judge's rewards lie where there are labels."""
    overlap, uncovered = _overlap(sample.judge_N, sample.judge_n, sample.weights_n)
    reason = (
        f"{overlap:.0%} of the judge's rewards overlap with those of labelled responses (at least "
        f"{LEAST_OVERLAP:.0%} must), and {uncovered:.0%} have no label within a tenth (at most "
        f"{MOST_UNCOVERED:.0%} may have none); mean {sample.judge_N.mean():.3f} here, "
        f"{sample.mean(sample.judge_n):.3f} where labelled"
    )
    return PopulationCheck(
        transfers=overlap >= LEAST_OVERLAP and uncovered <= MOST_UNCOVERED,
        reason=reason,
        overlap=overlap,
        uncovered_frac=uncovered,
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """Rewards of the population, and the labelled ones."""

    judge_N: FloatArray
    documents_N: Sequence[str]
    judge_n: FloatArray
    label_n: FloatArray
    documents_n: Sequence[str]
    weights_n: FloatArray
    """Of the labelled ones, the greatest 1."""

    @classmethod
    def of(
        cls,
        judge_N: ArrayLike,
        pairs: Sequence[RewardPair],
        documents_N: Sequence[str] | None,
        *,
        fewest: int = FEWEST_DOCUMENTS,
    ) -> _Sample:
        """Read and check them."""
        rewards_N = np.asarray(judge_N, dtype=np.float64)
        if rewards_N.ndim != 1:
            raise RewardShapeError(f"judge_N has shape {rewards_N.shape!r}; give one reward each")
        own_N = tuple(map(str, range(len(rewards_N)))) if documents_N is None else documents_N
        if len(own_N) != len(rewards_N):
            raise RewardShapeError(f"{len(own_N)} documents for {len(rewards_N)} rewards")
        sample = cls(
            rewards_N,
            own_N,
            np.array([pair.judge for pair in pairs]),
            np.array([pair.label for pair in pairs]),
            tuple(pair.document for pair in pairs),
            np.array([pair.weight for pair in pairs])
            / max((one.weight for one in pairs), default=1),
        )
        values = np.concatenate([sample.judge_N, sample.judge_n, sample.label_n])
        if not np.isfinite(values).all():
            missing = int((~np.isfinite(values)).sum())
            raise RewardError(f"{missing} rewards are not finite: leave out what has none")
        if len(set(own_N)) < 2:  # noqa: PLR2004  # one has no spread
            raise RewardError(f"{len(set(own_N))} document(s) with a reward: a spread needs two")
        if (found := len(set(sample.documents_n))) < fewest:
            counts = {"found": found, "fewest": fewest, "more": fewest - found}
            raise RewardError(says("few_documents", labelled=len(pairs), **counts))
        if sample.worth < _LEAST_WORTH:
            raise RewardError(says("worth_one", labelled=len(pairs)))
        return sample

    @property
    def worth(self) -> float:
        """Equally weighed responses that the labelled ones are worth."""
        return float(self.weights_n.sum() ** 2 / (self.weights_n**2).sum())

    def trust(self, tuning: Tuning) -> float:
        """λ."""
        worth = self.worth
        values, weights = self.judge_n, self.weights_n
        if tuning == "power":
            values = np.concatenate([self.judge_n, self.judge_N])
            scaled_n = self.weights_n * worth / self.weights_n.sum()
            weights = np.concatenate([scaled_n, np.ones(len(self.judge_N))])
        spread = _variance(values, weights)
        if tuning == "power":
            spread *= 1 + worth / len(self.judge_N)
        if spread == 0:
            return 0.0
        weights_n = None if (self.weights_n == 1).all() else self.weights_n
        both = np.cov(self.label_n, self.judge_n, aweights=weights_n)
        return float(np.clip(both[0, 1] / spread, 0.0, 1.0))

    def mean(self, values_n: FloatArray) -> float:
        """Return the mean over the labelled ones, by their weights."""
        return float(np.average(values_n, weights=self.weights_n))

    def residual_n(self, trust: float) -> FloatArray:
        """Y − λ f."""
        return self.label_n - trust * self.judge_n

    def rectifier(self, trust: float, *, tuning: Tuning, at: float) -> ClusteredMean:
        """Mean of Y − λ f, with the variance that it has in an estimate at a mean reward f̄.

        A slope that was estimated from the same labels adds (f̄ − f̄_n)² Var(λ): each residual
        weighs 1 + (f̄ − f̄_n)(f − f̄_n)/s² there (the delta method).
        """
        residual_n = self.residual_n(trust)
        found = _clustered_mean(residual_n, self.documents_n, self.weights_n)
        if tuning == "power" or trust in {0.0, 1.0}:
            return found
        offset_n = self.judge_n - self.mean(self.judge_n)
        lever_n = 1 + (at - self.mean(self.judge_n)) * offset_n / self.mean(offset_n**2)
        centred_n = (residual_n - found.mean) * lever_n
        spread = _clustered_mean(centred_n, self.documents_n, self.weights_n)
        return replace(spread, mean=found.mean)


def _variance(values: FloatArray, weights: FloatArray) -> float:
    """Of single values, with n − 1."""
    if (weights == 1).all():
        return float(np.var(values, ddof=1))
    return float(np.cov(values, aweights=weights))


def _clustered_mean(
    values: FloatArray, clusters: Sequence[str], weights: FloatArray | None = None
) -> ClusteredMean:
    _, place = np.unique(np.asarray(clusters), return_inverse=True)
    weights = np.ones(len(values)) if weights is None else weights
    centre = float(np.average(values, weights=weights))
    sums_C = np.bincount(place, weights=weights * (values - centre)).astype(np.float64)
    found = ClusteredMean.of(sums_C, np.bincount(place, weights=weights).astype(np.float64))
    return replace(found, mean=centre)


def _require_spread(residuals: ClusteredMean, of: str) -> None:
    """Refuse residuals that are equal in every document: their interval would have no width."""
    if not math.isfinite(residuals.mean) or not math.isfinite(residuals.variance):
        raise RewardError(f"{of} give no finite correction: look at their rewards and weights")
    if residuals.variance <= _NO_VARIANCE:
        raise RewardError(says("no_spread", mean=residuals.mean, of=of))


def _limits(a: ClusteredMean, b: ClusteredMean, *, confidence: float) -> tuple[float, float]:
    """Limits of the sum of two independent means, by Welch's t."""
    variance = a.variance + b.variance
    estimate = a.mean + b.mean
    if variance == 0:
        return estimate, estimate
    parts = sum(one.variance**2 / (one.clusters - 1) for one in (a, b))
    t = float(cast("Any", stats).t.ppf((1 + confidence) / 2, variance**2 / parts))
    half = t * variance**0.5
    return estimate - half, estimate + half


def _overlap(here: FloatArray, there: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Common part of two distributions by tenths, and the share of the first far off the second.

    Of the second, each value counts by its weight.
    """
    edges = np.linspace(0, 1, _TENTHS + 1)[1:-1]
    parts = [
        np.bincount(np.searchsorted(edges, one, side="right"), each, _TENTHS) / each.sum()
        for one, each in ((here, np.ones(len(here))), (there, weights))
    ]
    known = np.unique(there)
    right = np.clip(np.searchsorted(known, here), 0, len(known) - 1)
    nearest = np.minimum(
        np.abs(here - known[right]), np.abs(here - known[np.maximum(right - 1, 0)])
    )
    return float(np.minimum(*parts).sum()), float((nearest > _NEAR + 1e-9).mean())
