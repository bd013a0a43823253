"""Several tests at once: adjusted p-values, and the level that decided each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import stats

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
