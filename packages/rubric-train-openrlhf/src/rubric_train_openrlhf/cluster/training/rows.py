"""From a step on the cluster to the rows of the run folder, but the judge's, which it writes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rubric_train_openrlhf.errors import NonFiniteUpdateError
from rubric_train_openrlhf.run.records import (
    ClusterStep,
    HeldoutRow,
    MetricsRow,
    RolloutRow,
    row_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rubric_train_openrlhf.cluster.crossing.step_credit import StepCredit
    from rubric_train_openrlhf.cluster.sampling.groups import Drawn, Group
    from rubric_train_openrlhf.cluster.training.trained import TrainedSample
    from rubric_train_openrlhf.reward.heldout import HeldoutReward


@dataclass(frozen=True)
class StepTimes:
    """Where the seconds of a step went, beside sampling and judging."""

    experience_s: float
    update_s: float
    sync_s: float
    step_s: float


@dataclass(frozen=True)
class ClusterRecord:
    """All that one step has to say on the policy's side."""

    step: int
    drawn: Drawn
    credit: StepCredit
    trained: Sequence[TrainedSample]
    """What the learner made of it, by row."""
    figures: Mapping[str, float]
    """Of the updates, as `RubricLearner` names them."""
    sampler_gap: float
    engine_restarts: int
    times: StepTimes


def check_update(figures: Mapping[str, float], *, step: int) -> None:
    """Stop a run whose update is not a number, before its weights go anywhere.

    Raises:
        NonFiniteUpdateError: loss or gradient norm is nan or infinite.
    """
    broken = [name for name in ("loss", "grad_norm") if not math.isfinite(figures[name])]
    if broken:
        raise NonFiniteUpdateError(
            f"step {step}: {' and '.join(broken)} of the update is not a finite number; continue "
            "from the last checkpoint with --resume and a lower optim.learning_rate or "
            "optim.max_grad_norm",
            step=step,
        )


def metrics_row(record: ClusterRecord) -> MetricsRow:
    """Sum a step up."""
    credit, drawn, figures = record.credit, record.drawn, record.figures
    samples = [sample for group in drawn.groups for sample in group.samples]
    answers = [sample for sample in samples if sample.judgement.is_answer]
    lengths_B = [sample.tokens for sample in answers]
    return MetricsRow(
        step=record.step,
        reward_mean=credit.reward_mean,
        reward_std=credit.reward_std,
        zero_reward_frac=credit.zero_reward_frac,
        zero_reward_by_reason=credit.zero_reward_by_reason,
        invalid_frac=credit.invalid_frac,
        unavailable_frac=credit.unavailable_frac,
        criteria=credit.criteria,
        m_eff_mean=credit.m_eff_mean,
        degenerate_group_frac=credit.degenerate_group_frac,
        advantage_abs_mean=credit.advantage_abs_mean,
        loss=figures["loss"],
        kl=figures["kl"],
        clip_frac=figures["clip_frac"],
        ratio_mean=figures["ratio_mean"],
        entropy=None,
        grad_norm=figures["grad_norm"],
        lr=figures["lr"],
        response_tokens_mean=float(np.mean(lengths_B)),
        response_tokens_max=max(lengths_B),
        truncated_frac=1.0 - float(np.mean([sample.ended for sample in answers])),
        generated_tokens=drawn.generated_tokens,
        tokens_per_s=drawn.generated_tokens / record.times.step_s,
        generate_s=drawn.generate_s,
        judge_s=drawn.judge_s,
        judge_wait_s=drawn.judge_wait_s,
        update_s=record.times.update_s,
        step_s=record.times.step_s,
        resampled_prompts=drawn.prompts - len(drawn.groups),
        by_fallback=credit.by_fallback,
        cluster=ClusterStep(
            sampler_gap=record.sampler_gap,
            dropped_frac=figures.get("dropped_frac"),
            updates=int(figures["updates"]),
            experience_s=record.times.experience_s,
            sync_s=record.times.sync_s,
            engine_restarts=record.engine_restarts,
            resent_responses=drawn.resent,
            judge_restarts=credit.judge_restarts,
            attribution=credit.attribution_abs,
        ),
    )


def rollout_rows(record: ClusterRecord) -> Iterator[RolloutRow]:
    """What the policy was asked and answered, with no word of passage or rubric."""
    credit, trained = record.credit, iter(record.trained)
    for prompt, group in enumerate(record.drawn.groups):
        for member, sample in enumerate(group.samples):
            valid = bool(credit.valid_PG[prompt, member])
            yield RolloutRow(
                id=row_id(step=record.step, prompt=prompt, response=member),
                step=record.step,
                task_id=group.prompt.task_id,
                prompt=group.prompt.question,
                response=sample.text,
                reward=float(credit.rewards_PG[prompt, member]) if valid else None,
                advantage=next(trained).advantage,
                tokens=sample.tokens,
                ended=sample.ended,
                outcome=credit.outcomes_PG[prompt][member],
            )


def heldout_row(
    reward: HeldoutReward,
    groups: Sequence[Group],
    *,
    step: int,
    eval_s: float,
    best_so_far: float | None,
) -> HeldoutRow:
    """Sum a held-out pass up; `best` if its mean is higher than all before, or the first."""
    lengths = [length for group in groups for length in group.lengths]
    return HeldoutRow(
        step=step,
        reward_mean=reward.reward_mean,
        reward_std=reward.reward_std,
        zero_reward_frac=reward.zero_reward_frac,
        n=reward.n,
        criteria=reward.criteria,
        response_tokens_mean=float(np.mean(lengths)),
        eval_s=eval_s,
        best=best_so_far is None or reward.reward_mean > best_so_far,
    )


def log_figures(row: MetricsRow) -> dict[str, float]:
    """A step's figures under flat names, for the trackers that OpenRLHF writes to."""
    numbers = row.model_dump(exclude={"step", "criteria", "zero_reward_by_reason", "cluster"})
    flat = {f"rubric/{name}": value for name, value in numbers.items() if value is not None}
    for reason, share in row.zero_reward_by_reason.items():
        flat[f"rubric/zero/{reason}"] = share
    for criterion, mean in row.criteria.items():
        flat[f"criterion/{criterion}"] = mean
    if row.cluster is not None:
        for criterion, share in row.cluster.attribution.items():
            flat[f"attribution/{criterion}"] = share
    return flat
