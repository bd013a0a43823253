"""Tests of a paired difference: mean, p-value, limits and detectable difference from one source.

Each test's limits at confidence 1 − α leave out 0 exactly where its p-value is below α. Several
tests at once are corrected for how many they are (`decide`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Unpack

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_judge.errors import SampleShapeError
from rubric_judge.statistics import bootstrap, mcnemar, sign_flip
from rubric_judge.statistics.clusters import cluster_sums
from rubric_judge.statistics.student import Student
from rubric_judge.statistics.untyped import optimize, stats


class Correction(StrEnum):
    """The error rate that is kept below the level over a family of tests."""

    HOLM = "holm"
    """The chance of one false finding or more."""

    BH = "bh"
    """The expected share of false findings among all findings (Benjamini and Hochberg)."""

    NONE = "none"


@dataclass(frozen=True)
class Decision:
    """The decision of one test within its family."""

    p_adjusted: float
    is_significant: bool
    level: float
    """An interval with confidence 1 − level leaves out 0 exactly where the test is significant."""


def decide(
    p_values: Sequence[float], correction: Correction, *, alpha: float = 0.05
) -> list[Decision]:
    """Decide each test of a family.

    Holm steps down from the smallest of m p-values at α/m, α/(m − 1), …, and stops at the first
    that is not below its level; the rest are held to that level. Benjamini and Hochberg find the
    largest k with p_(k) < kα/m; findings are held to kα/m (with such intervals the expected share
    of findings whose interval misses is α at most), the rest to (k + 1)α/m.

    Args:
        p_values: p-values of the family, in any order.
        correction: the error rate to control.
        alpha: level of the family.

    Returns:
        The decisions, in the order of the p-values.

    Raises:
        SampleShapeError: a p-value is not in [0, 1]; as NaN it would be ranked last.

    Reference: Benjamini and Yekutieli, False discovery rate-adjusted multiple confidence intervals
    for selected parameters, JASA 100 (2005), for the intervals.
    """
    p_M = np.asarray(p_values, dtype=np.float64)
    if not ((p_M >= 0) & (p_M <= 1)).all():
        raise SampleShapeError(
            f"p-values must be in [0, 1], got {p_M.tolist()}: leave out a test without one"
        )
    m = p_M.size
    order = np.argsort(p_M, kind="stable")
    ranks = np.arange(m)
    if correction is Correction.HOLM:
        rising = np.maximum.accumulate(p_M[order] * (m - ranks))
        sorted_adjusted = np.minimum(rising, 1.0)
        steps = alpha / (m - ranks)
    elif correction is Correction.BH:
        adjusted = stats.false_discovery_control(p_M) if m else p_M
        sorted_adjusted = np.asarray(adjusted)[order]
        steps = alpha * (ranks + 1) / max(m, 1)
    else:
        sorted_adjusted = p_M[order]
        steps = np.full(m, alpha)
    findings = int(np.sum(sorted_adjusted < alpha))
    decisive = np.full(m, min(findings, m - 1))  # the first that is not a finding
    if correction is Correction.BH:
        decisive[:findings] = findings - 1
    else:
        decisive[:findings] = ranks[:findings]
    levels = steps[decisive]
    by_rank = [
        Decision(
            float(sorted_adjusted[rank]), bool(rank < findings), float(levels[rank])
        )
        for rank in ranks
    ]
    return [by_rank[rank] for rank in np.argsort(order)]


_PRECISION = 1e-4
_SPREADS = 8
"""Standard deviations of the number of items that differ: beyond them lies less than 10⁻¹⁵."""


def mcnemar_power(n: int, delta: float, differ: float, *, alpha: float) -> float:
    """Return the power of McNemar's exact test, over all numbers of items that may differ.

        Σ_m Binomial(m; n, ψ) · P(test of m items rejects | won ~ Binomial(m, (1 + δ/ψ)/2))

    Args:
        n: number of items.
        delta: true difference of the accuracies, δ ≥ 0.
        differ: ψ ≥ δ, the share of items that one side has right and the other wrong.
        alpha: level of the test.
    """
    if differ == 0:
        return 0.0
    binom = stats.binom
    spread = _SPREADS * np.sqrt(n * differ * (1 - differ)) + 1
    lowest = max(0, int(n * differ - spread))
    highest = min(n, int(n * differ + spread))
    m = np.arange(lowest, highest + 1)
    # Largest number lost whose p-value is below α: 2·P(X ≤ lost) < α.
    at_most = np.asarray(binom.ppf(alpha / 2, m, 0.5), dtype=np.float64)
    most = np.where(2 * binom.cdf(at_most, m, 0.5) < alpha, at_most, at_most - 1)
    share = (1 + delta / differ) / 2
    rejects = binom.cdf(most, m, share) + binom.cdf(most, m, 1 - share)
    return float(np.sum(binom.pmf(m, n, differ) * rejects))


def mcnemar_detectable(
    n: int, differ: float, *, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Return the smallest difference of accuracies that McNemar's exact test finds with a power.

    Args:
        n: number of items.
        differ: share of items that one side has right and the other wrong; more where the
            difference itself is larger.
        alpha: level of the test, correction included.
        power: chance that it is found.

    Returns:
        The difference, in (0, 1]; None where not even 1 would be found.
    """

    def missing_power(delta: float) -> float:
        share = min(max(differ, delta), 1.0)
        return power - mcnemar_power(n, delta, share, alpha=alpha)

    if missing_power(1.0) > 0:
        return None
    solve = optimize.brentq
    return float(solve(missing_power, 0.0, 1.0, xtol=_PRECISION))


