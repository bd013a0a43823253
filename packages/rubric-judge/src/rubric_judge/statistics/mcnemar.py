"""McNemar's exact test of paired answers, right or wrong, and limits of their difference."""

import math

from rubric_judge.statistics.shares import binomial_test_limits, normal_quantile
from rubric_judge.statistics.untyped import optimize, stats


def mcnemar_p(won: int, lost: int) -> float:
    """Return the p-value of McNemar's exact test: won ~ Binomial(won + lost, ½), two-sided."""
    if won + lost == 0:
        return 1.0
    return float(stats.binomtest(won, won + lost).pvalue)


def discordant_limits(
    won: int, lost: int, n: int, *, confidence: float
) -> tuple[float, float]:
    """Return limits of (won − lost) / n that agree with McNemar's exact test at every level.

    These are Clopper and Pearson's limits of won / (won + lost), with the observed number of items
    that differ. They leave out 0 exactly where the test rejects, but are too narrow for a large
    difference because the number of items that differ is taken as known.
    """
    differ = won + lost
    if differ == 0:
        return 0.0, 0.0
    low, high = binomial_test_limits(won, differ, confidence, method="exact")
    return (2 * low - 1) * differ / n, (2 * high - 1) * differ / n


def tango_limits(
    won: int, lost: int, n: int, *, confidence: float
) -> tuple[float, float]:
    """Return Tango's score limits of the difference of two paired proportions.

        z(δ) = (won − lost − nδ) / √(n (2q̃ + δ(1 − δ))) = ±Φ⁻¹((1 + confidence)/2)

    q̃ is the maximum-likelihood share of lost items if the difference is δ. At δ = 0 this is
    McNemar's statistic. The limits hold the difference at the nominal rate also where few items
    differ.

    Reference: Tango, Equivalence test and confidence interval for the difference in proportions
    for the paired-sample design, Statistics in Medicine 17 (1998).
    """
    z = normal_quantile(confidence)
    estimate = (won - lost) / n
    if won == lost == 0:  # the equation holds at 0 too, where nothing spreads
        half = z**2 / (n + z**2)
        return -half, half

    def excess(delta: float, side: float) -> float:
        return won - lost - n * delta - side * z * _score_spread(won, lost, n, delta)

    solve = optimize.brentq
    low = -1.0 if lost == n else float(solve(excess, -1.0, estimate, args=(1.0,)))
    high = 1.0 if won == n else float(solve(excess, estimate, 1.0, args=(-1.0,)))
    return low, high


def _score_spread(won: int, lost: int, n: int, delta: float) -> float:
    linear = -(won + lost) + (2 * n - won + lost) * delta
    constant = -lost * delta * (1 - delta)
    lost_share = (math.sqrt(max(linear**2 - 8 * n * constant, 0.0)) - linear) / (4 * n)
    lost_share = min(max(lost_share, 0.0, -delta), 1.0)
    return math.sqrt(max(n * (2 * lost_share + delta * (1 - delta)), 0.0))
