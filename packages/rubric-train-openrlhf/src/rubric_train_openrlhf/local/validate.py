"""Held-out reward: the same judge, the same draws every time, questions never trained on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rubric_train_openrlhf.local.rollout import Sampling
from rubric_train_openrlhf.randomness import derived_seed
from rubric_train_openrlhf.reward.heldout import heldout_reward
from rubric_train_openrlhf.reward.judge_checks import check_judge
from rubric_train_openrlhf.run.records import HeldoutRow

if TYPE_CHECKING:
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.local.rollout import Examiner
    from rubric_train_openrlhf.reward.tasks import TaskBook


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
    reward = heldout_reward(batch.results_PG, rubrics_N, on_unavailable=config.judge.on_unavailable)
    return HeldoutRow(
        step=step,
        reward_mean=reward.reward_mean,
        reward_std=reward.reward_std,
        zero_reward_frac=reward.zero_reward_frac,
        n=reward.n,
        criteria=reward.criteria,
        response_tokens_mean=float(batch.rollouts.lengths_B.double().mean()),
        eval_s=time.perf_counter() - started,
        best=best_so_far is None or reward.reward_mean > best_so_far,
    )
