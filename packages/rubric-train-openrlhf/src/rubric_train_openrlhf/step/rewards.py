"""Rewards, shaped rewards and advantages of judgements: pure functions, in float64."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

import rubric_core as core
from rubric_core import JudgeResult, Outcome, Reason, Rubric, arrays
from rubric_core.arrays import BoolArray, FloatArray
from rubric_core.effective import shares
from rubric_core.reward import estimates, estimators
from rubric_core.reward.projection import OnUnavailable
from rubric_core.reward.weighting import (
    contrast_factors,
    kept_criteria,
    moved_shares,
)
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.randomness import derived_seed
from rubric_train_openrlhf.step.admission import Admission

ALL = Admission()
"""Admission of every criterion at its weight, for a run without a calibration."""
Rewards = estimators.JudgedGroups
"""The judge's rewards of P groups of G, and the criterion scores behind them."""


@dataclass(frozen=True)
class Sizes:
    """Lengths and endings of P groups of G responses, for the penalties."""

    lengths_PG: npt.NDArray[np.int64]
    """Number of tokens, including those of thoughts and the end token."""
    ended_PG: BoolArray
    """Whether a response reached its end token, and its thought its end."""

    @classmethod
    def of(cls, lengths_PG: npt.ArrayLike, ended_PG: npt.ArrayLike) -> Self:
        """Build them from lists."""
        return cls(
            np.asarray(lengths_PG, dtype=np.int64), np.asarray(ended_PG, dtype=np.bool_)
        )


@dataclass(frozen=True)
class Credit:
    """Advantages, and the contributions of the criteria to them."""

    advantages_PG: FloatArray
    attribution_PGM: FloatArray
    """Sums over M, with `shaping_PG`, to the advantages; nan under an estimator that has no such
    split, such as the decoupled one."""
    shaping_PG: FloatArray
    """Contribution of the penalties; exactly 0 without any."""


def judge_rewards(
    results_PG: Sequence[Sequence[JudgeResult]],
    rubrics_P: Sequence[Rubric],
    *,
    on_unavailable: OnUnavailable,
    admission: Admission = ALL,
) -> Rewards:
    """Turn results into rewards.

    Args:
        results_PG: P groups of G results.
        rubrics_P: the rubric of each group.
        on_unavailable: treatment of a judge that is not reached.
        admission: criteria that count, with their factors.

    Returns:
        The judge's rewards by the admitted criteria, without penalties.

    Raises:
        RewardError: nothing of a rubric is admitted.
        UnavailableRewardError: a judge was not reached and on_unavailable is "raise".
    """
    results_PG = [
        [admission.result(judge_result, rubric) for judge_result in group]
        for group, rubric in zip(results_PG, rubrics_P, strict=True)
    ]
    rubrics_P = [admission.rubric(rubric) for rubric in rubrics_P]
    rewards_PG, valid_PG = core.group_rewards(
        results_PG, rubrics_P, on_unavailable=on_unavailable
    )
    # Masked under every `on_unavailable`: a response that an engine left unfinished is not the
    # policy's answer.
    absent_PG = np.array(
        [
            [result.reason is Reason.NO_RESPONSE for result in group]
            for group in results_PG
        ]
    )
    rewards_PG[absent_PG] = np.nan
    valid_PG = valid_PG & ~absent_PG
    longest = max(len(rubric) for rubric in rubrics_P)
    z_PGM = np.full((*rewards_PG.shape, longest), np.nan)
    weights_PM = np.zeros((len(rubrics_P), longest))
    for p, (group, rubric) in enumerate(zip(results_PG, rubrics_P, strict=True)):
        weights_PM[p, : len(rubric)] = rubric.weights_M
        for g, result in enumerate(group):
            if not valid_PG[p, g]:
                continue
            if result.outcome is Outcome.UNAVAILABLE:  # counts as 0 by config
                z_M = np.where(rubric.weights_M > 0, 0.0, np.nan)
            else:
                z_M = core.criterion_scores_z(result, rubric)
                if admission.rates and result.outcome is Outcome.SCORED:
                    z_M = admission.corrected_z(z_M, rubric)
                    rewards_PG[p, g] = np.nansum(rubric.shares_M * z_M)
            z_PGM[p, g, : len(rubric)] = z_M
    return Rewards(rewards_PG, valid_PG, z_PGM, weights_PM)


