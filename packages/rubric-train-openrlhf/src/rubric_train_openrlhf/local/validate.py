"""Held-out reward: the same judge, the same draws every time, questions never trained on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from rubric_train_openrlhf.local.credit import judge_rewards
from rubric_train_openrlhf.local.judging import check_judge
from rubric_train_openrlhf.local.randomness import derived_seed
from rubric_train_openrlhf.local.rollout import Sampling
from rubric_train_openrlhf.local.rows import criterion_means, zero_reasons
from rubric_train_openrlhf.run.records import HeldoutRow

if TYPE_CHECKING:
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.local.rollout import Examiner
    from rubric_train_openrlhf.local.tasks import TaskBook


def validate(
    examiner: Examiner,
    *,
    book: TaskBook,
    config: TrainConfig,
    step: int,
    best_so_far: float | None,
) -> HeldoutRow:
    """Ask the held-out questions and average the judge's rewards, without penalties.

    The draws come from the run's seed alone, so that two passes differ by the policy only.

    Args:
        examiner: policy and judge.
        book: held-out tasks.
        config: of the run.
        step: steps trained so far.
        best_so_far: highest held-out reward before this one.

    Returns:
        One row; `best` if its mean is higher than all before, or the first.

    Raises:
        JudgeAbortError: the judge fails too often for the mean to say anything.
    """
    started = time.perf_counter()
    sampling = Sampling(
        group_size=config.validation.samples,
        max_new_tokens=config.rollout.max_new_tokens,
        temperature=config.validation.temperature,
        micro_batch=config.rollout.micro_batch,
    )
    seed = derived_seed(config.seed, step=0, purpose="validation")
    batch, _ = examiner.examine(book.views, book=book, sampling=sampling, seed=seed)
    check_judge(batch.results, config=config.judge, step=step)
    rubrics_N = tuple(book.rubric(view.task_id) for view in book.views)
    rewards = judge_rewards(batch, rubrics_N, config=config)
    judged_N = rewards.valid_PG.any(axis=1)
    means_N = np.nanmean(rewards.rewards_PG[judged_N], axis=1)
    mean = float(means_N.mean())
    return HeldoutRow(
        step=step,
        reward_mean=mean,
        reward_std=float(means_N.std()),
        zero_reward_frac=sum(zero_reasons(batch.results, rewards).values()),
        n=int(judged_N.sum()),
        criteria=criterion_means(rewards, rubrics_N),
        response_tokens_mean=float(batch.rollouts.lengths_B.double().mean()),
        eval_s=time.perf_counter() - started,
        best=best_so_far is None or mean > best_so_far,
    )
