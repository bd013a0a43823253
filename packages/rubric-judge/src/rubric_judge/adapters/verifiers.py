"""verifiers: a reward for a v1 `Task`, plugged by name or called from a method of it."""

from collections.abc import Awaitable, Callable
from typing import Any, Unpack, cast

from rubric_judge.adapters.scoring import RubricScorer, ScorerOptions, Submission

__all__ = ["RewardFunction", "rubric_reward"]

RewardFunction = Callable[[Any, Any], Awaitable[float]]


def rubric_reward(**options: Unpack[ScorerOptions]) -> RewardFunction:
    """Return `async rubric(task, trace) -> float` for `task.rewards.rubric.fn` or `@vf.reward`.

    The row is the task's data: a field `task_id` (or else `id`) that `tasks` knows, or the fields
    `rubric`, `passage` and `question`. Metrics are recorded on the trace. Without a judgement it
    raises, so that the rollout counts as failed and not as wrong.

    Args:
        options: `judge`, `tasks`, `workers`, `ledger`, `thoughts`, `log_judgements`.

    Raises:
        ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
    """
    scorer = RubricScorer(**options, on_unavailable="raise", can_log=True)

    async def rubric(task: Any, trace: Any) -> float:  # TaskData and Trace
        row = cast("dict[str, object]", task.model_dump())
        row.setdefault("task_id", row.get("id"))
        submission = Submission(row, _reply(trace), task.prompt_text)
        (judgement,) = await scorer.judge([submission])
        for name, value in (judgement.metrics | judgement.criteria).items():
            trace.record_metric(name, value)
        if judgement.log_entry:
            trace.info.update(judgement.log_entry)
        return judgement.reward or 0.0

    return rubric


def _reply(trace: Any) -> object:
    """Return the message whose text is `last_reply`; its reasoning is a separate field."""
    messages = getattr(trace, "assistant_messages", None)
    if messages and trace.root_reply is None:
        return messages[-1].model_dump()
    return trace.last_reply
