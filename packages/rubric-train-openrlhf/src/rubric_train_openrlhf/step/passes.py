"""Sampling passes: a training step's, with DAPO's resampling, and the held-out one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import structlog

from rubric_core import JudgeResult, Task
from rubric_judge.console.progress import Progress
from rubric_train_openrlhf.config.sections import JudgingConfig
from rubric_train_openrlhf.config.train import PolicySettings
from rubric_train_openrlhf.errors import NoInformativePromptError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import HeldoutReward, HeldoutRow, Timing
from rubric_train_openrlhf.step.admission import Admission
from rubric_train_openrlhf.step.credit import check_judge, criterion_means, zero_reasons
from rubric_train_openrlhf.step.rewards import ALL, judge_rewards

_Round = TypeVar("_Round")


def total_timing(parts: Sequence[Timing]) -> Timing:
    """Add up the times of several passes."""
    return Timing(
        **{name: sum(getattr(one, name) for one in parts) for name in Timing.model_fields}
    )


def draw_rounds(
    draw: Callable[[int, int, int], _Round],
    *,
    spread: Callable[[_Round], Sequence[bool]],
    config: PolicySettings,
    step: int,
) -> list[tuple[_Round, list[int]]]:
    """Draw the prompts of a step; with dynamic sampling, until enough have rewards that differ.

    Each round draws as many new prompts as are still missing, so nothing that could be trained on
    is thrown away.

    Args:
        draw: (round, prompts drawn before it, number of prompts) → judged groups of new prompts.
        spread: whether the rewards of each group of a round differ.
        config: of the run, which has the number of groups, and of rounds after the first.
        step: that the groups are for.

    Returns:
        Every round, with the places of its groups to train on.

    Raises:
        NoInformativePromptError: still too few after the last round.
    """
    wanted, dynamic = config.rollout.prompts, config.dynamic_sampling
    if dynamic is None:
        return [(draw(0, 0, wanted), list(range(wanted)))]
    rounds: list[tuple[_Round, list[int]]] = []
    drawn = found = 0
    for number in range(dynamic.max_resample_rounds + 1):
        groups = draw(number, drawn, wanted - found)
        differs = spread(groups)
        kept = [place for place, keep in enumerate(differs) if keep]
        rounds.append((groups, kept))
        drawn += len(differs)
        found += len(kept)
        if found == wanted:
            return rounds
    raise NoInformativePromptError.told(
        "no_informative_prompts",
        step=step,
        found=found,
        wanted=wanted,
        drawn=drawn,
        rounds=dynamic.max_resample_rounds + 1,
    )


_log = structlog.get_logger()


def heldout_reward(
    results_NS: Sequence[Sequence[JudgeResult]],
    tasks_N: Sequence[Task],
    *,
    config: JudgingConfig,
    step: int,
    admission: Admission = ALL,
) -> HeldoutReward:
    """Average the judge's rewards over questions.

    Args:
        results_NS: S results for each of N questions.
        tasks_N: the task of each question.
        config: what failures mean, and how many there may be.
        step: number of the step that the pass comes after.
        admission: which criteria count, and how much.

    Raises:
        JudgeAbortError: the judge fails too often for the mean to say anything.
        UnavailableRewardError: a judge was not reached and on_unavailable is "raise".
    """
    rubrics_N = [admission.rubric(task.rubric) for task in tasks_N]
    check_judge(results_NS, config=config, step=step)
    rewards = judge_rewards(
        results_NS,
        [task.rubric for task in tasks_N],
        on_unavailable=config.on_unavailable,
        admission=admission,
    )
    results = tuple(result for group in results_NS for result in group)
    judged_N = rewards.valid_PG.any(axis=1)
    means_N = np.nanmean(rewards.rewards_PG[judged_N], axis=1)
    return HeldoutReward(
        reward_mean=float(means_N.mean()),
        reward_std=float(means_N.std()),
        zero_reward_frac=sum(zero_reasons(results, rewards).values()),
        n=int(judged_N.sum()),
        criteria=criterion_means(rewards.z_PGM, rewards.valid_PG, rubrics_N),
    )


@dataclass(frozen=True)
class HeldoutPasses:
    """The validation passes of a run: before training, every so many steps, and at the end."""

    folder: RunFolder
    config: PolicySettings
    progress: Progress
    ask: Callable[[int], tuple[HeldoutReward, Sequence[int]]]
    """Asks all questions after a step: what the judge gave, and the tokens of each response."""

    def pass_if_due(self, step: int) -> HeldoutRow | None:
        """Ask the validation questions and write the row, unless none is due or it is there.

        Returns:
            The row; `best` if its mean is higher than all before, or the first.

        Raises:
            JudgeAbortError: the judge fails too often for the mean to say anything.
        """
        rows = self.folder.read_heldout()
        due = step % self.config.validation.every == 0 or step == self.config.steps
        if not due or any(row.step == step for row in rows):
            return None
        started = time.perf_counter()
        name = "validation questions" if step else "validation questions before training"
        with self.progress.phase(name):
            reward, lengths = self.ask(step)
        best_so_far = max((row.reward_mean for row in rows), default=None)
        row = HeldoutRow(
            **reward.model_dump(),
            step=step,
            response_tokens_mean=float(np.mean(lengths)),
            eval_s=time.perf_counter() - started,
            best=best_so_far is None or reward.reward_mean > best_so_far,
        )
        self.folder.write_heldout(row)
        _log.info("train.heldout.finished", **row.model_dump(exclude={"criteria"}))
        return row
