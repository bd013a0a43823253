"""The interval of an average over benchmarks, from the intervals of its parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_eval.statistics.intervals import Interval

_ROUNDING: Final = 1e-12
"""What equal values may differ from their mean by."""


def mean_of_intervals(parts: Sequence[Interval], *, correlations_BB: FloatArray) -> Interval:
    """Average B estimates, each counting alike, and propagate the uncertainty of each.

        x̄ = Σ_b x_b / B
        L = x̄ − √(Σ_ij ρ_ij (x_i − l_i)(x_j − l_j)) / B
        U = x̄ + √(Σ_ij ρ_ij (u_i − x_i)(u_j − x_j)) / B

    Each side of an interval stands for the standard error of its part on that side (the method of
    variance estimates recovery, MOVER). So what a part's own interval knows is kept: two parts of
    8 items on which nothing differs are 0 ± 32 points each, and together 0 ± 23, where a bootstrap
    of the items would draw nothing but zeros. For large samples it is the interval from the
    standard error √(Σ_b se_b²) / B.

    Args:
        parts: estimates with limits at one confidence, which is that of the result.
        correlations_BB: ρ of the estimates, 1 on the diagonal; 0 where they are independent.

    Returns:
        The interval, over B parts; unknown where that of a part is.

    Reference: Zou and Donner, Construction of confidence limits about effect measures: a general
    approach, Statistics in Medicine 27 (2008).
    """
    means_B = np.array([part.mean for part in parts])
    limits_2B = np.array([[part.ci_low for part in parts], [part.ci_high for part in parts]], float)
    mean, low, high = float(means_B.mean()), None, None
    if not np.isnan(limits_2B).any():
        halves_2B = np.abs(limits_2B - means_B)
        down, up = (
            math.sqrt(max(float(half_B @ correlations_BB @ half_B), 0.0)) / len(parts)
            for half_B in halves_2B
        )
        low, high = mean - down, mean + up
    return Interval(mean=mean, ci_low=low, ci_high=high, n=len(parts))


def shared_correlations(samples: Sequence[tuple[FloatArray, Sequence[str]]]) -> FloatArray:
    """Correlate the means of samples that share clusters, as GPQA Diamond's items are Main's.

        ρ_ij = Σ_c u_ic u_jc / √(Σ_c u_ic² Σ_c u_jc²),   u_ic = Σ_{n ∈ c} (x_n − x̄_i)

    u is what cluster c moves the mean by. Where nothing of a sample spreads, the shared clusters
    are taken to agree: u_ic is then how many values c has. A correlation below 0 counts as 0: a few
    shared items are no reason to trust an average more than independent ones.

    Args:
        samples: values of each, and the cluster of each value by names that all samples share.

    Returns:
        Shape [B, B]; 1 on the diagonal.
    """
    names = sorted({name for _, clusters_N in samples for name in clusters_N})
    place = {name: at for at, name in enumerate(names)}
    moves_BC, counts_BC = (np.zeros((len(samples), len(names))) for _ in range(2))
    for at, (values_N, clusters_N) in enumerate(samples):
        of_N = np.array([place[name] for name in clusters_N])
        np.add.at(moves_BC[at], of_N, values_N - values_N.mean())
        np.add.at(counts_BC[at], of_N, 1.0)
    moves_BC[np.abs(moves_BC) < _ROUNDING] = 0.0
    correlations_BB = np.eye(len(samples))
    for i, j in combinations(range(len(samples)), 2):
        a_C, b_C = moves_BC[i], moves_BC[j]
        if not (a_C.any() and b_C.any()):
            a_C, b_C = counts_BC[i], counts_BC[j]
        cosine = float(a_C @ b_C) / math.sqrt(float(a_C @ a_C) * float(b_C @ b_C))
        correlations_BB[i, j] = correlations_BB[j, i] = max(cosine, 0.0)
    return correlations_BB
