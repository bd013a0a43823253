"""Spearman's rank correlations, with intervals that draw whole documents."""

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import numpy.typing as npt

from rubric_core.arrays import FloatArray
from rubric_judge.statistics.bootstrap import IntervalDraws, drawn_sums
from rubric_judge.statistics.estimate import Estimate
from rubric_judge.statistics.untyped import stats

_FEWEST_DOCUMENTS = 5
_ROUNDING = 1e-12
"""Share of Σx² below which a spread is only rounding."""


def rank_correlation(
    x_N: Sequence[float],
    y_N: Sequence[float],
    documents_N: Sequence[str],
    **draws: Unpack[IntervalDraws],
) -> Estimate | None:
    """Correlate the ranks of x and y; the interval draws whole documents.

    Returns:
        Spearman's ρ, with the ranks of all values in every draw; None where x or y does not vary.
    """
    rankdata = stats.rankdata
    x_ranks_N = np.asarray(rankdata(x_N))
    y_ranks_N = np.asarray(rankdata(y_N))
    return _correlated(x_ranks_N, y_ranks_N, documents_N, **draws)


def within_correlation(
    x_N: Sequence[float],
    y_N: Sequence[float],
    questions_N: Sequence[str],
    documents_N: Sequence[str],
    **draws: Unpack[IntervalDraws],
) -> Estimate | None:
    """Correlate ranks among the answers to one question, over all questions.

    The length and difficulty of a question are the same for all its answers and cancel.

    Returns:
        The correlation of ranks less their mean in the question; None where no question has answers
        that vary.
    """
    _, group_N, counts = np.unique(
        np.asarray(questions_N), return_inverse=True, return_counts=True
    )
    several = np.flatnonzero(counts[group_N] > 1)
    if not several.size:
        return None
    groups = group_N[several]
    x_ranks = _centred_ranks(np.asarray(x_N, dtype=np.float64)[several], groups)
    y_ranks = _centred_ranks(np.asarray(y_N, dtype=np.float64)[several], groups)
    documents = [documents_N[int(index)] for index in several]
    return _correlated(x_ranks, y_ranks, documents, **draws)


def _centred_ranks(values_N: FloatArray, group_N: npt.NDArray[np.intp]) -> FloatArray:
    """Return the rank of each value among those of its question, less the mean rank there.

    All questions are ranked at once, sorted by question first. This shifts all ranks of a question
    by the same number.

    Args:
        values_N: values.
        group_N: number of the question of each value.
    """
    _, place_N = np.unique(values_N, return_inverse=True)
    rankdata = stats.rankdata
    ranks_N = np.asarray(rankdata(group_N * values_N.size + place_N))
    counts = np.maximum(np.bincount(group_N), 1)
    means = np.bincount(group_N, weights=ranks_N) / counts
    return ranks_N - means[group_N]


def _correlated(
    x_N: FloatArray,
    y_N: FloatArray,
    documents_N: Sequence[str],
    *,
    confidence: float = 0.95,
    resamples: int = 1999,
    seed: int = 0,
) -> Estimate | None:
    if np.ptp(x_N) == 0 or np.ptp(y_N) == 0:
        return None
    names, document_N = np.unique(np.asarray(documents_N), return_inverse=True)
    x_N = x_N - x_N.mean()
    y_N = y_N - y_N.mean()
    moments = (np.ones_like(x_N), x_N, y_N, x_N * x_N, y_N * y_N, x_N * y_N)
    sums = [np.bincount(document_N, weights=moment_N) for moment_N in moments]
    sums_by_document = np.stack(sums).astype(np.float64)
    rho = float(_pearson(sums_by_document.sum(axis=1)))
    low = None
    high = None
    if names.size >= _FEWEST_DOCUMENTS:
        drawn = drawn_sums(sums_by_document, resamples=resamples, seed=seed)
        draws_R = _pearson(drawn)
        known_R = draws_R[~np.isnan(draws_R)]
        tail = (1 - confidence) / 2
        if known_R.size >= (1 - tail) * draws_R.size:
            low = float(np.quantile(known_R, tail))
            high = float(np.quantile(known_R, 1 - tail))
    return Estimate(rho, low, high, x_N.size)


def _pearson(moments: FloatArray) -> FloatArray:
    """Return Pearson's r from Σ1, Σx, Σy, Σx², Σy² and Σxy, the first axis; NaN without spread."""
    n, x, y, xx, yy, xy = moments
    spread_x = xx - x * x / n
    spread_y = yy - y * y / n
    is_known = (spread_x > _ROUNDING * xx) & (spread_y > _ROUNDING * yy)
    root = np.sqrt(np.where(is_known, spread_x * spread_y, 1.0))
    return np.clip(np.where(is_known, (xy - x * y / n) / root, np.nan), -1, 1)
