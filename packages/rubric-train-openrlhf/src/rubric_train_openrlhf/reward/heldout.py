"""The judge's rewards of held-out questions, averaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rubric_train_openrlhf.reward.credit import judge_rewards
from rubric_train_openrlhf.reward.summary import criterion_means, zero_reasons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_core import JudgeResult, Rubric
    from rubric_core.reward import OnUnavailable


@dataclass(frozen=True, slots=True)
class HeldoutReward:
    """One pass over N held-out questions, without penalties."""

    reward_mean: float
    """Mean over questions of the mean over their samples."""
    reward_std: float
    """Between questions."""
    zero_reward_frac: float
    n: int
    """Questions with at least one usable judgement."""
    criteria: dict[str, float]
    """Mean z of each criterion id."""


def heldout_reward(
    results_NS: Sequence[Sequence[JudgeResult]],
    rubrics_N: Sequence[Rubric],
    *,
    on_unavailable: OnUnavailable,
) -> HeldoutReward:
    """Average the judge's rewards over questions.

    Args:
        results_NS: S results for each of N questions.
        rubrics_N: the rubric of each question.
        on_unavailable: what an unreachable judge means.

    Raises:
        UnavailableRewardError: a judge was not reached and on_unavailable is "raise".
    """
    rewards = judge_rewards(results_NS, rubrics_N, on_unavailable=on_unavailable)
    results = tuple(result for group in results_NS for result in group)
    judged_N = rewards.valid_PG.any(axis=1)
    means_N = np.nanmean(rewards.rewards_PG[judged_N], axis=1)
    return HeldoutReward(
        reward_mean=float(means_N.mean()),
        reward_std=float(means_N.std()),
        zero_reward_frac=sum(zero_reasons(results, rewards).values()),
        n=int(judged_N.sum()),
        criteria=criterion_means(rewards, rubrics_N),
    )
