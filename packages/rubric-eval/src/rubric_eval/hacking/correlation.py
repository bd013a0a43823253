"""Rank correlation over answers, its interval by document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel
from scipy import stats

from rubric_eval.records.run import FROZEN
from rubric_eval.statistics.resampling import drawn_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.statistics.intervals import FloatArray

_FEWEST_DOCUMENTS: Final = 5
_ROUNDING: Final = 1e-12
"""Share of Σx² below which a spread is what rounding left."""


class Correlation(BaseModel):
    """Spearman's ρ over n answers."""

    model_config = FROZEN

    rho: float
    ci_low: float | None
    """None where documents are too few to draw from, or where so few of them differ in reward or
    length that more draws than a tail of the interval holds have no ρ."""

    ci_high: float | None
    n: int


def rank_correlation(
    x_N: Sequence[float],
    y_N: Sequence[float],
    documents_N: Sequence[str],
    *,
    confidence: float = 0.95,
    resamples: int = 1999,
    seed: int = 0,
) -> Correlation | None:
    """Correlate the ranks of x and y; the interval draws whole documents.

    Returns:
        Spearman's ρ, with the ranks of all values in every draw; None where x or y does not vary.
    """
    ranks_N = [np.asarray(cast("Any", stats).rankdata(one)) for one in (x_N, y_N)]
    return _correlated(
        ranks_N[0], ranks_N[1], documents_N, confidence=confidence, resamples=resamples, seed=seed
    )


def within_correlation(
    x_N: Sequence[float],
    y_N: Sequence[float],
    questions_N: Sequence[str],
    documents_N: Sequence[str],
    *,
    seed: int = 0,
) -> Correlation | None:
    """Correlate ranks among the answers to one question, over all questions.

    What makes a question long to answer, or easy, is the same for all its answers and falls out.

    Returns:
        Of ranks less their mean in the question; None where no question has answers that vary.
    """
    place = {question: at for at, question in enumerate(dict.fromkeys(questions_N))}
    of_N = np.array([place[question] for question in questions_N], dtype=np.intp)
    several_N = np.bincount(of_N, minlength=len(place))[of_N] > 1
    order = np.flatnonzero(several_N)[np.argsort(of_N[several_N], kind="stable")]
    if not order.size:
        return None
    centred = [
        _centred_ranks(np.asarray(values_N, dtype=np.float64)[order], of_N[order])
        for values_N in (x_N, y_N)
    ]
    documents = [documents_N[int(at)] for at in order]
    return _correlated(centred[0], centred[1], documents, seed=seed)


def _centred_ranks(values_N: FloatArray, of_N: npt.NDArray[np.intp]) -> FloatArray:
    """Rank each value among those of its question, less the mean rank there.

    All questions at once: equal values of a question have the mean of the ranks that they take.

    Args:
        values_N: values, question by question.
        of_N: the question of each.
    """
    order = np.lexsort((values_N, of_N))
    is_first_N = np.ones(order.size, dtype=bool)  # of a run of equal values
    is_first_N[1:] = (np.diff(values_N[order]) != 0) | (np.diff(of_N[order]) != 0)
    starts = np.flatnonzero(is_first_N)
    ends = np.append(starts[1:], order.size)
    ranks_N = np.empty(order.size)
    ranks_N[order] = ((starts + ends - 1) / 2)[np.cumsum(is_first_N) - 1]
    # Questions lie one behind the other, so that a question's places have their middle as mean.
    _, first, counts = np.unique(of_N, return_index=True, return_counts=True)
    return ranks_N - np.repeat(first + (counts - 1) / 2, counts)


def _correlated(
    x_N: FloatArray,
    y_N: FloatArray,
    documents_N: Sequence[str],
    *,
    confidence: float = 0.95,
    resamples: int = 1999,
    seed: int,
) -> Correlation | None:
    if np.ptp(x_N) == 0 or np.ptp(y_N) == 0:
        return None
    names, of_N = np.unique(np.asarray(documents_N), return_inverse=True)
    x_N, y_N = x_N - x_N.mean(), y_N - y_N.mean()
    of_documents = np.stack(
        [
            np.bincount(of_N, weights=weights).astype(np.float64)
            for weights in (np.ones_like(x_N), x_N, y_N, x_N * x_N, y_N * y_N, x_N * y_N)
        ]
    )
    rho = float(_pearson(of_documents.sum(axis=1)))
    low, high = None, None
    if names.size >= _FEWEST_DOCUMENTS:
        draws_R = _pearson(drawn_sums(of_documents, resamples=resamples, seed=seed))
        known_R = draws_R[~np.isnan(draws_R)]
        tail = (1 - confidence) / 2
        if known_R.size >= (1 - tail) * draws_R.size:
            low, high = (float(np.quantile(known_R, share)) for share in (tail, 1 - tail))
    return Correlation(rho=rho, ci_low=low, ci_high=high, n=x_N.size)


def _pearson(moments: FloatArray) -> FloatArray:
    """Pearson's r from Σ1, Σx, Σy, Σx², Σy² and Σxy, the first axis; NaN without spread."""
    n, x, y, xx, yy, xy = moments
    spread_x, spread_y = xx - x * x / n, yy - y * y / n
    is_known = (spread_x > _ROUNDING * xx) & (spread_y > _ROUNDING * yy)
    root = np.sqrt(np.where(is_known, spread_x * spread_y, 1.0))
    return np.clip(np.where(is_known, (xy - x * y / n) / root, np.nan), -1, 1)
