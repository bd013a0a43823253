"""From a step's tensors to the rows of the run folder."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from rubric_core import Outcome
from rubric_train_openrlhf.local.judging import outcome_frac
from rubric_train_openrlhf.run.records import JudgementRow, MetricsRow, RolloutRow, row_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rubric_core import JudgeResult, Rubric
    from rubric_train_openrlhf.local.credit import Credit, Rewards
    from rubric_train_openrlhf.local.groups import StepGroups
    from rubric_train_openrlhf.local.update import UpdateMetrics


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


def judgement_rows(record: StepRecord) -> Iterator[JudgementRow]:
    """What the judge said, and what every criterion gave to the advantage."""
    size = record.groups.kept.group_size
    for row, result in enumerate(record.groups.kept.results):
        prompt, member = divmod(row, size)
        rubric = record.rubrics_P[prompt]
        attribution = _by_id(rubric, record.credit.attribution_PGM[prompt, member])
        shaping = float(record.credit.shaping_PG[prompt, member])
        if shaping:
            attribution["shaping"] = shaping
        yield JudgementRow(
            id=row_id(step=record.step, prompt=prompt, response=member),
            step=record.step,
            task_id=record.groups.kept.views[prompt].task_id,
            result=result,
            z=_by_id(rubric, record.rewards.z_PGM[prompt, member]),
            shares=_by_id(rubric, rubric.shares_M),
            attribution=attribution,
        )


def zero_reasons(results: Sequence[JudgeResult], rewards: Rewards) -> dict[str, float]:
    """Share of responses with reward 0, by the judge's reason; "scored" where it gave 0."""
    zero_B = (rewards.valid_PG & (rewards.rewards_PG == 0.0)).reshape(-1)
    counts = Counter(
        "scored" if result.reason is None else result.reason.value
        for result, is_zero in zip(results, zero_B, strict=True)
        if is_zero
    )
    return {reason: count / len(results) for reason, count in sorted(counts.items())}


def criterion_means(rewards: Rewards, rubrics_P: Sequence[Rubric]) -> dict[str, float]:
    """Mean z of each criterion id over the valid responses to the questions that have it."""
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for z_GM, valid_G, rubric in zip(rewards.z_PGM, rewards.valid_PG, rubrics_P, strict=True):
        for criterion_id, z_G in zip(rubric.ids, z_GM[valid_G].T, strict=False):
            scores[criterion_id].extend(float(z) for z in z_G if not np.isnan(z))
    return {name: float(np.mean(values)) for name, values in scores.items() if values}


def _by_id(rubric: Rubric, values_M: npt.NDArray[np.float64]) -> dict[str, float]:
    """Name the values, less the padding; what is nan does not exist and is left out."""
    return {
        criterion_id: float(value)
        for criterion_id, value in zip(rubric.ids, values_M, strict=False)
        if not np.isnan(value)
    }
