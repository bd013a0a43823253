"""Tests of thresholds, for a finite-sample promise: learn then test."""

from typing import NamedTuple

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_core.errors import RewardError, needing_extra

with needing_extra("rubric-judge", "reliability", by="the calibration of a cascade"):
    from rubric_judge.statistics.untyped import optimize, special, stats

GRID = (None, *(step / 20 for step in range(21)))
"""Thresholds in the order in which they are tested, from "everything is escalated" on. Chosen
before any label is seen, as the promise needs it."""


_TINY = 1e-12


class RiskTest(NamedTuple):
    """Test of one threshold by the labels."""

    n: int
    risk: float
    """Mean loss of the labelled units."""
    p_value: float
    """P-value of the hypothesis that the risk is above α."""
    bound: float
    """Upper confidence bound of the risk."""


def p_value(losses_N: FloatArray, risk: float) -> float:
    """Return the p-value of "the mean loss is above `risk`".

        all losses 0 or 1:  P(Bin(n, α) ≤ Σ L)                                 (exact)
        otherwise:          min(exp(−n kl(L̄, α)), e · P(Bin(n, α) ≤ ⌈n L̄⌉))    (Hoeffding, Bentkus)

    Args:
        losses_N: shape [N], independent, each in [0, 1].
        risk: α in (0, 1).

    Source: Angelopoulos et al., Learn then Test (arXiv 2110.01052), §2.2 and Prop. 3.
    """
    n = len(losses_N)
    mean = float(np.mean(losses_N))
    binom = stats.binom
    rel_entr = special.rel_entr
    if np.isin(losses_N, (0.0, 1.0)).all():
        return float(binom.cdf(round(n * mean), n, risk))
    if mean >= risk:
        return 1.0
    divergence = float(rel_entr(mean, risk) + rel_entr(1 - mean, 1 - risk))
    bentkus = np.e * float(binom.cdf(np.ceil(n * mean - 1e-9), n, risk))
    return min(float(np.exp(-n * divergence)), bentkus, 1.0)


def risk_test(losses_N: FloatArray, *, risk: float, delta: float) -> RiskTest:
    """Test one threshold.

    Args:
        losses_N: shape [N], the losses of independent units in [0, 1]; N ≥ 1.
        risk: α.
        delta: δ of the bound.

    Returns:
        The test, with the bound that inverts it: the least risk that is rejected at δ. For losses
        of 0 and 1 it is Clopper and Pearson's.

    Raises:
        RewardError: no loss, one out of bounds, or α or δ out of bounds; the bound is above the
            mean loss for δ up to ½ alone.
    """
    if not len(losses_N):
        raise RewardError(
            "no loss to test: n is 0, and a test needs a labelled unit or more"
        )
    if not ((losses_N >= 0) & (losses_N <= 1)).all():
        raise RewardError("a loss is not in [0, 1]")
    if not 0 < risk < 1:
        raise RewardError(f"risk must be in (0, 1), not {risk!r}")
    if not 0 < delta <= 0.5:  # noqa: PLR2004
        raise RewardError(f"delta must be in (0, 0.5], not {delta!r}")

    def excess(at: float) -> float:
        return p_value(losses_N, at) - delta

    mean = float(np.mean(losses_N))
    almost = float(np.nextafter(1.0, 0.0))
    brentq = optimize.brentq
    bound = 1.0
    if excess(almost) < 0:
        bound = float(brentq(excess, max(mean, _TINY), almost))
    return RiskTest(len(losses_N), mean, p_value(losses_N, risk), bound)
