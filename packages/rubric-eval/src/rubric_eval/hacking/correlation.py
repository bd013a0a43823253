"""Rank correlation over answers, its interval by document."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel
from scipy import stats

from rubric_eval.records.run import FROZEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.statistics.intervals import FloatArray

_FEWEST_DOCUMENTS: Final = 5
_DRAWS_AT_ONCE: Final = 500


class Correlation(BaseModel):
    """Spearman's ρ over n answers."""

    model_config = FROZEN

    rho: float
    ci_low: float | None
    """None where documents are too few to draw from."""

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
    members: defaultdict[str, list[int]] = defaultdict(list)
    for at, question in enumerate(questions_N):
        members[question].append(at)
    several = [at_K for at_K in members.values() if len(at_K) > 1]
    order = [at for at_K in several for at in at_K]
    if not order:
        return None
    centred = [
        np.concatenate([_centred_ranks(values_N[at_K]) for at_K in several])
        for values_N in (np.asarray(x_N), np.asarray(y_N))
    ]
    return _correlated(centred[0], centred[1], [documents_N[at] for at in order], seed=seed)


def _centred_ranks(values_K: FloatArray) -> FloatArray:
    ranks_K = np.asarray(cast("Any", stats).rankdata(values_K), dtype=np.float64)
    return ranks_K - ranks_K.mean()


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
            np.bincount(of_N, weights=weights)
            for weights in (np.ones_like(x_N), x_N, y_N, x_N * x_N, y_N * y_N, x_N * y_N)
        ]
    )
    rho = float(_pearson(of_documents.sum(axis=1)))
    if names.size < _FEWEST_DOCUMENTS:
        return Correlation(rho=rho, ci_low=None, ci_high=None, n=x_N.size)

    def of_chosen(chosen: npt.NDArray[np.intp], axis: int = -1) -> FloatArray:
        return _pearson(of_documents[:, chosen].sum(axis=axis))

    draws = cast("Any", stats).bootstrap(
        (np.arange(names.size),),
        of_chosen,
        vectorized=True,
        n_resamples=resamples,
        batch=_DRAWS_AT_ONCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    draws_R = np.asarray(draws.bootstrap_distribution, dtype=np.float64)
    tail = (1 - confidence) / 2
    low, high = (float(np.nanquantile(draws_R, share)) for share in (tail, 1 - tail))
    return Correlation(rho=rho, ci_low=low, ci_high=high, n=x_N.size)


def _pearson(moments: FloatArray) -> FloatArray:
    """Pearson's r from Σ1, Σx, Σy, Σx², Σy² and Σxy, which are the first axis."""
    n, x, y, xx, yy, xy = moments
    spread = np.maximum(xx - x * x / n, 0) * np.maximum(yy - y * y / n, 0)
    is_known = spread > 0
    root = np.sqrt(np.where(is_known, spread, 1.0))
    return np.clip(np.where(is_known, (xy - x * y / n) / root, np.nan), -1, 1)
