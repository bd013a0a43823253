"""What a score cannot be, beside its question's rubric and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_core import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_eval.records import AnswerRow, QuestionRow, ScoreRow


_ROUNDING: Final = 1e-9


def contradiction(row: ScoreRow, question: QuestionRow, answer: AnswerRow) -> str | None:
    """Say what contradicts a score; None where nothing does.

        r = Σ_j w_j z_j / Σ_j w_j

    Where the weights are not known, as in an evaluation of an earlier version, a weighted mean can
    still be no less than the least of its criteria, and no more than the greatest.

    Args:
        row: the score.
        question: its question, with the weights of the criteria.
        answer: its answer.
    """
    z = row.criteria_z
    if row.doc_hash != question.doc_hash:
        return "its doc_hash is not that of its question in questions.jsonl"
    if (row.reward is None and z) or (row.reward is not None and answer.text is None):
        return "it has a reward or criteria where there is nothing to judge, or no judgement"
    if row.outcome is Outcome.INVALID and (row.reward or any(z.values())):
        return "it is invalid, and its reward or a criterion is not 0"
    if row.outcome is Outcome.SCORED:
        if question.weights and question.weights.keys() != z.keys():
            return "its criteria are not those of its question in questions.jsonl"
        if z and not _adds_up(row.reward or 0.0, z, question.weights):
            return "its reward is not what its criteria add up to"
    return None


def _adds_up(reward: float, z: Mapping[str, float], weights: Mapping[str, float]) -> bool:
    if not weights:
        return min(z.values()) - _ROUNDING <= reward <= max(z.values()) + _ROUNDING
    total = sum(weights.values())
    return abs(sum(weights[name] * value for name, value in z.items()) / total - reward) < _ROUNDING
