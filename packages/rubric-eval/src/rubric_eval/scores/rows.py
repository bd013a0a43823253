"""A judgement of an answer, as the rows that are kept."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rubric_core import Outcome, criterion_scores_z, normalized_reward
from rubric_eval.records import JudgementRow, ScoreRow

if TYPE_CHECKING:
    from rubric_core import JudgeResult, Rubric
    from rubric_eval.records import AnswerRow


def score_row(answer: AnswerRow, result: JudgeResult | None, rubric: Rubric) -> ScoreRow:
    """Return what an answer is worth.

    Args:
        answer: the answer, or why there is none.
        result: its judgement; None where no answer came.
        rubric: what it was judged by.

    Returns:
        Reward and z; an invalid judgement is 0 in all of them, and an unavailable answer or
        judgement has none.
    """
    outcome = Outcome.UNAVAILABLE if result is None else result.outcome
    reward, z = None, dict[str, float]()
    if result is not None and outcome is not Outcome.UNAVAILABLE:
        reward = normalized_reward(result, rubric)
        z_M = criterion_scores_z(result, rubric)
        z = {
            name: float(value)
            for name, value in zip(rubric.ids, z_M, strict=True)
            if not math.isnan(value)  # a criterion of weight 0
        }
    return ScoreRow(
        task_id=answer.task_id,
        doc_hash=answer.doc_hash,
        sample=answer.sample,
        key=answer.key,
        outcome=outcome,
        reason=answer.reason if result is None else result.reason,
        reward=reward,
        fallback=result.answered_by.fallback if result and result.answered_by else "",
        criteria_z=z,
    )


def judgement_row(answer: AnswerRow, result: JudgeResult) -> JudgementRow:
    """Return what a judge wrote about an answer."""
    return JudgementRow(
        task_id=answer.task_id,
        sample=answer.sample,
        key=answer.key,
        reasoning=result.reasoning,
        answered_by=result.answered_by,
    )
