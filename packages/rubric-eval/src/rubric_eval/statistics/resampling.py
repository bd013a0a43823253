"""Sums over clusters that are drawn with replacement: what every bootstrap here is made of."""

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from scipy import stats

FloatArray: TypeAlias = npt.NDArray[np.float64]

_DRAWN_AT_ONCE: Final = 4_000_000
"""Clusters, for a bounded memory; it changes no draw."""
_ADDED_UP: Final = 256
"""Clusters, at most. Of so few, a draw may well be all of them once, and is then to be the same
number as their sum, which a product differs from by rounding."""


def drawn_sums(of_clusters_VC: FloatArray, *, resamples: int, seed: int) -> FloatArray:
    """Sum V values over clusters that are drawn with replacement, as many as there are.

    SciPy draws the clusters. What many clusters add up to is the product of the values with how
    often each was drawn, which takes a fraction of the time that adding up takes.

    Args:
        of_clusters_VC: V values of each of C clusters.
        resamples: R draws.
        seed: of the draws.

    Returns:
        Shape [V, R], the sums of each draw, in the order drawn.
    """
    clusters = of_clusters_VC.shape[1]

    def sums(chosen_RC: npt.NDArray[np.intp], axis: int = -1) -> FloatArray:
        if clusters <= _ADDED_UP:
            return of_clusters_VC[:, chosen_RC].sum(axis=axis)
        drawn = len(chosen_RC)
        places = chosen_RC + clusters * np.arange(drawn)[:, None]
        times_RC = np.bincount(places.ravel(), minlength=drawn * clusters).reshape(drawn, clusters)
        return of_clusters_VC @ times_RC.T.astype(np.float64)

    found = cast("Any", stats).bootstrap(  # scipy has no type stubs
        (np.arange(clusters),),
        sums,
        vectorized=True,
        n_resamples=resamples,
        batch=max(_DRAWN_AT_ONCE // clusters, 1),
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return np.asarray(found.bootstrap_distribution, dtype=np.float64)
