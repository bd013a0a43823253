"""Rows of the run folder for a step, whichever backend ran it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

import rubric_core as core
from rubric_core import Thought, Unanswered
from rubric_train_openrlhf.policy.completion import Completion
from rubric_train_openrlhf.run import records
from rubric_train_openrlhf.run.records import (
    AnswerShares,
    DistillationRow,
    MetricsRow,
    RolloutRow,
)
from rubric_train_openrlhf.step.credit import StepCredit


@dataclass(frozen=True, slots=True)
class TrainedAnswer:
    """One response that a step was trained on."""

    task_id: str
    question: str
    completion: Completion
    """Text of the policy, and the part of it that was judged."""
    tokens: int
    """Number of tokens, including the end token."""
    ended: bool
    """Whether it reached its end token."""
    advantage: float
    """Advantage that the learner used."""
    is_finished: bool = True
    """False if an engine left it unfinished, so that it is not the policy's answer."""


@dataclass(frozen=True)
class StepRecord:
    """Everything that is recorded of one step on the policy's side."""

    step: int
    credit: StepCredit
    answers: Sequence[TrainedAnswer]
    """Responses, prompt-major: row p·G + g."""
    prompts_drawn: int
    """Number of prompts; more than groups if dynamic sampling dropped some."""
    generated_tokens: int
    """Number of tokens of all responses, including dropped ones."""
    timing: records.Timing
    update: records.UpdateMetrics
    update_s: float
    step_s: float
    cluster: records.ClusterStep | None = None
    """Figures that only a cluster has."""
    audit: records.AuditFigures | None = None
    """Audits of the step's responses; None without any."""
    monitor: Mapping[str, float] = field(default_factory=dict[str, float])
    """Figures of the responses by program."""


@dataclass(frozen=True)
class DistilledStep:
    """Everything that is recorded of one step of self-distillation."""

    step: int
    answers: Sequence[TrainedAnswer]
    """Responses, prompt-major: row p·G + g."""
    update: Mapping[str, float]
    """Figures of the update: `loss`, `entropy`, `grad_norm` and `lr`."""
    generate_s: float
    update_s: float
    monitor: Mapping[str, float]
    """Figures of the responses by program."""


def is_whole(answer: core.Answer, *, ended: bool) -> bool:
    """Return whether a response reached its end token, and its thought its end."""
    return ended and answer.thought is not Thought.UNCLOSED


def answer_shares(answers: Sequence[core.Answer]) -> AnswerShares:
    """Return shares of thoughts and of responses without an answer; empty without responses."""
    if not answers:
        return AnswerShares()
    thoughts = Counter(answer.thought for answer in answers)
    why = Counter(answer.unanswered for answer in answers)
    return AnswerShares(
        thought_frac=(len(answers) - thoughts[Thought.NONE]) / len(answers),
        unclosed_thought_frac=why[Unanswered.UNCLOSED_THOUGHT] / len(answers),
        empty_answer_frac=why[Unanswered.EMPTY] / len(answers),
    )


def metrics_row(record: StepRecord) -> MetricsRow:
    """Summarise a step."""
    credit = record.credit
    finished = [answer for answer in record.answers if answer.is_finished]
    lengths = [answer.tokens for answer in finished]
    contents = [answer.completion.answer for answer in finished]
    truncated = [
        not is_whole(answer.completion.answer, ended=answer.ended)
        for answer in finished
    ]
    rewards = credit.rewards_PG[credit.valid_PG]
    return MetricsRow(
        step=record.step,
        **credit.figures.model_dump(),
        **record.update.model_dump(),
        **record.timing.model_dump(),
        reward_mean=float(rewards.mean()),
        reward_std=float(rewards.std()),
        zero_reward_frac=sum(credit.figures.zero_reward_by_reason.values()),
        advantage_abs_mean=float(np.abs(credit.advantages_PG).mean()),
        response_tokens_mean=float(np.mean(lengths)),
        response_tokens_max=max(lengths),
        truncated_frac=float(np.mean(truncated)),
        **answer_shares(contents).model_dump(),
        generated_tokens=record.generated_tokens,
        tokens_per_s=record.generated_tokens / record.step_s,
        update_s=record.update_s,
        step_s=record.step_s,
        resampled_prompts=record.prompts_drawn - len(credit.rewards_PG),
        cluster=record.cluster,
        audit=record.audit,
        monitor=dict(record.monitor),
    )


def distillation_row(record: DistilledStep) -> DistillationRow:
    """Summarise a step of self-distillation."""
    lengths = [answer.tokens for answer in record.answers]
    contents = [answer.completion.answer for answer in record.answers]
    whole = [
        is_whole(answer.completion.answer, ended=answer.ended)
        for answer in record.answers
    ]
    step_s = record.generate_s + record.update_s
    update = dict(record.update)
    return DistillationRow(
        step=record.step,
        divergence=update.pop("loss"),
        **update,
        response_tokens_mean=float(np.mean(lengths)),
        response_tokens_max=max(lengths),
        truncated_frac=1.0 - float(np.mean(whole)),
        **answer_shares(contents).model_dump(),
        generated_tokens=sum(lengths),
        tokens_per_s=sum(lengths) / step_s,
        generate_s=record.generate_s,
        update_s=record.update_s,
        step_s=step_s,
        monitor=dict(record.monitor),
    )


def unjudged_rows(record: DistilledStep, group_size: int) -> list[RolloutRow]:
    """Return the student's questions and answers: no text of its teacher's, and no reward."""
    rollouts: list[RolloutRow] = []
    for row, answer in enumerate(record.answers):
        prompt, member = divmod(row, group_size)
        at = (record.step, prompt, member)
        rollouts.append(_rollout_row(at, answer, reward=None, outcome=UNJUDGED))
    return rollouts


UNJUDGED = "unjudged"
"""Outcome of a response that no judge is asked about."""


def _rollout_row(
    at: tuple[int, int, int],
    answer: TrainedAnswer,
    *,
    reward: float | None,
    outcome: str,
) -> RolloutRow:
    """Return the row of a response; `at` is its step, its prompt, and its place in the group."""
    step, prompt, response = at
    (written, (judged, thought, _)) = answer.completion
    return RolloutRow(
        id=records.row_id(step=step, prompt=prompt, response=response),
        step=step,
        task_id=answer.task_id,
        prompt=answer.question,
        response=written,
        answer=None if judged == written else judged,
        thought=None if thought is Thought.NONE else thought,
        reward=reward,
        advantage=answer.advantage,
        tokens=answer.tokens,
        ended=answer.ended,
        outcome=outcome,
    )


def rollout_rows(record: StepRecord) -> Iterator[RolloutRow]:
    """Yield the policy's questions and answers, without any text of passage or rubric."""
    credit = record.credit
    for row, answer in enumerate(record.answers):
        prompt, member = divmod(row, credit.rewards_PG.shape[1])
        valid = bool(credit.valid_PG[prompt, member])
        yield _rollout_row(
            (record.step, prompt, member),
            answer,
            reward=float(credit.rewards_PG[prompt, member]) if valid else None,
            outcome=credit.outcomes_PG[prompt][member],
        )
