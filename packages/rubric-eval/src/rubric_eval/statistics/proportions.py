"""Right or wrong, once an item: Wilson's interval, exact McNemar, Tango's interval of a difference.

McNemar's test looks at the items that one model has right and the other wrong: won and lost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import optimize, stats

from rubric_eval.statistics.intervals import Interval, mean_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.statistics.intervals import FloatArray


def wilson_interval(right: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Estimate a share of n with Wilson's score interval, which is no point at 0 or n either.

    Args:
        right: items that count, at most n.
        n: items, at least 1.
        confidence: nominal coverage, in (0, 1).
    """
    found = cast("Any", stats).binomtest(right, n).proportion_ci(confidence, method="wilson")
    return Interval(mean=right / n, ci_low=float(found.low), ci_high=float(found.high), n=n)


def mcnemar_p(won: int, lost: int) -> float:
    """p-value of McNemar's exact test: won ~ Binomial(won + lost, ½), two-sided."""
    if won + lost == 0:
        return 1.0
    return float(cast("Any", stats).binomtest(won, won + lost).pvalue)


def discordant_limits(won: int, lost: int, n: int, *, confidence: float) -> tuple[float, float]:
    """Limits of (won − lost) / n that go with McNemar's exact test at every level.

    Clopper and Pearson's limits of won / (won + lost), with as many items that differ as were
    seen. They leave out 0 exactly where the test rejects, but are too narrow for a large difference
    because the number of items that differ is taken as known.
    """
    differ = won + lost
    if differ == 0:
        return 0.0, 0.0
    share = cast("Any", stats).binomtest(won, differ).proportion_ci(confidence, method="exact")
    return (2 * float(share.low) - 1) * differ / n, (2 * float(share.high) - 1) * differ / n


def score_limits(won: int, lost: int, n: int, *, confidence: float) -> tuple[float, float]:
    """Tango's score limits of the difference of two paired proportions.

        z(δ) = (won − lost − nδ) / √(n (2q̃ + δ(1 − δ))) = ±Φ⁻¹((1 + confidence)/2)

    q̃ is the maximum-likelihood share of lost items if the difference is δ. At δ = 0 this is
    McNemar's statistic. The limits hold the difference at the nominal rate also where few items
    differ.

    Reference: Tango, Equivalence test and confidence interval for the difference in proportions
    for the paired-sample design, Statistics in Medicine 17 (1998).
    """
    z = float(cast("Any", stats).norm.ppf((1 + confidence) / 2))
    found = (won - lost) / n
    if won == lost == 0:  # the equation holds at 0 too, where nothing spreads
        return -(z**2) / (n + z**2), z**2 / (n + z**2)

    def excess(delta: float, side: float) -> float:
        return won - lost - n * delta - side * z * _score_spread(won, lost, n, delta)

    solve = cast("Any", optimize).brentq
    low = -1.0 if lost == n else float(solve(excess, -1.0, found, args=(1.0,)))
    high = 1.0 if won == n else float(solve(excess, found, 1.0, args=(-1.0,)))
    return low, high


def _score_spread(won: int, lost: int, n: int, delta: float) -> float:
    linear = -(won + lost) + (2 * n - won + lost) * delta
    constant = -lost * delta * (1 - delta)
    lost_share = (math.sqrt(max(linear**2 - 8 * n * constant, 0.0)) - linear) / (4 * n)
    lost_share = min(max(lost_share, 0.0, -delta), 1.0)
    return math.sqrt(max(n * (2 * lost_share + delta * (1 - delta)), 0.0))


def score_interval(  # noqa: PLR0913  # all but the values by name
    means_N: Sequence[float | None] | FloatArray,
    *,
    clusters_N: Sequence[str],
    is_accuracy: bool,
    answers: int,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Interval:
    """Estimate a score: Wilson's interval for one answer an item, else the BCa bootstrap.

    Args:
        means_N: of each question, its answers averaged; None and NaN are missing.
        clusters_N: document of each question.
        is_accuracy: whether an answer is right or wrong, and no reward.
        answers: K, given to each question.
        confidence: nominal coverage, in (0, 1).
        resamples: bootstrap draws.
        seed: of the draws.

    Raises:
        EvalShapeError: no value at all, or an infinite one.
    """
    values_N = np.asarray(means_N, dtype=np.float64)  # None becomes NaN
    present_N = values_N[~np.isnan(values_N)]
    clusters = len(set(clusters_N))
    if is_accuracy and present_N.size:
        if clusters == values_N.size and answers == 1:
            return wilson_interval(int(present_N.sum()), present_N.size, confidence=confidence)
        if present_N.min() == present_N.max() and present_N[0] in {0.0, 1.0}:
            # A bootstrap of nothing but zeros would be a point; what one answer says still holds.
            n = min(clusters, present_N.size)
            found = wilson_interval(int(present_N[0]) * n, n, confidence=confidence)
            return found.model_copy(update={"n": present_N.size})
    return mean_interval(
        values_N,
        clusters_N=clusters_N,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