_DECIMALS = 12
"""Decimals that count: smaller differences are rounding of two means, but would have a sign."""


@dataclass(frozen=True)
class BootstrapTest:
    """BCa bootstrap, Student's t and sign flips of whole documents, for rewards.

    All must reject. Between two runs of one model the signs of the differences are chance, so that
    the flips keep the level for any number of documents, where bootstraps find a little too often;
    and the bootstrap holds for the mean of skewed differences, where signs are not chance.
    """

    drawn: bootstrap.Bootstrap
    flips: sign_flip.SignFlips
    n: int
    student: Student
    name: str = "BCa bootstrap, Student's t and sign flips"

    @property
    def mean(self) -> float:
        """Mean of a − b."""
        return self.drawn.estimate

    @property
    def clusters(self) -> int:
        """Number of documents."""
        return self.drawn.clusters

    @property
    def p_value(self) -> float:
        """Largest p-value of the three: the smallest level at which the limits leave out 0."""
        return max(self.flips.p_value, self.drawn.p_value(), self.student.p_value())

    def limits(self, confidence: float) -> tuple[float, float] | None:
        """Return the wider of BCa and Student's limits; they hold 0 unless the test rejects."""
        limits = self._widest(confidence)
        if limits is None or self.p_value < 1 - confidence:
            return limits
        low, high = limits
        return min(low, 0.0), max(high, 0.0)

    def _widest(self, confidence: float) -> tuple[float, float] | None:
        return self.student.widen(self.drawn.expanded_limits(confidence), confidence)

    def detectable(self, *, alpha: float, power: float) -> float | None:
        """Return the smallest true difference that this test finds with a power.

        If the truth is δ, and the values spread as here, the mean lies above
        δ − (x̄ − Q(1 − power)) with this power; the test finds it if both of its parts do when all
        values are moved there (`_critical`). The wider side counts. Values lie in [0, 1], so that
        no difference is above 1.
        """
        limits = self._widest(1 - alpha)
        if limits is None or self.drawn.is_constant:
            return None
        halves = (self.mean - limits[0], limits[1] - self.mean)
        up, down = self._critical(halves, alpha=alpha)
        short_up = self.mean - self.drawn.quantile(1 - power)
        short_down = self.drawn.quantile(power) - self.mean
        needed = max(up + short_up, down + short_down)
        return needed if needed <= 1 else None

    def _critical(
        self, halves: tuple[float, float], *, alpha: float
    ) -> tuple[float, float]:
        """Return how far above and below 0 the mean must lie for both parts to reject."""
        up, down = self.flips.critical(alpha)
        return max(up, halves[0]), max(down, halves[1])


@dataclass(frozen=True)
class SignFlipTest(BootstrapTest):
    """Sign-flip permutation of whole clusters, for accuracy over several seeds or by document.

    Limits are the bootstrap's. Where the draws reach to 0 the larger p-value of both counts, so
    that they agree.
    """

    name: str = "cluster sign-flip permutation"

    def _widest(self, confidence: float) -> tuple[float, float] | None:
        return self.drawn.expanded_limits(confidence)

    @property
    def p_value(self) -> float:
        """Two-sided p-value."""
        p = self.flips.p_value
        if self._draws_reach_0:
            return max(p, self.drawn.p_value())
        return p

    def limits(self, confidence: float) -> tuple[float, float] | None:
        """Return limits as `BootstrapTest`; McNemar's by cluster where no draw differs.

        All wrong on both sides, or all right on one of them, is no certainty that all others are.
        """
        is_extreme = self.mean in {-1.0, 0.0, 1.0}
        if self.clusters > 1 and self.drawn.is_constant and is_extreme:
            won = self.clusters if self.mean > 0 else 0
            lost = self.clusters if self.mean < 0 else 0
            return McNemarTest(won, lost, self.clusters).limits(confidence)
        return super().limits(confidence)

    @property
    def _draws_reach_0(self) -> bool:
        if self.drawn.draws.size == 0:
            return False
        return self.drawn.draws[0] <= 0 <= self.drawn.draws[-1]

    def _critical(
        self, halves: tuple[float, float], *, alpha: float
    ) -> tuple[float, float]:
        """As `BootstrapTest`, but a half interval counts only as far as the draws reach."""
        mean = self.drawn.estimate
        draws = self.drawn.draws
        half_below = min(halves[0], float(mean - draws[0]))
        half_above = min(halves[1], float(draws[-1] - mean))
        up, down = self.flips.critical(alpha)
        return max(up, half_below), max(down, half_above)


