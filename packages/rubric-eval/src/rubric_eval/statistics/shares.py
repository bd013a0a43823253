"""The interval of an accuracy, for one answer an item or several, alone or in clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rubric_eval.errors import EvalShapeError
from rubric_eval.statistics.intervals import FloatArray, Interval, mean_interval
from rubric_eval.statistics.proportions import wilson_interval

if TYPE_CHECKING:
    from collections.abc import Sequence


def accuracy_interval(  # as `mean_interval`, and what it is of
    x_N: Sequence[float | None] | FloatArray,
    *,
    answers: int,
    clusters_N: Sequence[str],
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Interval:
    """Estimate an accuracy with Wilson's interval where it fits, and else with a bootstrap.

    Args:
        x_N: share of right answers of each item; None and NaN are missing.
        answers: answers an item that a share is of.
        clusters_N: document of each item.
        confidence: nominal coverage, in (0, 1).
        resamples: bootstrap draws.
        seed: of the draws.

    Returns:
        Wilson's interval for one answer an item, each item for itself. Otherwise a BCa bootstrap
        over clusters; items that are all wrong or all right would make it a point, so they have
        Wilson's interval as if each cluster had answered once.

    Raises:
        EvalShapeError: no value at all, an infinite one, or not as many clusters as items.
    """
    means_N = np.asarray(x_N, dtype=np.float64)
    if len(clusters_N) != means_N.size:
        raise EvalShapeError(
            f"got {means_N.size} items and {len(clusters_N)} clusters; give one for each item"
        )
    present_N = means_N[~np.isnan(means_N)]
    clusters = len(set(clusters_N))
    if present_N.size and clusters == means_N.size and answers == 1:
        return wilson_interval(int(present_N.sum()), present_N.size, confidence=confidence)
    if present_N.size and present_N.min() == present_N.max() and present_N[0] in {0.0, 1.0}:
        # What one answer says still holds.
        n = min(clusters, present_N.size)
        found = wilson_interval(int(present_N[0]) * n, n, confidence=confidence)
        return found.model_copy(update={"n": present_N.size})
    return mean_interval(
        means_N, clusters_N=clusters_N, confidence=confidence, resamples=resamples, seed=seed
    )
