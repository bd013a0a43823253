"""Rubric-conditioned self-distillation: a step of a policy that learns from itself, told more.

The student samples; the same weights, shown passage and rubric, read what it wrote; the student is
moved towards what they hold likely there. No judge is asked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self, cast

import torch
from transformers import PreTrainedModel

from rubric_core import Task
from rubric_train_openrlhf import objective as formulas
from rubric_train_openrlhf import policy as policies
from rubric_train_openrlhf.config.method import SelfDistillation
from rubric_train_openrlhf.errors import PolicyLoadError
from rubric_train_openrlhf.local.teaching import teacher_view
from rubric_train_openrlhf.local.update import (
    ForwardPass,
    Learner,
    OnResponses,
    UpdateBatch,
)
from rubric_train_openrlhf.policy import EncodedPrompt
from rubric_train_openrlhf.policy.divergence import Reading, response_divergence


def teacher_prompts(
    codec: policies.TextCodec, tasks: Iterable[Task], method: SelfDistillation
) -> list[EncodedPrompt]:
    """Encode what the teacher is shown of each task; only these tokens go on from here.

    Raises:
        PolicyLoadError: the chat template refuses a prompt; what it says is not repeated, for it
            may quote the passage.
    """
    prompts: list[EncodedPrompt] = []
    for task in tasks:
        view = teacher_view(task, shown=method.shown)
        try:
            prompts.append(codec.encode_prompt(view))
        except PolicyLoadError as error:
            raise PolicyLoadError(
                f"the chat template cannot render what the teacher of task {task.task_id!r} is "
                f"shown; it renders the question, so look for its marks in the passage, or set "
                "method.shown to less",
                path=error.path,
            ) from None
    return prompts


@dataclass(frozen=True)
class TaughtBatch(UpdateBatch):
    """Rollouts with the teacher's prompts; nothing in it is a reward."""

    teacher_prompts: tuple[EncodedPrompt, ...] = ()
    """One for each of the rollouts' prompts, in their order."""

    @classmethod
    def of(
        cls, rollouts: policies.Rollouts, teacher_prompts: Sequence[EncodedPrompt]
    ) -> Self:
        """Put both together; every response counts, and none has an advantage."""
        count = len(rollouts.mask_BT)
        return cls(
            rollouts,
            advantages_B=torch.zeros(count, device=rollouts.mask_BT.device),
            valid_B=torch.ones(count, dtype=torch.bool),
            teacher_prompts=tuple(teacher_prompts),
        )

    def taught(self, rows: Sequence[int]) -> policies.TokenBatch:
        """Put some rows after the teacher's prompts."""
        size = self.rollouts.group_size
        return policies.pack_responses(
            [self.teacher_prompts[row // size] for row in rows],
            self.rollouts.responses(rows),
            device=self.rollouts.tokens_BT.device,
        )


@dataclass(frozen=True)
class Distiller(Learner):
    """The policy in training, and the one that teaches it."""

    teacher: PreTrainedModel
    """Frozen weights of the start, or the policy itself."""
    method: SelfDistillation

    def distil(
        self,
        batch: TaughtBatch,
        *,
        step: int,
        on_responses: OnResponses = lambda _: None,
        is_first: bool = False,
    ) -> dict[str, float]:
        """Make `updates_per_rollout` optimiser updates, each on an equal share of the responses.

        Args:
            batch: B responses with the teacher's prompts.
            step: training step, for errors.
            on_responses: called after every micro-batch.
            is_first: as in `Learner.update`.

        Returns:
            Means over the updates: `loss` is the divergence of a token in nats, with `entropy`,
            `grad_norm` and `lr`.

        Raises:
            NonFiniteUpdateError, PolicyMismatchError: as `Learner.update`.

        Source: arXiv 2606.12507 (RGSD).
        """
        lr = float(self.schedule.get_last_lr()[0])
        means = self._updates(batch, on_responses, step=step, is_first=is_first)
        return {**means, "lr": lr}

    def _forward(
        self,
        batch: UpdateBatch,
        rows: list[int],
        tokens: policies.TokenBatch,
        *,
        size: formulas.UpdateSize,
    ) -> ForwardPass:
        with self._autocast():
            figures = response_divergence(
                Reading(self.model, tokens),
                Reading(self.teacher, cast("TaughtBatch", batch).taught(rows)),
                beta=self.method.beta,
                temperature=self.config.rollout.temperature,
                share_prompts=self.config.optim.share_prompts,
            )
        loss = formulas.token_mean(
            figures.divergence_BT,
            mask_BT=tokens.response_mask_BT,
            total_tokens=size.tokens,
        )
        return ForwardPass(loss, figures.logprobs_BT, figures.entropy_BT)