@dataclass(frozen=True)
class McNemarTest:
    """McNemar's exact test, for accuracy with one answer to each item."""

    won: int
    lost: int
    n: int
    name: str = "exact McNemar"

    @property
    def mean(self) -> float:
        """Mean of a − b."""
        return (self.won - self.lost) / self.n

    @property
    def clusters(self) -> int:
        """Number of items, each its own cluster."""
        return self.n

    @property
    def p_value(self) -> float:
        """Two-sided p-value."""
        return mcnemar.mcnemar_p(self.won, self.lost)

    def limits(self, confidence: float) -> tuple[float, float]:
        """Return Tango's score limits; if they contradict the test, Clopper and Pearson's at 0."""
        low, high = mcnemar.tango_limits(
            self.won, self.lost, self.n, confidence=confidence
        )
        rejects = self.p_value < 1 - confidence
        if (low > 0 or high < 0) == rejects:
            return low, high
        exact_low, exact_high = mcnemar.discordant_limits(
            self.won, self.lost, self.n, confidence=confidence
        )
        if self.won > self.lost:
            return exact_low, high
        return low, exact_high

    def detectable(self, *, alpha: float, power: float) -> float | None:
        """Return the smallest difference by the exact power, with as many discordant items."""
        differ = (self.won + self.lost) / self.n
        return mcnemar_detectable(self.n, differ, alpha=alpha, power=power)


PairedTest = BootstrapTest | McNemarTest
"""A test of "the mean of a − b is 0": its mean, n, clusters, two-sided p-value, limits, and the
smallest difference that it finds at a level with a power."""


def reward_test(
    differences_N: FloatArray,
    clusters_N: Sequence[str] | None = None,
    **draws: Unpack[bootstrap.Draws],
) -> BootstrapTest:
    """Test differences of rewards.

    Args:
        differences_N: a − b of each question, its samples and seeds averaged; at least one.
        clusters_N: document of each question.
        draws: settings of the draws of the bootstrap and the flips.
    """
    rounded_N = np.round(differences_N, _DECIMALS)
    sums_C, counts_C = cluster_sums(rounded_N, clusters_N)
    return BootstrapTest(
        bootstrap.bootstrap_mean(rounded_N, clusters_N, **draws),
        sign_flip.SignFlips(sums_C, counts_C, unit=None, draws=draws),
        n=rounded_N.size,
        student=Student.of(rounded_N, clusters_N),
    )


def accuracy_test(
    differences_N: FloatArray,
    clusters_N: Sequence[str] | None = None,
    *,
    answers: int = 1,
    **draws: Unpack[bootstrap.Draws],
) -> McNemarTest | SignFlipTest:
    """Test differences of accuracies: McNemar for one answer an item, sign flips for more.

    Args:
        differences_N: a − b of each item, its answers averaged; at least one.
        clusters_N: document of each item, where several items share one.
        answers: K, the number of answers to each item by each side.
        draws: settings of the draws of the bootstrap and the flips.
    """
    n = differences_N.size
    alone = clusters_N is None or len(set(clusters_N)) == n
    if alone and answers == 1:
        won = int(np.sum(differences_N > 0))
        lost = int(np.sum(differences_N < 0))
        return McNemarTest(won, lost, n)
    rounded_N = np.round(differences_N, _DECIMALS)
    sums_C, counts_C = cluster_sums(differences_N, clusters_N)
    return SignFlipTest(
        bootstrap.bootstrap_mean(rounded_N, clusters_N, **draws),
        sign_flip.SignFlips(sums_C, counts_C, unit=1 / answers, draws=draws),
        n=n,
        student=Student.of(rounded_N, clusters_N),
    )
