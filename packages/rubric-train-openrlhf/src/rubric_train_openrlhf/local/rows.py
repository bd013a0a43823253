"""From a step's tensors to the rows of the run folder."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from rubric_core import Outcome
from rubric_train_openrlhf.reward.judge_checks import by_fallback, outcome_frac
from rubric_train_openrlhf.reward.summary import JudgedStep, criterion_means, zero_reasons
from rubric_train_openrlhf.run.records import MetricsRow, RolloutRow, row_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_core import Rubric
    from rubric_train_openrlhf.local.groups import StepGroups
    from rubric_train_openrlhf.local.update import UpdateMetrics
    from rubric_train_openrlhf.reward.credit import Credit, Rewards


@dataclass(frozen=True)
class StepRecord:
    """All that one step has to say; every row is made from it."""

    step: int
    groups: StepGroups
    rubrics_P: tuple[Rubric, ...]
    rewards: Rewards
    credit: Credit
    update: UpdateMetrics
    update_s: float
    step_s: float

    @property
    def judged(self) -> JudgedStep:
        """What concerns the judge alone."""
        return JudgedStep(
            step=self.step,
            task_ids_P=tuple(view.task_id for view in self.groups.kept.views),
            rubrics_P=self.rubrics_P,
            results=self.groups.kept.results,
            rewards=self.rewards,
            credit=self.credit,
        )


def metrics_row(record: StepRecord) -> MetricsRow:
    """Sum a step up."""
    judged_B = record.rewards.rewards_PG[record.rewards.valid_PG]
    zeros = zero_reasons(record.groups.kept.results, record.rewards)
    lengths_B = record.groups.kept.rollouts.lengths_B
    generated_tokens = int(record.groups.drawn.rollouts.lengths_B.sum())
    return MetricsRow(
        step=record.step,
        reward_mean=float(judged_B.mean()),
        reward_std=float(judged_B.std()),
        zero_reward_frac=sum(zeros.values()),
        zero_reward_by_reason=zeros,
        invalid_frac=outcome_frac(record.groups.drawn.results, Outcome.INVALID),
        unavailable_frac=outcome_frac(record.groups.drawn.results, Outcome.UNAVAILABLE),
        criteria=criterion_means(record.rewards, record.rubrics_P),
        m_eff_mean=float(np.mean([rubric.effective_criteria for rubric in record.rubrics_P])),
        degenerate_group_frac=record.groups.degenerate_group_frac,
        advantage_abs_mean=float(np.abs(record.credit.advantages_PG).mean()),
        loss=record.update.loss,
        kl=record.update.kl,
        clip_frac=record.update.clip_frac,
        ratio_mean=record.update.ratio_mean,
        entropy=record.update.entropy,
        grad_norm=record.update.grad_norm,
        lr=record.update.lr,
        response_tokens_mean=float(lengths_B.double().mean()),
        response_tokens_max=int(lengths_B.max()),
        truncated_frac=float((~record.groups.kept.rollouts.ended_B).double().mean()),
        generated_tokens=generated_tokens,
        tokens_per_s=generated_tokens / record.step_s,
        generate_s=record.groups.timing.generate_s,
        judge_s=record.groups.timing.judge_s,
        judge_wait_s=record.groups.timing.judge_wait_s,
        update_s=record.update_s,
        step_s=record.step_s,
        resampled_prompts=len(record.groups.drawn.views) - len(record.groups.kept.views),
        by_fallback=by_fallback(record.groups.drawn.results),
    )


def rollout_rows(record: StepRecord) -> Iterator[RolloutRow]:
    """What the policy was asked and answered, with no word of passage or rubric."""
    size = record.groups.kept.group_size
    lengths_B = cast("list[int]", record.groups.kept.rollouts.lengths_B.tolist())
    ended_B = cast("list[bool]", record.groups.kept.rollouts.ended_B.tolist())
    for row, response in enumerate(record.groups.kept.responses):
        prompt, member = divmod(row, size)
        view = record.groups.kept.views[prompt]
        valid = bool(record.rewards.valid_PG[prompt, member])
        yield RolloutRow(
            id=row_id(step=record.step, prompt=prompt, response=member),
            step=record.step,
            task_id=view.task_id,
            prompt=view.question,
            response=response,
            reward=float(record.rewards.rewards_PG[prompt, member]) if valid else None,
            advantage=float(record.credit.advantages_PG[prompt, member]),
            tokens=lengths_B[row],
            ended=ended_B[row],
            outcome=record.groups.kept.results[row].outcome,
        )