def reweighted_rewards(
    rewards: Rewards, task_ids_P: Sequence[str], *, step: int, config: TrainConfig
) -> tuple[Rewards, float | None]:
    """Return the rewards that the advantage is computed from, by `rubric_weights`.

        R'_pg = Σ_j α'_pj z_pgj,   α'_pj = f_pj d_pj w_pj / Σ_k f_pk d_pk w_pk

    f is `contrast_factors` of the group's own scores, d the draw of `kept_criteria` by the run's
    seed, the step and the task's id: both follow from the step alone, so a resumed run repeats
    them.

    Args:
        rewards: rewards by the rubric's weights.
        task_ids_P: the task of each group.
        step: number of the step.
        config: configuration of the run.

    Returns:
        The same rewards and None without `rubric_weights`; else the rewards, with α' as weights,
        and the mean over groups of ½ Σ_j |α'_j − α_j|, the share of weight that was moved. A group
        in which nothing is moved keeps its rewards to the last bit.
    """
    weighting = config.rubric_weights
    if weighting is None:
        return rewards, None
    shares_PM = shares(rewards.weights_PM, axes="PM")
    factors_PM = np.ones_like(rewards.weights_PM)
    if weighting.by == "contrast":
        factors_PM = contrast_factors(
            rewards.z_PGM,
            rewards.weights_PM,
            least=weighting.least,
            most=weighting.most,
            valid_PG=rewards.valid_PG,
        )
    for p, task_id in enumerate(task_ids_P if weighting.dropout else ()):
        part = zlib.crc32(task_id.encode())
        seed = derived_seed(config.seed, step=step, purpose="dropout", part=part)
        factors_PM[p] *= kept_criteria(
            rewards.weights_PM[p],
            dropout=weighting.dropout,
            generator=np.random.default_rng(seed),
        )
    moved_PM = moved_shares(rewards.weights_PM, factors_PM)
    moved_P = (moved_PM != shares_PM).any(axis=1)
    sums_PG = np.nansum(moved_PM[:, None, :] * rewards.z_PGM, axis=2)
    rewards_PG = np.where(
        moved_P[:, None] & rewards.valid_PG, sums_PG, rewards.rewards_PG
    )
    weights_PM = np.where(moved_P[:, None], moved_PM, rewards.weights_PM)
    moved = float(np.abs(moved_PM - shares_PM).sum(axis=1).mean() / 2)
    reweighted = replace(rewards, rewards_PG=rewards_PG, weights_PM=weights_PM)
    return reweighted, moved


def shaped_rewards(
    rewards_PG: FloatArray, sizes: Sizes, *, config: TrainConfig
) -> FloatArray:
    """Apply the penalties that are switched on.

        R' = R · α_stop (without the stop token) + length penalty ∈ [−1, 0]

    Args:
        rewards_PG: rewards by the judge.
        sizes: the responses' lengths, and whether they ended.
        config: configuration of the run, with the penalties and the longest response.

    Returns:
        Shape [P, G]; the judge's rewards themselves when no penalty is on.

    Source: paper, §C, reward shaping.
    """
    shaping = config.shaping
    shaped_PG = rewards_PG
    if shaping.alpha_stop is not None:
        shaped_PG = core.truncation_penalty(
            shaped_PG, sizes.ended_PG, alpha_stop=shaping.alpha_stop
        )
    if shaping.length_penalty is not None:
        shaped_PG = shaped_PG + core.length_penalty(
            sizes.lengths_PG,
            max_length=config.rollout.max_new_tokens,
            buffer=shaping.length_penalty.buffer_tokens,
        )
    return shaped_PG


