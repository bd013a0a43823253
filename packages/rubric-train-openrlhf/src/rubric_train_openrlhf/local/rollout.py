"""Sampling and judging, side by side: while one part is judged, the next is sampled."""

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
import torch
from anyio.from_thread import BlockingPortal, start_blocking_portal

from rubric_core import Judge, JudgeResult, JudgeView, PolicyView, Thought
from rubric_judge import JudgePool, Ledger
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.config.sections import (
    AuditConfig,
    JudgingConfig,
    RolloutConfig,
)
from rubric_train_openrlhf.policy import EncodedPrompt, Policy, Rollouts, sample_groups
from rubric_train_openrlhf.policy.completion import Completion
from rubric_train_openrlhf.run.records import Timing
from rubric_train_openrlhf.step.rewards import Sizes
from rubric_train_openrlhf.step.tasks import TaskSet


@dataclass(frozen=True)
class Judged:
    """Results in the order of their views, and how long they took together."""

    results: tuple[JudgeResult, ...]
    judge_s: float


@dataclass(frozen=True)
class BackgroundJudge:
    """One pool on an event loop in a thread of its own; `background_judge` opens and closes it."""

    pool: JudgePool
    portal: BlockingPortal
    deadline_s: float | None

    def submit(self, views: Sequence[JudgeView]) -> Future[Judged]:
        """Start judging and return at once."""
        return self.portal.start_task_soon(self._judge, views)

    async def _judge(self, views: Sequence[JudgeView]) -> Judged:
        started = time.perf_counter()
        results = await self.pool.judge_all(views, deadline_s=self.deadline_s)
        return Judged(tuple(results), time.perf_counter() - started)


@contextmanager
def background_judge(
    *replicas: Judge,
    config: JudgingConfig | AuditConfig,
    ledger: Ledger | None = None,
) -> Generator[BackgroundJudge]:
    """Open a pool on a background event loop; leaving the block cancels pending judgements.

    Args:
        replicas: the judge, or several replicas of it; closed at the end.
        config: number of concurrent calls, and limits for asking twice and giving up.
        ledger: record of judgements that are not made again.
    """
    with start_blocking_portal() as portal:
        pool = JudgePool(
            replicas,
            workers=config.workers,
            micro_batch=config.micro_batch,
            hedge=config.hedge,
            ledger=ledger,
        )
        try:
            yield BackgroundJudge(pool, portal, config.deadline_s)
        finally:
            portal.call(pool.aclose)


@dataclass(frozen=True)
class JudgedGroup:
    """G judged responses to one prompt."""

    view: PolicyView
    rollouts: Rollouts
    completions: tuple[Completion, ...]
    """Texts of the policy, and the parts of them that are judged."""
    results: tuple[JudgeResult, ...] = ()
    """Empty until it is judged."""


def sizes_of(groups: Sequence[JudgedGroup]) -> Sizes:
    """Return lengths and ends of groups of one size; an unclosed thought counts as not ended."""
    rollouts_P = [group.rollouts for group in groups]
    ended_PG = np.stack([rollouts.ended_B.cpu().numpy() for rollouts in rollouts_P])
    lengths_PG = np.stack([rollouts.lengths_B.cpu().numpy() for rollouts in rollouts_P])
    thoughts_PG = [
        [completion.answer.thought for completion in group.completions]
        for group in groups
    ]
    is_closed_PG = np.array(thoughts_PG) != Thought.UNCLOSED
    return Sizes(lengths_PG=lengths_PG, ended_PG=ended_PG & is_closed_PG)


def lengths_of(groups: Sequence[JudgedGroup]) -> list[int]:
    """Return the number of tokens of each response, prompt-major."""
    return sizes_of(groups).lengths_PG.reshape(-1).tolist()


