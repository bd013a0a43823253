"""Means, paired differences and their averages, with intervals.

The unit that is resampled is the document, or the question where each has its own: samples of one
question are averaged first, since they are not independent of each other.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Unpack

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_judge.errors import SampleShapeError
from rubric_judge.statistics.bootstrap import IntervalDraws, bootstrap_mean
from rubric_judge.statistics.estimate import Estimate
from rubric_judge.statistics.student import Student


def mean_estimate(
    x_N: Sequence[float | None] | FloatArray,
    *,
    clusters_N: Sequence[str] | None = None,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
    least: float = -math.inf,
) -> Estimate:
    """Estimate a mean with the wider of its BCa bootstrap interval and Student's, on each side.

        x̄ = Σ x_i / n
        [F̂⁻¹(a₋), F̂⁻¹(a₊)],   a± = Φ(ẑ₀ + (ẑ₀ ± z) / (1 − â·(ẑ₀ ± z)))

    F̂ is the distribution of the mean over `resamples` draws of n values with replacement,
    ẑ₀ = Φ⁻¹(F̂(x̄)) the bias and â the acceleration from the jackknife. z is the quantile of
    Student's t with C − 1 degrees, times √(C / (C − 1)), for C questions or documents: with few of
    them Φ⁻¹((1 + confidence)/2) would miss too often. From two to a dozen documents, or some that
    are alike by chance, even such draws know too little: see `Student`. The limits of a paired test
    are computed in the same way.

    Args:
        x_N: one finite value a question; None and NaN are missing and are left out.
        clusters_N: document of each question: documents are drawn, with all their questions.
        confidence: nominal coverage, in (0, 1).
        resamples: bootstrap draws.
        seed: seed of the draws; the same input gives the same interval.
        least: lower bound of all values, and so of the limits: 0 for counts. For values in [0, 1]
            use `shares.bounded_mean`.

    Returns:
        The interval over the values present, within [−1, 1] where they are. Values equal within
        rounding give the point [x̄, x̄], since no draw differs from it, but 0 ± t²/(C + t²) where
        all are 0. A single value gives an unknown interval: one question says nothing about the
        spread between questions.

    Raises:
        SampleShapeError: not one axis, no value at all, or an infinite one.

    Reference: Efron, Better bootstrap confidence intervals, JASA 82 (1987); Hesterberg, What
    teachers should know about the bootstrap, The American Statistician 69 (2015), for z.
    """
    values_N = known_values(x_N)
    n = int(np.count_nonzero(~np.isnan(values_N)))
    drawn = bootstrap_mean(values_N, clusters_N, resamples=resamples, seed=seed)
    student = Student.of(values_N, clusters_N)
    limits = student.widen(drawn.expanded_limits(confidence), confidence)
    if limits is None:
        return Estimate(drawn.estimate, n=n)
    low, high = limits
    return Estimate(drawn.estimate, max(low, least), high, n)


def paired_difference(
    a_N: Sequence[float | None] | FloatArray,
    b_N: Sequence[float | None] | FloatArray,
    *,
    clusters_N: Sequence[str] | None = None,
    **draws: Unpack[IntervalDraws],
) -> Estimate:
    """Estimate the mean of a − b over the same questions with its BCa bootstrap interval.

        d_i = a_i − b_i,   d̄ = Σ d_i / n

    The pair is resampled as one, so what makes a question easy for both sides cancels.

    Args:
        a_N: one value per question; None and NaN are missing.
        b_N: the other side, in the same order of questions.
        clusters_N: document of each question: documents are drawn, with all their questions.
        draws: confidence, resamples and seed, as for `mean_estimate`.

    Returns:
        `mean_estimate` of the differences; a question that either side lacks is left out.

    Raises:
        SampleShapeError: different lengths, no complete pair, or an infinite value.
    """
    return mean_estimate(differences(a_N, b_N), clusters_N=clusters_N, **draws)


def differences(
    a_N: Sequence[float | None] | FloatArray, b_N: Sequence[float | None] | FloatArray
) -> FloatArray:
    """Return a − b of each question; NaN where a side is missing.

    Raises:
        SampleShapeError: different lengths, or an infinite value.
    """
    first_N = _one_axis(a_N)
    second_N = _one_axis(b_N)
    if first_N.shape != second_N.shape:
        raise SampleShapeError(
            f"a pair needs as many values on both sides, got {first_N.size} and "
            f"{second_N.size}; give both in the same order of questions, None where one is "
            "missing"
        )
    return first_N - second_N


def _one_axis(x_N: Sequence[float | None] | FloatArray) -> FloatArray:
    values_N = np.asarray(x_N, dtype=np.float64)  # None becomes NaN
    if values_N.ndim != 1:
        raise SampleShapeError(
            f"expected one value a question, got shape {values_N.shape!r}; average the "
            "samples of a question first"
        )
    if np.isinf(values_N).any():
        n = int(np.isinf(values_N).sum())
        raise SampleShapeError(
            f"{n} of {values_N.size} values are infinite; give None for a missing one"
        )
    return values_N


def known_values(x_N: Sequence[float | None] | FloatArray) -> FloatArray:
    """Return values along one axis, NaN where one is missing; at least one is not."""
    values_N = _one_axis(x_N)
    if np.isnan(values_N).all():
        raise SampleShapeError(
            f"all {values_N.size} values are missing; a mean needs at least one question"
        )
    return values_N


def mean_of_estimates(
    parts: Sequence[Estimate], *, correlations_BB: FloatArray
) -> Estimate:
    """Average B estimates, each counting alike, and propagate the uncertainty of each.

        x̄ = Σ_b x_b / B
        L = x̄ − √(Σ_ij ρ_ij (x_i − l_i)(x_j − l_j)) / B
        U = x̄ + √(Σ_ij ρ_ij (u_i − x_i)(u_j − x_j)) / B

    Each side of an interval stands for the standard error of its part on that side (the method of
    variance estimates recovery, MOVER). This keeps the information in a part's own interval: two
    parts of 8 items on which nothing differs are 0 ± 32 points each, and together 0 ± 23, where a
    bootstrap of the items would draw nothing but zeros. For large samples it is the interval from
    the standard error √(Σ_b se_b²) / B.

    Args:
        parts: estimates with limits at one confidence, which is that of the result.
        correlations_BB: ρ of the estimates, 1 on the diagonal; 0 where they are independent.

    Returns:
        The interval, over B parts; unknown if that of a part is.

    Reference: Zou and Donner, Construction of confidence limits about effect measures: a general
    approach, Statistics in Medicine 27 (2008).
    """
    means_B = np.array([part.number for part in parts])
    lows_B = np.array([part.low for part in parts], dtype=np.float64)
    highs_B = np.array([part.high for part in parts], dtype=np.float64)
    mean = float(means_B.mean())
    if np.isnan(lows_B).any() or np.isnan(highs_B).any():
        return Estimate(mean, n=len(parts))
    low = mean - _mean_half(np.abs(lows_B - means_B), correlations_BB)
    high = mean + _mean_half(np.abs(highs_B - means_B), correlations_BB)
    return Estimate(mean, low, high, len(parts))


def _mean_half(halves_B: FloatArray, correlations_BB: FloatArray) -> float:
    """Return the half width of a mean on one side, from those of its parts."""
    square = max(float(halves_B @ correlations_BB @ halves_B), 0.0)
    return math.sqrt(square) / halves_B.size


def shared_correlations(
    samples: Sequence[tuple[FloatArray, Sequence[str]]],
) -> FloatArray:
    """Correlate the means of samples that share clusters, as GPQA Diamond's items are Main's.

        ρ_ij = Σ_c u_ic u_jc / √(Σ_c u_ic² Σ_c u_jc²),   u_ic = Σ_{n ∈ c} (x_n − x̄_i)

    u is the amount by which cluster c moves the mean. Where a sample has no spread, the shared
    clusters are taken to agree: u_ic is then the number of values of c. A correlation below 0
    counts as 0: a few shared items are no reason to trust an average more than independent ones.

    Args:
        samples: values and clusters of each sample; the names of clusters are common to all.

    Returns:
        Shape [B, B]; 1 on the diagonal.
    """
    names: set[str] = set()
    for _, clusters_N in samples:
        names.update(clusters_N)
    places = {name: place for place, name in enumerate(sorted(names))}
    moves_BC = np.zeros((len(samples), len(names)))
    counts_BC = np.zeros((len(samples), len(names)))
    for index, (values_N, clusters_N) in enumerate(samples):
        places_N = np.array([places[name] for name in clusters_N])
        np.add.at(moves_BC[index], places_N, values_N - values_N.mean())
        np.add.at(counts_BC[index], places_N, 1.0)
    moves_BC[np.abs(moves_BC) < _ROUNDING] = 0.0
    correlations_BB = np.eye(len(samples))
    for i, j in combinations(range(len(samples)), 2):
        a_C = moves_BC[i]
        b_C = moves_BC[j]
        if not (a_C.any() and b_C.any()):
            a_C = counts_BC[i]
            b_C = counts_BC[j]
        cosine = float(a_C @ b_C) / math.sqrt(float(a_C @ a_C) * float(b_C @ b_C))
        correlations_BB[i, j] = max(cosine, 0.0)
        correlations_BB[j, i] = max(cosine, 0.0)
    return correlations_BB


_ROUNDING = 1e-12
"""Largest difference of equal values from their mean."""