def informative(
    rewards: Rewards, shaped_PG: FloatArray, *, estimator: estimators.AdvantageEstimator
) -> BoolArray:
    """Tell groups with a spread of what an estimator reads from those without.

    Args:
        rewards: rewards by the judge, with the criterion scores.
        shaped_PG: rewards with penalties, [P, G].
        estimator: estimator with its settings.

    Returns:
        Shape [P], by the rewards with penalties, or by the scores of any criterion.
    """
    if estimator.reads_rewards:
        return informative_groups(shaped_PG, rewards.valid_PG)
    return informative_criteria(rewards.z_PGM, rewards.weights_PM, rewards.valid_PG)


def informative_groups(rewards_PG: FloatArray, valid_PG: BoolArray) -> BoolArray:
    """Tell groups with a spread of rewards from those without.

        informative_p  ⇔  max_g R_pg > min_g R_pg   over the valid members, by more than rounding

    The paper drops prompts with σ = 0. These are the groups that get an advantage: weights .1, .2
    and .3 make .6 in one order and .6000000000000001 in another, which teaches nothing.

    Args:
        rewards_PG: shape [P, G]; masked cells may hold anything.
        valid_PG: shape [P, G]; False leaves a cell out.

    Returns:
        Shape [P]; False for a group without two different valid rewards; see `arrays.differ`.

    Source: paper, §C, dynamic sampling.
    Source: arXiv 2503.14476 (DAPO), §3.2, Eq. 11.
    """
    return arrays.differ(rewards_PG, valid_PG)


def informative_criteria(
    z_PGM: FloatArray, weights_PM: FloatArray, valid_PG: BoolArray
) -> BoolArray:
    """Tell groups with a spread of any criterion's scores from those without.

        informative_p  ⇔  max_g z_pgj > min_g z_pgj   over the valid members, for a j with w_pj > 0

    Args:
        z_PGM: shape [P, G, M]; masked cells, and those of criteria without weight, may hold
            anything.
        weights_PM: shape [P, M].
        valid_PG: shape [P, G]; False leaves a response out.

    Returns:
        Shape [P]; False for a group in which every criterion is scored alike.

    Source: arXiv 2601.05242 (GDPO): a sum may hide what its parts tell apart.
    """
    weighed_PGM = np.where((weights_PM > 0)[:, None], z_PGM, 0.0)
    differ_MP = [
        arrays.differ(z_PG, valid_PG) for z_PG in np.moveaxis(weighed_PGM, 2, 0)
    ]
    return np.any(differ_MP, axis=0)


def assign_credit(
    rewards: Rewards, shaped_PG: FloatArray, *, estimator: estimators.AdvantageEstimator
) -> Credit:
    """Compute the advantages of all groups and split each into its criteria's contributions.

    Args:
        rewards: rewards by the judge, with the criterion scores.
        shaped_PG: rewards that the policy is trained on, [P, G].
        estimator: estimator with its settings.

    Returns:
        Advantages in float64, 0 for masked responses.

    Raises:
        PluginError: the estimator raises, or its values are not advantages.
    """
    advantages_PG = estimates.estimated_advantages(
        estimator, replace(rewards, rewards_PG=shaped_PG)
    )
    attribution_PGM = estimates.estimated_attribution(estimator, rewards)
    shaping_PG = np.zeros_like(shaped_PG)
    if attribution_PGM is None:
        attribution_PGM = np.full_like(rewards.z_PGM, np.nan)
    elif shaped_PG is not rewards.rewards_PG:
        shaping_PG = advantages_PG - attribution_PGM.sum(axis=2)
    return Credit(advantages_PG, attribution_PGM, shaping_PG)
