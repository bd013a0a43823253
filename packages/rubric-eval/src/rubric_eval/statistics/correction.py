"""Several tests at once: adjusted p-values, the level that decided each, and power."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from scipy import optimize, stats

if TYPE_CHECKING:
    from collections.abc import Sequence


class Correction(StrEnum):
    """What is kept below the level over a family of tests."""

    HOLM = "holm"
    """The chance of one false finding or more."""

    BH = "bh"
    """The expected share of false ones among the findings (Benjamini and Hochberg)."""

    NONE = "none"


@dataclass(frozen=True)
class Decision:
    """What a family of tests makes of one of them."""

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
        p_values: of the family, in any order.
        correction: how they are held together.
        alpha: level of the family.

    Returns:
        In the order of the p-values.

    Reference: Benjamini and Yekutieli, False discovery rate-adjusted multiple confidence intervals
    for selected parameters, JASA 100 (2005), for the intervals.
    """
    p_M = np.asarray(p_values, dtype=np.float64)
    m = p_M.size
    order = np.argsort(p_M, kind="stable")
    ranks = np.arange(m)
    if correction is Correction.HOLM:
        sorted_adjusted = np.minimum(np.maximum.accumulate(p_M[order] * (m - ranks)), 1.0)
        steps = alpha / (m - ranks)
    elif correction is Correction.BH:
        adjusted = cast("Any", stats).false_discovery_control(p_M) if m else p_M
        sorted_adjusted = np.asarray(adjusted)[order]
        steps = alpha * (ranks + 1) / max(m, 1)
    else:
        sorted_adjusted, steps = p_M[order], np.full(m, alpha)
    found = int(np.sum(sorted_adjusted < alpha))
    decisions: list[Decision | None] = [None] * m
    for rank, place in enumerate(order):
        is_significant = rank < found
        decisive = min(found, m - 1)  # the first that is no finding
        if is_significant:
            decisive = found - 1 if correction is Correction.BH else rank
        decisions[int(place)] = Decision(
            float(sorted_adjusted[rank]), is_significant, float(steps[decisive])
        )
    return [decision for decision in decisions if decision is not None]


_PRECISION: Final = 1e-4
_SPREADS: Final = 8
"""Standard deviations of the number of items that differ: beyond them lies less than 10⁻¹⁵."""


def mcnemar_power(n: int, delta: float, differ: float, *, alpha: float) -> float:
    """Power of McNemar's exact test, over all numbers of items that may differ.

        Σ_m Binomial(m; n, ψ) · P(test of m items rejects | won ~ Binomial(m, (1 + δ/ψ)/2))

    Args:
        n: items.
        delta: true difference of the accuracies, δ ≥ 0.
        differ: ψ ≥ δ, the share of items that one side has right and the other wrong.
        alpha: level of the test.
    """
    if differ == 0:
        return 0.0
    binom = cast("Any", stats).binom  # scipy has no type stubs
    spread = _SPREADS * np.sqrt(n * differ * (1 - differ)) + 1
    m = np.arange(max(0, int(n * differ - spread)), min(n, int(n * differ + spread)) + 1)
    # Largest number lost whose p-value is below α: 2·P(X ≤ lost) < α.
    at_most = np.asarray(binom.ppf(alpha / 2, m, 0.5), dtype=np.float64)
    most = np.where(2 * binom.cdf(at_most, m, 0.5) < alpha, at_most, at_most - 1)
    share = (1 + delta / differ) / 2
    rejects = binom.cdf(most, m, share) + binom.cdf(most, m, 1 - share)
    return float(np.sum(binom.pmf(m, n, differ) * rejects))


def mcnemar_detectable(
    n: int, differ: float, *, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Smallest difference of accuracies that McNemar's exact test finds with this power.

    Args:
        n: items.
        differ: share of items that one side has right and the other wrong; more where the
            difference itself is larger.
        alpha: level of the test, correction included.
        power: chance that it is found.

    Returns:
        The difference, in (0, 1]; None where not even 1 would be found.
    """

    def lacking(delta: float) -> float:
        return power - mcnemar_power(n, delta, min(max(differ, delta), 1.0), alpha=alpha)

    if lacking(1.0) > 0:
        return None
    return float(cast("Any", optimize).brentq(lacking, 0.0, 1.0, xtol=_PRECISION))
