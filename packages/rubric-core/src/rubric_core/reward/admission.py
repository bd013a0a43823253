"""Admission of criteria to the reward, and binary scores corrected for a judge's errors."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from rubric_core.arrays import FloatArray, check_each
from rubric_core.errors import RewardError, RewardShapeError
from rubric_core.judgement.result import JudgeResult
from rubric_core.schema.rubric import Criterion, Rubric


def admitted_rubric(rubric: Rubric, factors: Mapping[str, float]) -> Rubric:
    """Return the rubric with each weight multiplied by its factor.

        w_j' = f_j · w_j,   W' = Σ_j w_j'

    All that is computed from weights follows: reward, shares α_j', M_eff. With `admitted_result`
    the reward is Σ_j f_j s_j / Σ_j f_j w_j, and with all factors 1 exactly Σ_j s_j / W.

    Args:
        rubric: as the judge sees it.
        factors: f_j in [0, 1] by criterion id; 0 masks, and a missing factor is 1.

    Raises:
        RewardError: a factor outside [0, 1], or nothing is left of the rubric's weight.

    Source: paper, §3.1, Eq. norm_reward.
    """
    for name in rubric.ids:
        if not 0 <= factors.get(name, 1.0) <= 1:
            raise RewardError(
                f"the factor of {name!r} is {factors[name]!r}, not in [0, 1]"
            )
    criteria: list[Criterion] = []
    for criterion in rubric:
        weight = factors.get(criterion.id, 1.0) * criterion.weight
        criteria.append(criterion.model_copy(update={"weight": weight}))
    if not sum(criterion.weight for criterion in criteria) > 0:
        masked = ", ".join(criterion.id for criterion in rubric if criterion.weight > 0)
        raise RewardError(
            f"every criterion with weight is masked ({masked}), so the rubric gives no reward: "
            "leave its tasks out, or have these criteria judged by a judge that can"
        )
    return rubric.model_copy(update={"criteria": tuple(criteria)})


def admitted_result(result: JudgeResult, factors: Mapping[str, float]) -> JudgeResult:
    """Return the judgement with each score multiplied by its factor, s_j' = f_j · s_j.

    Args:
        result: a judgement under the rubric itself.
        factors: as for `admitted_rubric`.
    """
    scores: dict[str, float] = {}
    for name, score in result.scores.items():
        scores[name] = factors.get(name, 1.0) * score
    return result.model_copy(update={"scores": scores})


def unbiased_z(z_M: ArrayLike, tpr_M: ArrayLike, fpr_M: ArrayLike) -> FloatArray:
    """Correct binary scores for the rates at which a judge errs.

        ẑ_j = (1[z_j ≥ ½] − FPR_j) / (TPR_j − FPR_j),   E[ẑ_j | label] = label

    The backward correction of a noisy verifier. It leaves [0, 1], from −FPR/J to (1 − FPR)/J, and
    its variance grows as 1/J². Within one rubric it weighs a criterion by 1/J_j: a single criterion
    whose advantages are divided by their deviation learns as before.

    Args:
        z_M: shape [M], scores in [0, 1]; met is at least ½. nan stays nan.
        tpr_M: shape [M], P(met | label met); nan where it is unknown, which leaves z as it is.
        fpr_M: shape [M], P(met | label not met).

    Returns:
        Shape [M], finite where z is.

    Raises:
        RewardShapeError: not three [M].
        RewardError: a score or a rate outside of [0, 1], or TPR ≤ FPR: such scores say
            nothing about the label.

    Source: arXiv 2510.00915 (noisy verifiers), backward correction: ρ₀ = FPR, ρ₁ = 1 − TPR.
    """
    z = np.asarray(z_M, dtype=np.float64)
    tpr = np.asarray(tpr_M, dtype=np.float64)
    fpr = np.asarray(fpr_M, dtype=np.float64)
    if z.ndim != 1 or not z.shape == tpr.shape == fpr.shape:
        raise RewardShapeError(
            f"z {z.shape}, TPR {tpr.shape} and FPR {fpr.shape} must be [M]"
        )
    for name, values in (("z_M", z), ("tpr_M", tpr), ("fpr_M", fpr)):
        is_within = np.isnan(values) | ((values >= 0) & (values <= 1))
        check_each(values, is_within, name=name, problem=", not in [0, 1]")
    known = ~np.isnan(tpr) & ~np.isnan(fpr)
    youden = np.where(known, tpr - fpr, 1.0)
    check_each(
        youden,
        youden > 0,
        name="TPR − FPR",
        problem=", not above 0: mask the criterion",
    )
    met = np.where(np.isnan(z), np.nan, (z >= 0.5).astype(np.float64))  # noqa: PLR2004  # half
    return np.where(known, (met - np.where(known, fpr, 0.0)) / youden, z)
