"""ART: an `after_each` for `gather_trajectory_groups`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from rubric_core import Judge
from rubric_core.reward.projection import OnUnavailable
from rubric_judge.adapters.rows import Tasks
from rubric_judge.adapters.scoring import RubricScorer, Submission
from rubric_judge.config import JudgeSpec

__all__ = ["GroupScorer", "rubric_rewards"]

GroupScorer = Callable[[Any], Awaitable[Any]]

# A group of one has no advantage to learn from.
_SMALLEST_GROUP: Final = 2


def rubric_rewards(
    *,
    judge: Judge | JudgeSpec | Path | str,
    tasks: Tasks = None,
    workers: int = 32,
    on_unavailable: OnUnavailable = "mask",
    ledger: Path | str | None = None,
) -> GroupScorer:
    """Return `async score(group) -> group | None`.

    A trajectory's `metadata` names its task (`task_id`); its last assistant message is judged,
    its reward replaced and its metrics added to.

    Args:
        judge: a judge, its configuration, or the YAML file with it.
        tasks: the tasks that ids name, or their file.
        workers: judge workers of this process; each holds up to four responses.
        on_unavailable: "mask" leaves the trajectory out of its group, and a group with fewer than
            two left out of the step.
        ledger: file that keeps every judgement, for `rubric-judge rejudge` and the books.

    Raises:
        ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
    """
    scorer = RubricScorer(
        judge=judge, tasks=tasks, workers=workers, on_unavailable=on_unavailable, ledger=ledger
    )

    async def score(group: Any) -> Any:  # a TrajectoryGroup
        submissions = [
            Submission(one.metadata, response=messages, prompt=messages)
            for one in group.trajectories
            for messages in [one.messages()]
        ]
        kept: list[Any] = []
        for old, judgement in zip(group.trajectories, await scorer.judge(submissions), strict=True):
            if judgement.reward is not None:
                metrics = {**old.metrics, **judgement.metrics, **judgement.criteria}
                kept.append(old.model_copy(update={"reward": judgement.reward, "metrics": metrics}))
        if len(kept) < min(_SMALLEST_GROUP, len(submissions)):
            return None
        return group.model_copy(update={"trajectories": kept})

    return score
