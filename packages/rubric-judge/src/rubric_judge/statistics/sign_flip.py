"""The sign-flip permutation test of paired differences, clusters flipped whole."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Unpack, cast

import numpy as np
from scipy import signal

from rubric_core.arrays import FloatArray
from rubric_judge.errors import SampleShapeError
from rubric_judge.statistics.bootstrap import DRAWS_AT_ONCE, Draws
from rubric_judge.statistics.untyped import stats

_MOST_STEPS = 60_000
"""Most distinct sums that are counted; for more, flips are drawn."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class SignFlips:
    """The clusters of a paired difference, to be flipped."""

    sums_C: FloatArray
    """D_c, the sum of a − b over all values of a cluster."""

    counts_C: FloatArray
    """n_c, the number of these values."""

    unit: float | None
    """As for `sign_flip_p`."""

    draws: Draws = field(default_factory=Draws)
    """Settings of the draws of flips that cannot be counted."""

    @cached_property
    def p_value(self) -> float:
        """The p-value of `sign_flip_p`."""
        return sign_flip_p(self.sums_C, unit=self.unit, **self.draws)

    def critical(self, alpha: float) -> tuple[float, float]:
        """Return how far above 0, and how far below, the mean must lie for p < α.

        Were all values moved alike until their mean is m, a flip of the clusters would give a mean
        of (A + m B) / N, A = Σ ε_c (D_c − n_c x̄), B = Σ ε_c n_c, which is as far from 0 as m is
        up to m = max(A / (N − B), −A / (N + B)). So p falls as m grows, and the critical m is the
        (1 − α) quantile of these.

        Args:
            alpha: level of the test.

        Returns:
            Both at least 0; infinite where so few clusters never show anything at this level.
        """
        total = float(self.counts_C.sum())
        centred_C = self.sums_C - self.counts_C * (self.sums_C.sum() / total)
        a_parts: list[FloatArray] = []
        b_parts: list[FloatArray] = []
        for signs_RC in _signs(self.sums_C.size, **self.draws):
            a_parts.append(signs_RC @ centred_C)
            b_parts.append(signs_RC @ self.counts_C)
        a_R = np.concatenate(a_parts)
        b_R = np.concatenate(b_parts)
        up_R = _last_reached(a_R, b_R, total)
        down_R = _last_reached(-a_R, b_R, total)
        return _exceeded(up_R, alpha), _exceeded(down_R, alpha)


def sign_flip_p(
    sums_C: FloatArray, *, unit: float | None, **draws: Unpack[Draws]
) -> float:
    """Return the p-value of "both models are alike": the signs of the differences are chance.

        p = P(|Σ_c ε_c D_c| ≥ |Σ_c D_c|),   ε_c = ±1 with probability ½

    Counted exactly where all D_c are multiples of `unit`, by convolution over distinct magnitudes;
    drawn with SciPy otherwise. With every D_c in {−1, 0, 1} this is McNemar's exact test.

    Args:
        sums_C: D_c, the sum of a − b over all values of a cluster.
        unit: the unit that differences are multiples of: 1 / K for the mean of K answers right or
            wrong; None for rewards, which have no unit.
        draws: settings of the draws of flips that cannot be counted.

    Raises:
        SampleShapeError: a sum is no finite number; no draw would be as far from 0.
    """
    if not np.isfinite(sums_C).all():
        n = int((~np.isfinite(sums_C)).sum())
        raise SampleShapeError(
            f"{n} of {sums_C.size} sums are no finite numbers: leave out what is missing"
        )
    if unit is None:
        return _drawn(sums_C, **draws)
    steps_C = np.abs(sums_C) / unit
    whole_C = np.rint(steps_C)
    if np.all(np.abs(steps_C - whole_C) < _ROUNDING) and whole_C.sum() <= _MOST_STEPS:
        observed = int(abs(np.rint(sums_C.sum() / unit)))
        return _counted(Counter(int(step) for step in whole_C if step), observed)
    return _drawn(sums_C, **draws)


def _counted(magnitudes: Counter[int], observed: int) -> float:
    if observed == 0:
        return 1.0
    distribution = np.ones(1)
    for size, count in sorted(magnitudes.items()):
        flips = np.zeros(size * count + 1)
        flips[::size] = stats.binom.pmf(np.arange(count + 1), count, 0.5)
        if distribution.size == 1:
            distribution = flips
            continue
        # Not by Fourier transform: its rounding is larger than a small p-value.
        convolve = cast("Any", signal).convolve
        distribution = np.asarray(convolve(distribution, flips, method="direct"))
    total = distribution.size - 1
    # Σ ε D = total − 2 · (magnitudes flipped down)
    tail = float(distribution[: (total - observed) // 2 + 1].sum())
    return min(1.0, 2 * tail)


def _drawn(sums_C: FloatArray, *, resamples: int = 9999, seed: int = 0) -> float:
    if sums_C.size == 1:  # its flip is as far from 0
        return 1.0
    result = stats.permutation_test(
        (sums_C,),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=500,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def _signs(
    clusters: int, *, resamples: int = 9999, seed: int = 0
) -> Iterator[FloatArray]:
    """Yield all flips where they are few, else as many as asked for; some at a time."""
    if 2**clusters <= resamples:
        every_RC = np.indices((2,) * clusters).reshape(clusters, -1).T
        yield np.asarray(1.0 - 2.0 * every_RC, dtype=np.float64)
        return
    rng = np.random.default_rng(seed)
    yield np.ones((1, clusters))  # the observed signs are a flip too
    for start in range(0, resamples, DRAWS_AT_ONCE):
        size = min(DRAWS_AT_ONCE, resamples - start), clusters
        yield np.asarray(1.0 - 2.0 * rng.integers(0, 2, size=size), dtype=np.float64)


def _last_reached(a_R: FloatArray, b_R: FloatArray, total: float) -> FloatArray:
    """Return the largest mean that each flip reaches; infinite where all or none are flipped."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ends_2R = np.stack([a_R / (total - b_R), -a_R / (total + b_R)])
    return np.where(np.abs(b_R) == total, np.inf, ends_2R.max(axis=0))


def _exceeded(reached_R: FloatArray, alpha: float) -> float:
    """Return the smallest value that less than a share α of these reach."""
    allowed = int(np.ceil(alpha * reached_R.size * (1 - _ROUNDING))) - 1
    sorted_R = np.sort(reached_R)
    return max(float(sorted_R[sorted_R.size - 1 - allowed]), 0.0)
