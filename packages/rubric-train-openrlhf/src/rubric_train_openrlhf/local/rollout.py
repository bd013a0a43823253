"""Sampling and judging, side by side: while one part is judged, the next is sampled."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rubric_judge.console import Progress
from rubric_train_openrlhf.local.batch import JudgedBatch, join_batches
from rubric_train_openrlhf.local.precision import bfloat16_if
from rubric_train_openrlhf.policy import sample_groups
from rubric_train_openrlhf.randomness import torch_generator

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    import torch

    from rubric_core import JudgeView, PolicyView
    from rubric_train_openrlhf.config import RolloutConfig
    from rubric_train_openrlhf.local.judging import BackgroundJudge, Judged
    from rubric_train_openrlhf.policy import Policy, Rollouts
    from rubric_train_openrlhf.reward.tasks import TaskBook


@dataclass(frozen=True)
class Sampling:
    """How a pass over prompts is sampled."""

    group_size: int
    max_new_tokens: int
    temperature: float
    micro_batch: int
    """Prompts per part."""

    @classmethod
    def for_training(cls, config: RolloutConfig) -> Sampling:
        """G responses per prompt at the rollout temperature."""
        return cls(
            group_size=config.group_size,
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature,
            micro_batch=config.micro_batch,
        )


@dataclass(frozen=True)
class Timing:
    """Where the time of a pass went."""

    generate_s: float = 0.0
    judge_s: float = 0.0
    judge_wait_s: float = 0.0

    def __add__(self, other: Timing) -> Timing:
        """Sum of two passes."""
        return Timing(
            generate_s=self.generate_s + other.generate_s,
            judge_s=self.judge_s + other.judge_s,
            judge_wait_s=self.judge_wait_s + other.judge_wait_s,
        )


class Examiner:
    """Asks the policy questions and has the answers judged.

    The policy gets views; passages and rubrics go from the book to the judge alone.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        judge: BackgroundJudge,
        autocast: bool,
        progress: Progress | None = None,
    ) -> None:
        """Bring both sides together; `autocast` samples in bfloat16."""
        self._progress = progress or Progress.silent()
        self._policy = policy
        self._judge = judge
        self._autocast = autocast

    def examine(
        self, views: Sequence[PolicyView], *, book: TaskBook, sampling: Sampling, seed: int
    ) -> tuple[JudgedBatch, Timing]:
        """Sample and judge a group for each prompt, part by part.

        Args:
            views: P prompts.
            book: the tasks that they are from, for the judge.
            sampling: group size and decoding.
            seed: of this pass; all its parts are drawn from one generator in order.

        Returns:
            All groups, and where the time went.
        """
        generator = torch_generator(seed, device=self._policy.device)
        sampled: list[tuple[Sequence[PolicyView], Rollouts, tuple[str, ...]]] = []
        pending: list[Future[Judged]] = []
        started = time.perf_counter()
        with self._progress.phase("sampling", total=len(views), unit="prompts") as phase:
            for first in range(0, len(views), sampling.micro_batch):
                part = views[first : first + sampling.micro_batch]
                rollouts, responses = self._sample(part, sampling=sampling, generator=generator)
                sampled.append((part, rollouts, responses))
                pending.append(self._judge.submit(_judge_views(part, responses, book=book)))
                phase.advance(len(part))
        sampled_at = time.perf_counter()
        judged = self._judged(pending, responses=len(views) * sampling.group_size)
        timing = Timing(
            generate_s=sampled_at - started,
            judge_s=sum(part.judge_s for part in judged),
            judge_wait_s=time.perf_counter() - sampled_at,
        )
        parts = [
            JudgedBatch(tuple(part), rollouts, responses, done.results)
            for (part, rollouts, responses), done in zip(sampled, judged, strict=True)
        ]
        return join_batches(parts), timing

    def _judged(self, pending: Sequence[Future[Judged]], *, responses: int) -> list[Judged]:
        """Wait for what is not judged yet."""
        judged: list[Judged] = []
        with self._progress.phase("judging", total=responses, unit="responses") as phase:
            for future in pending:
                judged.append(future.result())
                phase.advance(len(judged[-1].results))
        return judged

    def _sample(
        self, views: Sequence[PolicyView], *, sampling: Sampling, generator: torch.Generator
    ) -> tuple[Rollouts, tuple[str, ...]]:
        codec = self._policy.codec
        with bfloat16_if(self._autocast, device=self._policy.device):
            rollouts = sample_groups(
                self._policy.model,
                [codec.encode_prompt(view) for view in views],
                group_size=sampling.group_size,
                max_new_tokens=sampling.max_new_tokens,
                temperature=sampling.temperature,
                generator=generator,
                eos_token_id=codec.eos_token_id,
                pad_token_id=codec.pad_token_id,
            )
        responses = tuple(
            codec.decode(views[row // sampling.group_size], rollouts.response(row))
            for row in range(len(views) * sampling.group_size)
        )
        return rollouts, responses


def _judge_views(
    views: Sequence[PolicyView], responses: Sequence[str], *, book: TaskBook
) -> list[JudgeView]:
    group_size = len(responses) // len(views)
    return [
        book.judge_view(views[row // group_size], response=response)
        for row, response in enumerate(responses)
    ]
