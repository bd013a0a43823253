"""Uncertainty of a judge about each criterion, by several of its answers."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from rubric_core import Criterion, JudgeResult
from rubric_judge.config import Uncertainty

HALF = 0.5
"""Share of its weight from which a criterion counts as met."""


_ROUNDING = 1e-9


class Measured(NamedTuple):
    """One judge's score of a criterion, and its uncertainty."""

    score: float
    """Mean score of the judge's answers."""
    uncertainty: float
    """Uncertainty of the score, from 0 (sure) to 1."""

    def is_met(self, weight: float) -> bool:
        """Whether the score says that the criterion is met."""
        return self.score >= HALF * weight


def agree(first: float, second: float, *, tolerance: float | None) -> bool:
    """Return whether two scores, as shares of the weight, agree.

    Args:
        first: a share.
        second: a share.
        tolerance: largest difference; None where they must lie on the same side of half.
    """
    if tolerance is None:
        return (first >= HALF) == (second >= HALF)
    return abs(first - second) <= tolerance + _ROUNDING


def measured(
    results: Sequence[JudgeResult], criterion: Criterion, kind: Uncertainty
) -> Measured:
    """Return the mean score of a criterion and how unsure it is.

        z_i = s_i / w
        consistency   u = 2 · std(z)           (population; the largest std of shares is ½)
        margin        u = 2 · min(z̄, 1 − z̄)    (0 where z̄ is a whole verdict, 1 at half)
        orders        u = |mean of z in order − mean of z in reverse|

    Args:
        results: scored ones, in the order of the samples.
        criterion: with a weight above 0.
        kind: the measure.
    """
    scores = [result.scores[criterion.id] for result in results]
    shares = [min(score / criterion.weight, 1.0) for score in scores]
    mean = math.fsum(shares) / len(shares)
    score = min(criterion.weight * mean, criterion.weight)
    match kind:
        case "consistency":
            return Measured(score, min(2 * statistics.pstdev(shares), 1.0))
        case "margin":
            return Measured(score, max(2 * min(mean, 1 - mean), 0.0))
        case "orders":
            forward = statistics.fmean(shares[::2])
            reverse = statistics.fmean(shares[1::2])
            return Measured(score, abs(forward - reverse))
