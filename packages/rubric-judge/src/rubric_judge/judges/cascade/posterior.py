"""Knowledge of a group's cells: the cheap judge's probabilities, and the strong one's verdicts.

The axes are G responses and M criteria, as in `value`; Q are the rates that a criterion may have.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rubric_core.arrays import BoolArray, FloatArray

_RATES = 48
_SUREST = 1e-6
_HALF = 0.5
_LEAST = 1e-3


@dataclass(frozen=True)
class Readings:
    """The cheap judge's readings of a group, by its calibration."""

    mean_GM: FloatArray
    """p: expected value of the strong judge's verdict on each cell, in [0, 1]; nan where the cheap
    judge said nothing."""
    base_M: FloatArray | None = None
    """b: mean verdict on such criteria in the calibration; None for ½."""
    dispersion_M: FloatArray | None = None
    """Variance of a verdict, as a share of m (1 − m); None where it is met or unmet, as 1."""
    alike: float = 0.0
    """Intraclass correlation of the strong judge's verdicts on a criterion of one task."""
    shared: float = 0.0
    """The same of whether the cheap judge's verdict is the strong one's."""
    together: float = 0.0
    """Correlation of the errors of p on two criteria of one response."""


class Posterior(NamedTuple):
    """Expected values of the cells, and how far they may be off."""

    mean_GM: FloatArray
    """Expected values; the strong judge's verdicts where they are known."""
    variance_GM: FloatArray
    """Their variances; 0 where they are known."""
    sum_variance_M: FloatArray
    """Variance of each criterion's sum over the responses."""


def posterior(readings: Readings, known_GM: FloatArray) -> Posterior:
    """Return what is to be expected of each cell, given the strong verdicts on its criterion.

        P(z | x) ∝ Σ_S P(S) ∫ Π_i P_S(z_i | x_i) π(z_i) / b(z_i) dP(π)

    A criterion of a task has a rate π at which its responses meet it, Beta-distributed about b with
    the intraclass correlation `alike`: what all siblings met, a doubtful one probably meets. And in
    one of three states S the cheap judge reads each response for itself (P_S = p), or, in a share
    `shared` of the criteria, all of them rightly or all of them wrongly: what it misread once, it
    misread for the group.

    Args:
        readings: of the group.
        known_GM: shape [G, M], the strong judge's verdicts as shares of the weight; nan if unknown.

    Returns:
        The posterior; p itself where `alike` and `shared` are 0 and nothing is known.

    Source: empirical Bayes, the beta-binomial model and a mixture of two.
    """
    is_known_GM = ~np.isnan(known_GM)
    if readings.alike <= 0 and readings.shared <= 0:
        return _apart(readings, known_GM, is_known_GM)
    mean_SQGM, weight_SQM = _states(readings, known_GM, is_known_GM)
    mean_GM = np.einsum("sqm,sqgm->gm", weight_SQM, mean_SQGM)
    mean_GM = np.where(is_known_GM, known_GM, mean_GM)
    variance_GM = np.where(is_known_GM, 0.0, mean_GM * (1 - mean_GM))
    own_SQM = (mean_SQGM * (1 - mean_SQGM)).sum(axis=2)
    sums_SQM = mean_SQGM.sum(axis=2)
    sum_M = np.einsum("sqm,sqm->m", weight_SQM, sums_SQM)
    sum_variance_M = np.einsum(
        "sqm,sqm->m", weight_SQM, own_SQM + (sums_SQM - sum_M) ** 2
    )
    dispersion_M = readings.dispersion_M
    if dispersion_M is not None:
        variance_GM = variance_GM * dispersion_M
        sum_variance_M = sum_variance_M * dispersion_M
    return Posterior(mean_GM, variance_GM, sum_variance_M)


