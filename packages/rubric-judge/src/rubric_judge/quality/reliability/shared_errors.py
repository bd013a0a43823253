"""Errors, against human labels, that criteria or judges share; how many independent ones they are.

The variance between calls says nothing about such errors. An answer that is hard to judge by one
criterion is hard by the others, and for other judges.
"""

import math

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_judge.quality.reliability.ratings import Cells, IntArray, Statistic, ratio

_FEWEST = 2
"""Fewest judges, and responses, for a correlation."""


def centred_errors(
    error_NM: FloatArray,
    cells: Cells,
    weights_N: FloatArray | None = None,
) -> FloatArray:
    """Return errors of each criterion less their mean over all responses.

    A constant error on a criterion is bias, not a spread, and is in no advantage.

    Args:
        error_NM: judge − reference, nan where either is missing.
        cells: for each criterion, or pool of criteria, its indices (n, m).
        weights_N: weight of each response in the mean.
    """
    centred_NM = error_NM.copy()
    for n, m in cells.values():
        is_present = ~np.isnan(error_NM[n, m])
        if is_present.any():
            error_C = error_NM[n, m][is_present]
            weights_C = None if weights_N is None else weights_N[n][is_present]
            centred_NM[n, m] -= np.average(error_C, weights=weights_C)
    return centred_NM


def error_correlation(error_NM: FloatArray) -> Statistic:
    """Return the mean correlation of two criteria's errors on the same response.

        ρ = Σ_i Σ_{j≠k} e_ij e_ik / Σ_i (M_i − 1) Σ_j e_ij²

    over the M_i criteria of each response that have a label and a score: the intraclass
    correlation of criteria within a response, in which a criterion that errs more counts more.

    Returns:
        The statistic over rows: 1 for errors that are always equal, 0 for independent ones.

    Source: Fleiss, The Design and Analysis of Clinical Experiments (1986), ch. 1.
    """
    count_N = (~np.isnan(error_NM)).sum(axis=1)
    squares_N = np.nansum(error_NM**2, axis=1)
    products_N = np.nansum(error_NM, axis=1) ** 2 - squares_N
    return ratio(products_N, np.maximum(count_N - 1, 0) * squares_N)


def error_inflation(error_NM: FloatArray, alpha_NM: FloatArray) -> Statistic:
    """Return Var(Σ_j α_j e_j) / Σ_j α_j² Var(e_j): 1 for independent errors."""
    weighted_NM = alpha_NM * np.nan_to_num(error_NM)
    squares_of_sum_N = weighted_NM.sum(axis=1) ** 2
    sums_of_squares_N = (weighted_NM**2).sum(axis=1)
    return ratio(squares_of_sum_N, sums_of_squares_N)


def effective_criteria(error_NM: FloatArray, alpha_NM: FloatArray) -> Statistic:
    """Return the number of criteria with independent errors that would err as the reward does.

        M_err = M_eff / deff,   deff = Var(Σ_j α_j e_j) / Σ_j α_j² Var(e_j)
        1 / M_eff = mean Σ_j α_j²

    For M equal weights and errors that correlate by ρ it is M / (1 + (M − 1) ρ), between 1 and M;
    more where errors cancel.

    Args:
        error_NM: errors from `centred_errors`.
        alpha_NM: shares α_j of each response's rubric.

    Returns:
        The statistic over rows; nan if the errors have no variance.

    Source: Kish, Survey Sampling (1965), §5.4 and §8.2: n / deff, deff = 1 + (m − 1) ρ.
    """
    inflation = error_inflation(error_NM, alpha_NM)

    def statistic(rows: IntArray) -> float:
        factor = inflation(rows)
        return mean_effective(alpha_NM, rows) / factor if factor > 0 else math.nan

    return statistic


def mean_effective(alpha_NM: FloatArray, rows: IntArray) -> float:
    """Return M_eff of the rubrics of some rows, their harmonic mean; nan without a row."""
    if not len(rows):
        return math.nan
    inverse_N = (alpha_NM[rows] ** 2).sum(axis=1)
    return 1 / float(inverse_N.mean())


def effective_judges_by_errors(
    rewards_JN: FloatArray, reference_N: FloatArray
) -> Statistic:
    """Return the number of independent judges whose mean would err as that of these does.

        J_err = mean_j Var(e_j) / Var(mean_j e_j),   e_j = r_j − r_reference

    J for judges that err independently, 1 for those that err alike: J / (1 + (J − 1) ρ). The
    reference's own errors are in all e_j, so the estimate is biased low.

    Args:
        rewards_JN: rewards of the judges, without the reference.
        reference_N: rewards by the labels.

    Returns:
        The statistic over rows that all have scored; nan for a single judge, or if their mean
        error has no variance.

    Source: Kish, Survey Sampling (1965), §5.4 and §8.2, as `effective_criteria`.
    """

    def statistic(rows: IntArray) -> float:
        return _worth(rewards_JN[:, rows] - reference_N[rows])

    return statistic


def effective_without_weakest(
    rewards_JN: FloatArray, reference_N: FloatArray
) -> Statistic:
    """Return `effective_judges_by_errors` without the judge whose squared error is largest.

        argmax_j Σ_i (r_ij − r_reference,i)²

    A weak judge whose errors are its own is worth more to a mean than a better one that errs as
    the others do: where this falls by more than a judge's share, the mean is worse without it.

    Args:
        rewards_JN: rewards of the judges, without the reference.
        reference_N: rewards by the labels.

    Returns:
        The statistic over rows that all have scored; nan for fewer than three judges.
    """

    def statistic(rows: IntArray) -> float:
        error_JN = rewards_JN[:, rows] - reference_N[rows]
        weakest = int((error_JN**2).sum(axis=1).argmax())
        return _worth(np.delete(error_JN, weakest, axis=0))

    return statistic


def _worth(error_JN: FloatArray) -> float:
    """Return J_err of some judges' errors; see `effective_judges_by_errors`."""
    if min(error_JN.shape) < _FEWEST:
        return math.nan
    together = float(error_JN.mean(axis=0).var())
    if together <= 0:
        return math.nan
    return float(error_JN.var(axis=1).mean()) / together
