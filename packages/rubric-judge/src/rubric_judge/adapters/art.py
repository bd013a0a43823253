"""ART: an `after_each` for `gather_trajectory_groups`."""

from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from rubric_judge.adapters.scoring import MaskingOptions, RubricScorer, Submission

__all__ = ["GroupScorer", "rubric_rewards"]

GroupScorer = Callable[[Any], Awaitable[Any]]

# A group of one has no advantage to learn from.
_SMALLEST_GROUP = 2


def rubric_rewards(**options: Unpack[MaskingOptions]) -> GroupScorer:
    """Return `async score(group) -> group | None`.

    A trajectory's `metadata` names its task (`task_id`); its last assistant message is judged,
    its reward replaced and its metrics added to.

    Args:
        options: `judge`, `tasks`, `workers`, `ledger`, `thoughts` and `on_unavailable`, of which
            "mask", the default, leaves the trajectory out of its group, and a group with fewer
            than two left out of the step.

    Raises:
        ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
    """
    scorer = RubricScorer(**options)

    async def score(group: Any) -> Any:  # a TrajectoryGroup
        submissions: list[Submission] = []
        for trajectory in group.trajectories:
            messages = trajectory.messages()
            submission = Submission(
                trajectory.metadata, response=messages, prompt=messages
            )
            submissions.append(submission)
        judgements = await scorer.judge(submissions)
        scored: list[Any] = []
        for trajectory, judgement in zip(group.trajectories, judgements, strict=True):
            if judgement.reward is not None:
                metrics = {
                    **trajectory.metrics,
                    **judgement.metrics,
                    **judgement.criteria,
                }
                update = {"reward": judgement.reward, "metrics": metrics}
                scored.append(trajectory.model_copy(update=update))
        if len(scored) < min(_SMALLEST_GROUP, len(submissions)):
            return None
        return group.model_copy(update={"trajectories": scored})

    return score