def bfloat16_if(enabled: bool, *, device: torch.device) -> torch.autocast:  # noqa: FBT001  # the name reads with its argument
    """Autocast to bfloat16 within a block, or leave its precision unchanged."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


@dataclass(frozen=True)
class JudgedSampler:
    """Sampler that asks the policy questions and has the answers judged.

    The policy gets views; passages and rubrics go from the task set only to the judge.
    """

    policy: Policy
    judge: BackgroundJudge
    autocast: bool
    """Whether to sample in bfloat16."""
    progress: Progress = field(default_factory=Progress.silent)

    def sample(
        self,
        views: Sequence[PolicyView],
        *,
        tasks: TaskSet,
        sampling: RolloutConfig,
        seed: int,
    ) -> tuple[list[JudgedGroup], Timing]:
        """Sample and judge a group for each prompt, part by part.

        Args:
            views: P prompts.
            tasks: tasks of the prompts, for the judge.
            sampling: group size, decoding, and number of prompts in a part.
            seed: seed of this pass; all its parts are drawn from one generator in order.

        Returns:
            The groups in the order of their prompts, and the times of the pass.
        """
        pending: list[Future[Judged]] = []

        def judge(part: Sequence[JudgedGroup]) -> None:
            to_judge = [
                tasks[group.view.task_id].judge_view(completion.answer)
                for group in part
                for completion in group.completions
            ]
            pending.append(self.judge.submit(to_judge))

        started = time.perf_counter()
        order, sampled = self._parts(views, judge, sampling=sampling, seed=seed)
        sampled_at = time.perf_counter()
        judged: list[Judged] = []
        total = len(views) * sampling.group_size
        with self.progress.phase("judging", total=total, unit="responses") as phase:
            for future in pending:
                judged.append(future.result())
                phase.advance(len(judged[-1].results))
        timing = Timing(
            generate_s=sampled_at - started,
            judge_s=sum(part.judge_s for part in judged),
            judge_wait_s=time.perf_counter() - sampled_at,
        )
        results = chain.from_iterable(part.results for part in judged)
        size = sampling.group_size
        groups = {
            place: replace(judged_group, results=tuple(islice(results, size)))
            for place, judged_group in zip(order, sampled, strict=True)
        }
        return [groups[place] for place in range(len(views))], timing

    def draw(
        self, views: Sequence[PolicyView], *, sampling: RolloutConfig, seed: int
    ) -> list[JudgedGroup]:
        """Sample a group for each prompt as `sample` does, and have nothing judged."""
        order, sampled = self._parts(
            views, lambda _: None, sampling=sampling, seed=seed
        )
        groups = dict(zip(order, sampled, strict=True))
        return [groups[place] for place in range(len(views))]

    def _parts(
        self,
        views: Sequence[PolicyView],
        on_part: Callable[[Sequence[JudgedGroup]], None],
        *,
        sampling: RolloutConfig,
        seed: int,
    ) -> tuple[list[int], list[JudgedGroup]]:
        """Sample part by part; return the groups, and the places of their prompts."""
        generator = torch.Generator(self.policy.device).manual_seed(seed)
        prompts = [self.policy.codec.encode_prompt(view) for view in views]
        # Prompts of similar length go together, so that few are padded to the longest of all.
        order = sorted(
            range(len(views)), key=lambda place: len(prompts[place].token_ids)
        )
        sampled: list[JudgedGroup] = []
        with self.progress.phase("sampling", total=len(views), unit="prompts") as phase:
            for first in range(0, len(views), sampling.micro_batch):
                chosen = order[first : first + sampling.micro_batch]
                part = self._sample(
                    [views[place] for place in chosen],
                    [prompts[place] for place in chosen],
                    sampling=sampling,
                    generator=generator,
                )
                sampled += part
                on_part(part)
                phase.advance(len(part))
        return order, sampled

    def _sample(
        self,
        views: Sequence[PolicyView],
        prompts: Sequence[EncodedPrompt],
        *,
        sampling: RolloutConfig,
        generator: torch.Generator,
    ) -> list[JudgedGroup]:
        codec = self.policy.codec
        with bfloat16_if(self.autocast, device=self.policy.device):
            rollouts = sample_groups(
                self.policy.model,
                prompts,
                group_size=sampling.group_size,
                max_new_tokens=sampling.max_new_tokens,
                temperature=sampling.temperature,
                generator=generator,
                eos_token_id=codec.end_token_ids,
                pad_token_id=codec.pad_token_id,
            )
        tokens = iter(rollouts.responses(range(len(rollouts.mask_BT))))
        size = sampling.group_size
        groups: list[JudgedGroup] = []
        for place, view in enumerate(views):
            completions = tuple(
                codec.completion(view, token_ids) for token_ids in islice(tokens, size)
            )
            groups.append(
                JudgedGroup(view, rollouts.take_prompts([place]), completions)
            )
        return groups
