"""What a judge gives the reference answer, and answers that should earn little or nothing.

Each answer is one call. The reference answer comes first, for it is the one most often refused;
of the others the shortest first. An invalid judgement is no reward of 0, which for an empty answer
would look like a pass: it refuses the draft with a reason of its own, as nothing is known of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import rubric_core  # `normalized_reward` loads numpy, at its first use
from rubric_core import Outcome
from rubric_synth.quality.corruption import corrupted_copies
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rubric_core import JudgeResult, JudgeView, Task
    from rubric_synth.config import QualityConfig

    AskJudge = Callable[[JudgeView], Awaitable[JudgeResult]]


async def check_rewards(task: Task, judge: AskJudge, config: QualityConfig) -> None:
    """Check that the rubric can be satisfied, and tells the reference answer from worse ones.

    Args:
        task: One that passed every other check.
        judge: Judges one answer.
        config: The thresholds, and which corrupted copies are tried.

    Raises:
        StageRefusal: With the first reason found.
    """
    rewards = _Rewards(task, judge)
    reference = await rewards.of("reference", task.reference_answer or "")
    if reference < config.min_reference_reward:
        detail = f"{reference:.2f}, below {config.limit('min_reference_reward')}"
        raise StageRefusal(RejectionReason.LOW_REFERENCE_REWARD, detail)
    empty = await rewards.of("empty", "")
    if empty > config.max_empty_reward:
        detail = f"{empty:.2f}, above {config.limit('max_empty_reward')}"
        raise StageRefusal(RejectionReason.REWARDED_EMPTY_ANSWER, detail)
    echo = await rewards.of("echo", task.question)
    if echo > config.max_echo_reward:
        detail = f"{echo:.2f}, above {config.limit('max_echo_reward')}"
        raise StageRefusal(RejectionReason.REWARDED_QUESTION_ECHO, detail)
    copies = corrupted_copies(task, config.corruptions, seed=rewards.task_id)
    if not copies:
        raise StageRefusal(RejectionReason.NOT_DISCRIMINATING, "the reference is too short")
    for kind, copy in copies.items():
        reward = await rewards.of(kind, copy)
        if reference - reward < config.min_discrimination:
            apart = config.limit("min_discrimination")
            detail = f"{kind}: {reference:.2f} and {reward:.2f}, closer than {apart}"
            raise StageRefusal(RejectionReason.NOT_DISCRIMINATING, detail)


class _Rewards:
    """Rewards of answers to one task."""

    def __init__(self, task: Task, judge: AskJudge) -> None:
        self._rubric = task.rubric
        self._judge = judge
        # Once: the task's id, which every view holds, is a hash of the whole rubric.
        self._view = task.judge_view("")

    @property
    def task_id(self) -> str:
        return self._view.task_id

    async def of(self, name: str, response: str) -> float:
        result = await self._judge(self._view.model_copy(update={"response": response}))
        match result.outcome:
            case Outcome.UNAVAILABLE:
                raise StageRefusal(RejectionReason.JUDGE_UNAVAILABLE, f"{name}: {result.reason}")
            case Outcome.INVALID:
                raise StageRefusal(RejectionReason.JUDGE_INVALID, f"{name}: {result.reason}")
            case Outcome.SCORED:
                return rubric_core.normalized_reward(result, self._rubric)
