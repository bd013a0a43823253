"""inspect_ai: a scorer for a task."""

from typing import Any, Unpack

from rubric_core import Outcome, normalized_reward
from rubric_judge.adapters import scoring

__all__ = ["rubric_scorer"]


def rubric_scorer(
    **options: Unpack[scoring.ScorerOptions],
) -> Any:  # an inspect_ai Scorer
    """Return a scorer for `Task(scorer=…)`.

    A sample's metadata names its task (`task_id`; else the sample's own id) or holds `rubric`,
    `passage` and `question`. Without a judgement the sample is unscored, which no metric counts.

    Args:
        options: `judge`, `tasks`, `workers`, `ledger`, `thoughts`.

    Raises:
        MissingExtraError: inspect_ai is not installed.
        ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
    """
    inspect = scoring.stack_module("inspect_ai.scorer", install="inspect-ai")
    scorer = scoring.RubricScorer(**options)

    async def score(state: Any, target: object) -> Any:  # a TaskState, a Score
        del target
        row = {"task_id": state.sample_id, **state.metadata}
        submission = scoring.Submission(row, _response(state.output), state.input_text)
        (judgement,) = await scorer.judge([submission])
        result = judgement.result
        metadata = judgement.metrics | judgement.by_id
        why = None if result.reason is None else f"{result.reason}: {result.detail}"
        if judgement.reward is None:
            return inspect.Score.unscored(
                reason="scoring_failed", explanation=why, metadata=metadata
            )
        reason = "grader_failed" if result.outcome is Outcome.INVALID else None
        # Not `judgement.reward`, whose last bits are for trainers.
        value = normalized_reward(result, judgement.view.rubric)
        return inspect.Score(
            value=value, reason=reason, explanation=why, metadata=metadata
        )

    # inspect_ai registers what makes a scorer, under a name.
    @inspect.scorer(metrics=[inspect.mean(), inspect.stderr()], name="rubric")
    def rubric() -> Any:
        return score

    return rubric()


def _response(output: Any) -> object:
    """Return the model's message, which holds its thought apart; else its text."""
    choices = getattr(output, "choices", None)
    return choices[0].message.model_dump() if choices else output.completion
