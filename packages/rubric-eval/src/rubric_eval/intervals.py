"""Bootstrap confidence intervals of a mean and of a paired difference.

The unit that is resampled is the question: samples of one question are averaged first, since they
are not independent of each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict
from scipy import stats

from rubric_eval.errors import EvalShapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

FloatArray: TypeAlias = npt.NDArray[np.float64]

_ROUNDING = 1e-12
"""Relative spread below which values count as equal."""


class Interval(BaseModel):
    """A mean over n questions and its confidence interval."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: float
    ci_low: float | None
    """None where one question leaves the spread unknown."""
    ci_high: float | None
    n: int

    def is_above(self, value: float) -> bool:
        """Whether the whole interval lies above a value; an unknown interval never does."""
        return self.ci_low is not None and self.ci_low > value

    def is_below(self, value: float) -> bool:
        """Whether the whole interval lies below a value; an unknown interval never does."""
        return self.ci_high is not None and self.ci_high < value


def mean_interval(
    x_N: Sequence[float | None] | FloatArray,
    *,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Interval:
    """Estimate a mean with its bias-corrected and accelerated (BCa) bootstrap interval.

        x̄ = Σ x_i / n
        [F̂⁻¹(a₋), F̂⁻¹(a₊)],   a± = Φ(ẑ₀ + (ẑ₀ ± z) / (1 − â·(ẑ₀ ± z)))

    F̂ is the distribution of the mean over `resamples` draws of n values with replacement,
    z = Φ⁻¹((1 + confidence)/2), ẑ₀ = Φ⁻¹(F̂(x̄)) the bias and â the acceleration from the
    jackknife.

    Args:
        x_N: one finite value a question; None and NaN are missing and are left out.
        confidence: nominal coverage, in (0, 1).
        resamples: bootstrap draws.
        seed: of the draws; the same input gives the same interval.

    Returns:
        The interval over the values present, never beyond their range. Values equal within
        rounding give the point [x̄, x̄], since no draw differs from it. A single value gives an
        unknown interval: one question says nothing about the spread between questions.

    Raises:
        EvalShapeError: not one axis, no value at all, or an infinite one.

    Reference: Efron, Better bootstrap confidence intervals, JASA 82 (1987).
    """
    values_N = _present(_one_axis(x_N))
    mean = float(values_N.mean())
    if values_N.size == 1:
        return Interval(mean=mean, ci_low=None, ci_high=None, n=1)
    lowest, highest = float(values_N.min()), float(values_N.max())
    if highest - lowest <= _ROUNDING * max(1.0, abs(lowest), abs(highest)):
        mean = lowest if lowest == highest else mean
        return Interval(mean=mean, ci_low=mean, ci_high=mean, n=values_N.size)
    bootstrap = cast("Any", stats).bootstrap  # scipy has no type stubs
    low, high = bootstrap(
        (values_N,),
        np.mean,
        n_resamples=resamples,
        confidence_level=confidence,
        method="BCa",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    # Percentiles are interpolated, which can overshoot the largest draw by one rounding.
    return Interval(
        mean=mean,
        ci_low=max(float(low), lowest),
        ci_high=min(float(high), highest),
        n=values_N.size,
    )


def paired_interval(
    a_N: Sequence[float | None] | FloatArray,
    b_N: Sequence[float | None] | FloatArray,
    *,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Interval:
    """Estimate the mean of a − b over the same questions with its BCa bootstrap interval.

        d_i = a_i − b_i,   d̄ = Σ d_i / n

    The pair is resampled as one, so what makes a question easy for both sides cancels.

    Args:
        a_N: one value a question; None and NaN are missing.
        b_N: the other side, in the same order of questions.
        confidence: nominal coverage, in (0, 1).
        resamples: bootstrap draws.
        seed: of the draws.

    Returns:
        `mean_interval` of the differences; a question that either side lacks is left out.

    Raises:
        EvalShapeError: different lengths, no complete pair, or an infinite value.
    """
    first_N, second_N = _one_axis(a_N), _one_axis(b_N)
    if first_N.shape != second_N.shape:
        raise EvalShapeError(
            f"a pair needs as many values on both sides, got {first_N.size} and {second_N.size}; "
            "give both in the same order of questions, None where one is missing"
        )
    return mean_interval(first_N - second_N, confidence=confidence, resamples=resamples, seed=seed)


def _one_axis(x_N: Sequence[float | None] | FloatArray) -> FloatArray:
    values_N = np.asarray(x_N, dtype=np.float64)  # None becomes NaN
    if values_N.ndim != 1:
        raise EvalShapeError(
            f"expected one value a question, got shape {values_N.shape!r}; "
            "average the samples of a question first"
        )
    if np.isinf(values_N).any():
        raise EvalShapeError(
            f"{int(np.isinf(values_N).sum())} of {values_N.size} values are infinite; "
            "give None for a missing one"
        )
    return values_N


def _present(values_N: FloatArray) -> FloatArray:
    present_N = values_N[~np.isnan(values_N)]
    if present_N.size == 0:
        raise EvalShapeError(
            f"all {values_N.size} values are missing; a mean needs at least one question"
        )
    return present_N