def _apart(
    readings: Readings, known_GM: FloatArray, is_known_GM: BoolArray
) -> Posterior:
    """Return p itself where nothing is known: no response tells of another."""
    base_M = np.full(known_GM.shape[1], _HALF)
    if readings.base_M is not None:
        base_M = readings.base_M
    mean_GM = np.where(np.isnan(readings.mean_GM), base_M, readings.mean_GM)
    mean_GM = np.where(is_known_GM, known_GM, mean_GM)
    variance_GM = np.where(is_known_GM, 0.0, mean_GM * (1 - mean_GM))
    if readings.dispersion_M is not None:
        variance_GM = variance_GM * readings.dispersion_M
    return Posterior(mean_GM, variance_GM, variance_GM.sum(axis=0))


def _states(
    readings: Readings, known_GM: FloatArray, is_known_GM: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the cells' expected values and the weight of each state and rate."""
    base_M = readings.base_M
    if base_M is None:
        base_M = np.full(known_GM.shape[1], _HALF)
    base_M = np.clip(base_M, _LEAST, 1 - _LEAST)
    is_read_GM = ~np.isnan(readings.mean_GM)
    mean_GM = np.where(is_read_GM, readings.mean_GM, base_M)
    mean_GM = np.clip(mean_GM, _SUREST, 1 - _SUREST)
    rate_QM, rate_weight_QM = _rates(base_M, readings.alike)
    verdict_GM = (mean_GM >= _HALF).astype(np.float64)
    met_SGM = np.stack([mean_GM, verdict_GM, 1 - verdict_GM])
    met_SGM = np.where(is_read_GM, met_SGM, mean_GM)
    right_M = np.maximum(mean_GM, 1 - mean_GM).mean(axis=0)
    shared_M = np.full_like(right_M, readings.shared)
    state_SM = np.stack([1 - shared_M, shared_M * right_M, shared_M * (1 - right_M)])
    met_SQGM = met_SGM[:, None] * (rate_QM / base_M)[None, :, None]
    unmet_SQGM = (1 - met_SGM)[:, None] * ((1 - rate_QM) / (1 - base_M))[None, :, None]
    # A known cell leaves what its verdict allows; of a score between, parts of both.
    share_GM = np.where(is_known_GM, np.nan_to_num(known_GM), 1.0)
    met_SQGM = met_SQGM * share_GM
    unmet_SQGM = unmet_SQGM * np.where(is_known_GM, 1 - share_GM, 1.0)
    both_SQGM = met_SQGM + unmet_SQGM
    with np.errstate(divide="ignore"):
        log_SQM = np.log(both_SQGM).sum(axis=2)
        log_SQM += np.log(state_SM)[:, None] + np.log(rate_weight_QM)
    log_SQM -= log_SQM.max(axis=(0, 1))
    weight_SQM = np.exp(log_SQM)
    weight_SQM /= weight_SQM.sum(axis=(0, 1))
    mean_SQGM = met_SQGM / np.where(both_SQGM > 0, both_SQGM, 1.0)
    return mean_SQGM, weight_SQM


def _rates(base_M: FloatArray, alike: float) -> tuple[FloatArray, FloatArray]:
    """Return rates and their weights: Beta(b s, (1 − b) s), s = 1/ρ − 1; b alone for ρ = 0."""
    if alike <= 0:
        return base_M[None], np.ones((1, len(base_M)))
    strength = 1 / alike - 1
    # Even steps of the angle are dense at both ends, where the density may be infinite.
    angle_Q1 = ((np.arange(_RATES) + _HALF) * math.pi / 2 / _RATES)[:, None]
    rate_Q1 = np.sin(angle_Q1) ** 2
    log_QM = (2 * base_M * strength - 1) * np.log(np.sin(angle_Q1)) + (
        2 * (1 - base_M) * strength - 1
    ) * np.log(np.cos(angle_Q1))
    weight_QM = np.exp(log_QM - log_QM.max(axis=0))
    weight_QM /= weight_QM.sum(axis=0)
    return np.broadcast_to(rate_Q1, weight_QM.shape), weight_QM
