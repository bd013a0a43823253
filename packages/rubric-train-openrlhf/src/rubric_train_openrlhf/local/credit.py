"""From the judgements of a step to advantages, in float64, with the share of every criterion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rubric_core import (
    Outcome,
    criterion_attribution,
    criterion_scores_z,
    decoupled_advantages,
    group_advantages,
    group_rewards,
    length_penalty,
    truncation_penalty,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rubric_core import JudgeResult, Rubric
    from rubric_train_openrlhf.config import AdvantageConfig, TrainConfig
    from rubric_train_openrlhf.local.batch import JudgedBatch

    FloatArray = npt.NDArray[np.float64]
    BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rewards:
    """Rewards of P groups of G, and the criterion scores that they are made of."""

    rewards_PG: FloatArray
    """The judge's, in [0, 1]; nan where masked."""
    valid_PG: BoolArray
    """False where an unavailable judgement is left out."""
    z_PGM: FloatArray
    """Criterion scores, padded to the longest rubric; nan where there is none."""
    weights_PM: FloatArray
    """Criterion weights, padded with 0."""


@dataclass(frozen=True)
class Credit:
    """Advantages, and what each criterion gave to them."""

    advantages_PG: FloatArray
    attribution_PGM: FloatArray
    """Sums over M, with `shaping_PG`, to the advantages; nan under the decoupled estimator, which
    has no such split."""
    shaping_PG: FloatArray
    """What the penalties added; exactly 0 without any."""


def judge_rewards(
    batch: JudgedBatch, rubrics_P: Sequence[Rubric], *, config: TrainConfig
) -> Rewards:
    """Turn results into rewards.

    Args:
        batch: P groups of results.
        rubrics_P: the rubric of each group.
        config: says what an unreachable judge means.

    Returns:
        The judge's rewards, without penalties.

    Raises:
        UnavailableRewardError: a judge was not reached and on_unavailable is "raise".
    """
    rewards_PG, valid_PG = group_rewards(
        batch.results_PG, rubrics_P, on_unavailable=config.judge.on_unavailable
    )
    longest = max(map(len, rubrics_P))
    z_PGM = np.full((len(rubrics_P), batch.group_size, longest), np.nan)
    weights_PM = np.zeros((len(rubrics_P), longest))
    for p, (group, rubric) in enumerate(zip(batch.results_PG, rubrics_P, strict=True)):
        weights_PM[p, : len(rubric)] = rubric.weights_M
        for g, result in enumerate(group):
            if valid_PG[p, g]:
                z_PGM[p, g, : len(rubric)] = _scores_z(result, rubric)
    return Rewards(rewards_PG, valid_PG, z_PGM, weights_PM)


def shaped_rewards(rewards: Rewards, batch: JudgedBatch, *, config: TrainConfig) -> FloatArray:
    """Apply the penalties that are switched on.

        R' = R · α_stop (without the stop token) + length penalty ∈ [−1, 0]

    Args:
        rewards: the judge's.
        batch: the responses' lengths, and whether they ended.
        config: penalties and the longest response.

    Returns:
        Shape [P, G]; the judge's rewards themselves when no penalty is on.

    Source: paper, §C, reward shaping.
    """
    shaped_PG = rewards.rewards_PG
    if config.shaping.alpha_stop is not None:
        ended_PG = batch.rollouts.ended_B.cpu().numpy().reshape(shaped_PG.shape)
        shaped_PG = truncation_penalty(shaped_PG, ended_PG, alpha_stop=config.shaping.alpha_stop)
    if config.shaping.length_penalty is not None:
        lengths_PG = batch.rollouts.lengths_B.cpu().numpy().reshape(shaped_PG.shape)
        shaped_PG = shaped_PG + length_penalty(
            lengths_PG,
            max_length=config.rollout.max_new_tokens,
            buffer=config.shaping.length_penalty.buffer_tokens,
        )
    return shaped_PG


def assign_credit(rewards: Rewards, shaped_PG: FloatArray, *, config: AdvantageConfig) -> Credit:
    """Compute the advantages of all groups and split each into its criteria's contributions.

    Args:
        rewards: the judge's, with the criterion scores.
        shaped_PG: what the policy is trained on, [P, G].
        config: estimator, standard deviation and δ.

    Returns:
        Advantages in float64, 0 for masked responses.
    """
    valid_PG = rewards.valid_PG
    nothing_PG = np.zeros_like(shaped_PG)
    if config.estimator == "decoupled":
        advantages_PG = decoupled_advantages(
            rewards.z_PGM, rewards.weights_PM, delta=config.delta, valid_PG=valid_PG
        )
        return Credit(advantages_PG, np.full_like(rewards.z_PGM, np.nan), nothing_PG)
    advantages_PG = group_advantages(
        shaped_PG, std=config.std, delta=config.delta, valid_PG=valid_PG
    )
    attribution_PGM = criterion_attribution(
        rewards.z_PGM, rewards.weights_PM, std=config.std, delta=config.delta, valid_PG=valid_PG
    )
    if shaped_PG is rewards.rewards_PG:
        return Credit(advantages_PG, attribution_PGM, nothing_PG)
    return Credit(advantages_PG, attribution_PGM, advantages_PG - attribution_PGM.sum(axis=2))


def _scores_z(result: JudgeResult, rubric: Rubric) -> FloatArray:
    """Criterion scores; an unavailable judgement that is still valid counts as 0 by config."""
    if result.outcome is Outcome.UNAVAILABLE:
        return np.where(rubric.weights_M > 0, 0.0, np.nan)
    return criterion_scores_z(result, rubric)
