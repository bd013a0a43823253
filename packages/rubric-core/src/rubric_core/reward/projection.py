"""Rewards of judgements, and the contributions of criteria to them."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rubric_core.arrays import BoolArray, FloatArray, check_each, float_array
from rubric_core.effective import shares
from rubric_core.errors import RewardError, RewardShapeError, UnavailableRewardError
from rubric_core.judgement.result import JudgeResult
from rubric_core.outcome import Outcome
from rubric_core.schema.rubric import Rubric

OnUnavailable = Literal["mask", "zero", "raise"]


class GroupRewards(NamedTuple):
    """Rewards of a batch with the mask of those that exist."""

    rewards_PG: FloatArray
    """Rewards in [0, 1]; nan where masked."""

    valid_PG: BoolArray
    """False where the judge was unavailable and the sample is masked."""


def raw_reward(result: JudgeResult) -> float:
    """Return the awarded weight.

        r_raw = Σ_j s_j

    Returns:
        The sum of the scores, correctly rounded; 0 for an invalid judgement.

    Raises:
        UnavailableRewardError: the judgement did not happen, so there is no reward.

    Source: paper, §3.1, Eq. judge_scores.
    """
    if result.outcome is Outcome.UNAVAILABLE:
        raise UnavailableRewardError(
            f"no reward: the judge was unavailable ({result.reason}); mask the sample"
        )
    return math.fsum(result.scores.values())


def normalized_reward(result: JudgeResult, rubric: Rubric) -> float:
    """Return the awarded share of the rubric's weight.

        r = 1/W · Σ_j s_j

    Args:
        result: a judgement under this rubric.
        rubric: gives w_j and W.

    Returns:
        In [0, 1], clipped against rounding only; 0 for an invalid judgement.

    Raises:
        UnavailableRewardError: the judgement did not happen, so there is no reward.
        SchemaError: the scores are not this rubric's: other ids, or s_j outside [0, w_j].

    Source: paper, §3.1, Eq. norm_reward.
    """
    raw = raw_reward(result)
    if result.outcome is Outcome.SCORED:
        rubric.check_scores(result.scores)
    return min(max(raw / rubric.total_weight, 0.0), 1.0)


def criterion_scores_z(result: JudgeResult, rubric: Rubric) -> FloatArray:
    """Return each criterion's score as a share of its weight.

        z_j = s_j / w_j

    Args:
        result: a judgement under this rubric.
        rubric: gives w_j and the order.

    Returns:
        Shape [M], in [0, 1], in the rubric's order; nan for a criterion of weight 0. All 0 for an
        invalid judgement, whose reward is 0.

    Raises:
        UnavailableRewardError: the judgement did not happen.
        SchemaError: the scores are not this rubric's: other ids, or s_j outside [0, w_j].

    Source: paper, §3.3, Eq. rubric_projection.
    """
    raw_reward(result)  # refuses an unavailable judgement
    weights_M = rubric.weights_M
    scores_M = np.zeros(len(rubric))
    if result.outcome is Outcome.SCORED:
        rubric.check_scores(result.scores)
        scores_M = np.array([result.scores[key] for key in rubric.ids])
    positive_M = weights_M > 0
    return np.divide(
        scores_M, weights_M, out=np.full(len(rubric), np.nan), where=positive_M
    )


def weighted_scores_z(result: JudgeResult, rubric: Rubric) -> dict[str, float]:
    """Return z_j of the criteria with weight by id; nothing unless the answer was scored.

    Raises:
        SchemaError: as `criterion_scores_z`.
    """
    if result.outcome is not Outcome.SCORED:
        return {}
    z_M = criterion_scores_z(result, rubric).tolist()
    pairs = zip(rubric, z_M, strict=True)
    return {criterion.id: z for criterion, z in pairs if criterion.weight}


def shares_by_id(rubric: Rubric) -> dict[str, float]:
    """Return the share of each criterion in the reward, α_j = w_j / W, by its id."""
    return dict(zip(rubric.ids, rubric.shares_M.tolist(), strict=True))


def project(z_M: ArrayLike, weights_M: ArrayLike) -> float:
    """Return the reward that criterion scores add up to.

        r = Σ_j α_j z_j = αᵀz

    Args:
        z_M: shape [M], in [0, 1] where w_j > 0; not read where w_j = 0.
        weights_M: shape [M], every w_j ≥ 0 and finite, W > 0.

    Returns:
        In [0, 1]; equal to `normalized_reward` within rounding.

    Raises:
        RewardShapeError: not two [M].
        RewardError: z_j outside [0, 1], or weights that no reward can be computed from.

    Source: paper, §3.3, Eq. rubric_projection.
    """
    alpha_M = shares(weights_M)
    return min(math.fsum(alpha_M * _checked_z(z_M, alpha_M)), 1.0)


def reward_delta(
    z_a_M: ArrayLike, z_b_M: ArrayLike, weights_M: ArrayLike
) -> FloatArray:
    """Return the contribution of each criterion to the difference of two rewards.

        r(y_a) − r(y_b) = Σ_j α_j [z_j(y_a) − z_j(y_b)]

    Args:
        z_a_M: shape [M], in [0, 1] where w_j > 0; not read where w_j = 0.
        z_b_M: likewise.
        weights_M: shape [M], every w_j ≥ 0 and finite, W > 0.

    Returns:
        Shape [M]: α_j Δz_j, which sum to r(y_a) − r(y_b).

    Raises:
        RewardShapeError: not three [M].
        RewardError: z_j outside [0, 1], or weights that no reward can be computed from.

    Source: paper, §3.3, Eq. criterion_delta.
    """
    alpha_M = shares(weights_M)
    return alpha_M * (_checked_z(z_a_M, alpha_M) - _checked_z(z_b_M, alpha_M))


def group_rewards(
    results_PG: Sequence[Sequence[JudgeResult]],
    rubrics_P: Sequence[Rubric],
    *,
    on_unavailable: OnUnavailable = "mask",
) -> GroupRewards:
    """Return the normalised rewards of a batch, and which of them exist.

    Args:
        results_PG: P groups of G judgements.
        rubrics_P: one rubric per group.
        on_unavailable: "mask" leaves the sample out of baseline, std and loss; "zero" gives it
            reward 0, which makes network failures part of the reward; "raise" stops.

    Returns:
        Rewards [P, G], nan where masked, and the mask [P, G].

    Raises:
        RewardShapeError: groups of different size, or not one rubric per group.
        UnavailableRewardError: an unavailable judgement under "raise".
        SchemaError: scores that are not their rubric's.
        RewardError: an unknown `on_unavailable`.

    Source: paper, §3.1, Eq. norm_reward.
    """
    sizes = {len(group) for group in results_PG}
    if len(results_PG) != len(rubrics_P) or len(sizes) > 1:
        raise RewardShapeError(
            f"{len(rubrics_P)} rubrics for {len(results_PG)} groups of {sorted(sizes)} results"
        )
    if on_unavailable not in ("mask", "zero", "raise"):
        raise RewardError(
            f"on_unavailable must be 'mask', 'zero' or 'raise', not {on_unavailable!r}"
        )
    rewards_PG = np.full((len(results_PG), max(sizes, default=0)), np.nan)
    for p, (group, rubric) in enumerate(zip(results_PG, rubrics_P, strict=True)):
        for g, result in enumerate(group):
            if result.outcome is not Outcome.UNAVAILABLE or on_unavailable == "raise":
                rewards_PG[p, g] = normalized_reward(result, rubric)
            elif on_unavailable == "zero":
                rewards_PG[p, g] = 0.0
    return GroupRewards(rewards_PG, ~np.isnan(rewards_PG))


def _checked_z(z_M: ArrayLike, alpha_M: FloatArray) -> FloatArray:
    """Return z, 0 where the criterion has no weight, which may be nan."""
    z = float_array(z_M, name="z_M", axes="M")
    if z.shape != alpha_M.shape:
        raise RewardShapeError(
            f"z_M has shape {z.shape}, weights_M has {alpha_M.shape}"
        )
    z = np.where(alpha_M > 0, z, 0.0)
    check_each(z, (z >= 0) & (z <= 1), name="z_M", problem=", not in [0, 1]")
    return z
