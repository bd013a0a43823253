"""What the judge's side makes of a step: credit for the policy, figures for the logs.

It crosses to the policy's side and holds numbers, ids of criteria and names of reasons.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rubric_core import Outcome
from rubric_train_openrlhf.reward.credit import assign_credit, judge_rewards, shaped_rewards
from rubric_train_openrlhf.reward.judge_checks import by_fallback, outcome_frac
from rubric_train_openrlhf.reward.spread import informative_groups
from rubric_train_openrlhf.reward.summary import JudgedStep, criterion_means, zero_reasons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_core import JudgeResult, Rubric
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.reward.credit import BoolArray, Credit, FloatArray, Sizes


@dataclass(frozen=True, slots=True)
class StepCredit:
    """Credit of P groups of G responses, in float64."""

    rewards_PG: FloatArray
    """The judge's, in [0, 1]; nan where masked."""
    shaped_PG: FloatArray
    """With the penalties that are on."""
    advantages_PG: FloatArray
    """0 for masked responses and for groups whose rewards are all equal."""
    valid_PG: BoolArray
    """False where an unavailable judgement is left out of baseline, deviation and loss."""
    outcomes_PG: tuple[tuple[str, ...], ...]
    """What became of each judgement."""
    criteria: dict[str, float]
    """Mean z of each criterion id."""
    attribution_abs: dict[str, float]
    """Mean |share of the advantage| of each criterion id; empty under the decoupled estimator."""
    zero_reward_by_reason: dict[str, float]
    """Shares of all responses; "scored" are zeros that the judge gave."""
    m_eff_mean: float
    """Mean M_eff of the groups' rubrics."""
    invalid_frac: float
    """Of all that was judged for the step, dropped groups included, as are the next two."""
    unavailable_frac: float
    degenerate_group_frac: float
    by_fallback: dict[str, int] = field(default_factory=dict[str, int])
    """How many judgements each fallback of a `litellm_config` gave."""
    judge_restarts: int = 0
    """Processes of the judge that died since the step before and were replaced."""

    @property
    def reward_mean(self) -> float:
        """Over the valid responses."""
        return float(self.rewards_PG[self.valid_PG].mean())

    @property
    def reward_std(self) -> float:
        """Over the valid responses."""
        return float(self.rewards_PG[self.valid_PG].std())

    @property
    def zero_reward_frac(self) -> float:
        """Share of responses with reward 0."""
        return sum(self.zero_reward_by_reason.values())

    @property
    def advantage_abs_mean(self) -> float:
        """Over all responses."""
        return float(np.abs(self.advantages_PG).mean())


def informative(
    results_PG: Sequence[Sequence[JudgeResult]],
    rubrics_P: Sequence[Rubric],
    sizes: Sizes,
    *,
    config: TrainConfig,
) -> list[bool]:
    """Tell which groups have a spread of rewards, penalties included.

    Raises:
        UnavailableRewardError: a judge was not reached and on_unavailable is "raise".
    """
    rewards = judge_rewards(results_PG, rubrics_P, on_unavailable=config.judge.on_unavailable)
    shaped_PG = shaped_rewards(
        rewards, sizes, shaping=config.shaping, max_new_tokens=config.rollout.max_new_tokens
    )
    return informative_groups(shaped_PG, rewards.valid_PG).tolist()


def step_credit(
    step: int,
    results_PG: Sequence[Sequence[JudgeResult]],
    tasks_P: Sequence[tuple[str, Rubric]],
    sizes: Sizes,
    *,
    dropped_PG: Sequence[Sequence[JudgeResult]] = (),
    config: TrainConfig,
) -> tuple[StepCredit, JudgedStep]:
    """Work out the credit of a step.

    Args:
        step: number of the step.
        results_PG: P groups of G results.
        tasks_P: task id and rubric of each group.
        sizes: the responses' lengths, and whether they ended.
        dropped_PG: groups without a spread, which were judged for the step too.
        config: of the run.

    Returns:
        What crosses to the policy's side, and what stays on the judge's.

    Raises:
        UnavailableRewardError: a judge was not reached and on_unavailable is "raise".
    """
    rubrics_P = tuple(rubric for _, rubric in tasks_P)
    results = tuple(result for group in results_PG for result in group)
    rewards = judge_rewards(results_PG, rubrics_P, on_unavailable=config.judge.on_unavailable)
    shaped_PG = shaped_rewards(
        rewards, sizes, shaping=config.shaping, max_new_tokens=config.rollout.max_new_tokens
    )
    credit = assign_credit(rewards, shaped_PG, estimator=config.advantage)
    informative_P = informative_groups(shaped_PG, rewards.valid_PG)
    judged = [*results, *(result for group in dropped_PG for result in group)]
    crossing = StepCredit(
        rewards_PG=rewards.rewards_PG,
        shaped_PG=shaped_PG,
        advantages_PG=credit.advantages_PG,
        valid_PG=rewards.valid_PG,
        outcomes_PG=tuple(tuple(one.outcome.value for one in group) for group in results_PG),
        criteria=criterion_means(rewards, rubrics_P),
        attribution_abs=_attribution_abs(credit, rewards.valid_PG, rubrics_P),
        zero_reward_by_reason=zero_reasons(results, rewards),
        m_eff_mean=float(np.mean([rubric.effective_criteria for rubric in rubrics_P])),
        invalid_frac=outcome_frac(judged, Outcome.INVALID),
        unavailable_frac=outcome_frac(judged, Outcome.UNAVAILABLE),
        degenerate_group_frac=1.0 - int(informative_P.sum()) / (len(rubrics_P) + len(dropped_PG)),
        by_fallback=by_fallback(judged),
    )
    staying = JudgedStep(
        step=step,
        task_ids_P=tuple(task_id for task_id, _ in tasks_P),
        rubrics_P=rubrics_P,
        results=results,
        rewards=rewards,
        credit=credit,
    )
    return crossing, staying


def _attribution_abs(
    credit: Credit, valid_PG: BoolArray, rubrics_P: Sequence[Rubric]
) -> dict[str, float]:
    """Mean |contribution| of each criterion id over the valid responses."""
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for shares_GM, valid_G, rubric in zip(credit.attribution_PGM, valid_PG, rubrics_P, strict=True):
        for criterion_id, share_G in zip(rubric.ids, shares_GM[valid_G].T, strict=False):
            shares[criterion_id].extend(abs(float(x)) for x in share_G if not np.isnan(x))
    return {name: float(np.mean(values)) for name, values in shares.items() if values}
