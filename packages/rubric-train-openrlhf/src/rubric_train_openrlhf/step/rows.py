"""From a step to the rows of the run folder, whichever backend ran it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import rubric_core as core
from rubric_core import Thought, Unanswered
from rubric_train_openrlhf.policy.completion import Completion
from rubric_train_openrlhf.run import records
from rubric_train_openrlhf.step.credit import StepCredit


@dataclass(frozen=True, slots=True)
class Answer:
    """One response that a step was trained on."""

    task_id: str
    question: str
    completion: Completion
    """What the policy wrote, and what of it was judged."""
    tokens: int
    """The end token included."""
    ended: bool
    """Whether it came to its end token."""
    advantage: float
    """As the learner had it."""
    is_finished: bool = True
    """False where an engine left it unfinished, so that it is not the policy's answer."""


@dataclass(frozen=True)
class StepRecord:
    """All that one step has to say on the policy's side."""

    step: int
    credit: StepCredit
    answers: Sequence[Answer]
    """Prompt-major: row p·G + g."""
    prompts_drawn: int
    """More than there are groups where dynamic sampling dropped some."""
    generated_tokens: int
    """Of all that was drawn."""
    timing: records.Timing
    update: records.UpdateMetrics
    update_s: float
    step_s: float
    cluster: records.ClusterStep | None = None
    """What only a cluster has to say."""


def is_whole(answer: core.Answer, *, ended: bool) -> bool:
    """Whether a response came to its end token, and its thought to its end."""
    return ended and answer.thought is not Thought.UNCLOSED


def answer_shares(answers: Sequence[core.Answer]) -> records.AnswerShares:
    """Count thoughts, and responses without an answer; nothing is known of none."""
    if not answers:
        return records.AnswerShares()
    thoughts = Counter(answer.thought for answer in answers)
    why = Counter(answer.unanswered for answer in answers)
    return records.AnswerShares(
        thought_frac=(len(answers) - thoughts[Thought.NONE]) / len(answers),
        unclosed_thought_frac=why[Unanswered.UNCLOSED_THOUGHT] / len(answers),
        empty_answer_frac=why[Unanswered.EMPTY] / len(answers),
    )


def metrics_row(record: StepRecord) -> records.MetricsRow:
    """Summarise a step."""
    credit = record.credit
    finished = [answer for answer in record.answers if answer.is_finished]
    lengths = [answer.tokens for answer in finished]
    rewards = credit.rewards_PG[credit.valid_PG]
    return records.MetricsRow(
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
        truncated_frac=float(
            np.mean(
                [
                    not is_whole(one.completion.answer, ended=one.ended)
                    for one in finished
                ]
            )
        ),
        **answer_shares([one.completion.answer for one in finished]).model_dump(),
        generated_tokens=record.generated_tokens,
        tokens_per_s=record.generated_tokens / record.step_s,
        update_s=record.update_s,
        step_s=record.step_s,
        resampled_prompts=record.prompts_drawn - len(credit.rewards_PG),
        cluster=record.cluster,
    )


def rollout_rows(record: StepRecord) -> Iterator[records.RolloutRow]:
    """What the policy was asked and answered, with no word of passage or rubric."""
    credit = record.credit
    for row, answer in enumerate(record.answers):
        prompt, member = divmod(row, credit.rewards_PG.shape[1])
        valid = bool(credit.valid_PG[prompt, member])
        (written, (judged, thought, _)) = answer.completion
        yield records.RolloutRow(
            id=records.row_id(step=record.step, prompt=prompt, response=member),
            step=record.step,
            task_id=answer.task_id,
            prompt=answer.question,
            response=written,
            answer=None if judged == written else judged,
            thought=None if thought is Thought.NONE else thought,
            reward=float(credit.rewards_PG[prompt, member]) if valid else None,
            advantage=answer.advantage,
            tokens=answer.tokens,
            ended=answer.ended,
            outcome=credit.outcomes_PG[prompt][member],
        )
