"""The sign-flip permutation test of paired differences, clusters flipped whole."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from scipy import signal, stats

if TYPE_CHECKING:
    from rubric_eval.statistics.bootstrap import FloatArray

_MOST_STEPS: Final = 60_000
"""Sums told apart before flips are drawn instead of counted."""

_ROUNDING: Final = 1e-9


def sign_flip_p(
    sums_C: FloatArray, *, unit: float | None, resamples: int = 9999, seed: int = 0
) -> float:
    """p-value of "both models are alike": the signs of the clusters' differences are chance.

        p = P(|Σ_c ε_c D_c| ≥ |Σ_c D_c|),   ε_c = ±1 with probability ½

    Counted exactly where all D_c are multiples of `unit`, by convolution over distinct magnitudes;
    drawn with SciPy otherwise. With every D_c in {−1, 0, 1} this is McNemar's exact test.

    Args:
        sums_C: D_c, the sum of a − b over all values of a cluster.
        unit: what differences are multiples of: 1 / K for the mean of K answers right or wrong;
            None for rewards, which are of nothing.
        resamples: flips drawn where they cannot be counted.
        seed: of these.
    """
    if unit is None:
        return _drawn(sums_C, resamples=resamples, seed=seed)
    steps_C = np.abs(sums_C) / unit
    whole_C = np.rint(steps_C)
    if np.all(np.abs(steps_C - whole_C) < _ROUNDING) and whole_C.sum() <= _MOST_STEPS:
        observed = int(abs(np.rint(sums_C.sum() / unit)))
        return _counted(Counter(int(step) for step in whole_C if step), observed)
    return _drawn(sums_C, resamples=resamples, seed=seed)


def _counted(magnitudes: Counter[int], observed: int) -> float:
    if observed == 0:
        return 1.0
    distribution = np.ones(1)
    for size, count in sorted(magnitudes.items()):
        flips = np.zeros(size * count + 1)
        flips[::size] = cast("Any", stats).binom.pmf(np.arange(count + 1), count, 0.5)
        # Not by Fourier transform: its rounding is larger than a small p-value.
        distribution = np.asarray(
            flips
            if distribution.size == 1
            else cast("Any", signal).convolve(distribution, flips, method="direct")
        )
    total = distribution.size - 1
    # Σ ε D = total − 2 · (magnitudes flipped down)
    tail = float(distribution[: (total - observed) // 2 + 1].sum())
    return min(1.0, 2 * tail)


def _drawn(sums_C: FloatArray, *, resamples: int, seed: int) -> float:
    if sums_C.size == 1:  # as far from 0 either way
        return 1.0
    found = cast("Any", stats).permutation_test(
        (sums_C, np.zeros_like(sums_C)),
        _difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=500,
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def _difference(a: FloatArray, b: FloatArray, axis: int = -1) -> FloatArray:
    return np.sum(a - b, axis=axis)
