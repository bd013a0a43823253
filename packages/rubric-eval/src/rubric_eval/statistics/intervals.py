"""Bootstrap confidence intervals of a mean and of a paired difference.

The unit that is resampled is the document, or the question where each has its own: samples of one
question are averaged first, since they are not independent of each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from rubric_eval.errors import EvalShapeError
from rubric_eval.statistics.bootstrap import bootstrap_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

FloatArray: TypeAlias = npt.NDArray[np.float64]


class Interval(BaseModel):
    """A mean over n questions and its confidence interval."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: float
    ci_low: float | None
    """None where one question, or one document, leaves the spread unknown."""
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
    clusters_N: Sequence[str] | None = None,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Interval:
    """Estimate a mean with its bias-corrected and accelerated (BCa) bootstrap interval.

        x̄ = Σ x_i / n
        [F̂⁻¹(a₋), F̂⁻¹(a₊)],   a± = Φ(ẑ₀ + (ẑ₀ ± z) / (1 − â·(ẑ₀ ± z)))

    F̂ is the distribution of the mean over `resamples` draws of n values with replacement,
    ẑ₀ = Φ⁻¹(F̂(x̄)) the bias and â the acceleration from the jackknife. z is the quantile of
    Student's t with C − 1 degrees, times √(C / (C − 1)), for C questions or documents: with few of
    them Φ⁻¹((1 + confidence)/2) would miss too often. The limits of a paired test are these.

    Args:
        x_N: one finite value a question; None and NaN are missing and are left out.
        clusters_N: document of each question: documents are drawn, with all their questions.
        confidence: nominal coverage, in (0, 1).
        resamples: bootstrap draws.
        seed: of the draws; the same input gives the same interval.

    Returns:
        The interval over the values present, never beyond their range. Values equal within
        rounding give the point [x̄, x̄], since no draw differs from it. A single value gives an
        unknown interval: one question says nothing about the spread between questions.

    Raises:
        EvalShapeError: not one axis, no value at all, or an infinite one.

    Reference: Efron, Better bootstrap confidence intervals, JASA 82 (1987); Hesterberg, What
    teachers should know about the bootstrap, The American Statistician 69 (2015), for z.
    """
    values_N, kept_N = present(_one_axis(x_N), clusters_N)
    drawn = bootstrap_mean(values_N, kept_N, resamples=resamples, seed=seed)
    low, high = drawn.expanded_limits(confidence) or (None, None)
    return Interval(mean=drawn.estimate, ci_low=low, ci_high=high, n=values_N.size)


def paired_interval(
    a_N: Sequence[float | None] | FloatArray,
    b_N: Sequence[float | None] | FloatArray,
    *,
    clusters_N: Sequence[str] | None = None,
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
        clusters_N: document of each question: documents are drawn, with all their questions.
        confidence: nominal coverage, in (0, 1).
        resamples: bootstrap draws.
        seed: of the draws.

    Returns:
        `mean_interval` of the differences; a question that either side lacks is left out.

    Raises:
        EvalShapeError: different lengths, no complete pair, or an infinite value.
    """
    return mean_interval(
        differences(a_N, b_N),
        clusters_N=clusters_N,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )


def differences(
    a_N: Sequence[float | None] | FloatArray, b_N: Sequence[float | None] | FloatArray
) -> FloatArray:
    """Take a − b of each question; NaN where a side is missing.

    Raises:
        EvalShapeError: different lengths, or an infinite value.
    """
    first_N, second_N = _one_axis(a_N), _one_axis(b_N)
    if first_N.shape != second_N.shape:
        raise EvalShapeError(
            f"a pair needs as many values on both sides, got {first_N.size} and {second_N.size}; "
            "give both in the same order of questions, None where one is missing"
        )
    return first_N - second_N


def present(
    values_N: FloatArray, clusters_N: Sequence[str] | None
) -> tuple[FloatArray, list[str] | None]:
    """Leave out what is missing.

    Raises:
        EvalShapeError: nothing is left, or there are not as many clusters as values.
    """
    is_present_N = ~np.isnan(values_N)
    if not is_present_N.any():
        raise EvalShapeError(
            f"all {values_N.size} values are missing; a mean needs at least one question"
        )
    if clusters_N is None:
        return values_N[is_present_N], None
    if len(clusters_N) != values_N.size:
        raise EvalShapeError(
            f"got {values_N.size} values and {len(clusters_N)} clusters; give one for each value"
        )
    kept = zip(clusters_N, is_present_N, strict=True)
    return values_N[is_present_N], [cluster for cluster, is_present in kept if is_present]


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
