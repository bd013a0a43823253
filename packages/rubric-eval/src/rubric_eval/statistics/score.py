"""The interval of one model's score, whatever it was measured by: every table's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rubric_eval.statistics.intervals import Interval, mean_interval
from rubric_eval.statistics.proportions import wilson_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.statistics.intervals import FloatArray


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
