"""The judgement of one response as other stacks' logs carry it: one short JSON text."""

from operator import not_
from typing import Annotated

from pydantic import Field

from rubric_core import JudgeResult, JudgeView, Outcome, Pooling
from rubric_core.reward.projection import shares_by_id, weighted_scores_z
from rubric_core.rows import OpenRow
from rubric_core.schema.judged import turn_of

RECORD = "judgement"
"""Name of its field, after the prefix of the metrics: `rubric/judgement`."""


def _is_none(value: object) -> bool:
    return value is None


class JudgementRecord(OpenRow):
    """Scores, shares and pools by criterion id; no text of a rubric, a passage or a judge."""

    task_id: str
    outcome: Outcome
    shares: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]
    """α_j of the criteria with weight."""
    z: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(
        default_factory=dict, exclude_if=not_
    )
    """z_j of them; left out where the judgement failed."""
    pools: dict[str, str] = Field(default_factory=dict, exclude_if=not_)
    """Names of the pools of criteria that are not pooled by their own id."""
    turns: dict[str, int] = Field(default_factory=dict, exclude_if=not_)
    """Turns of the criteria that name one."""
    tokens: int | None = Field(default=None, ge=0, exclude_if=_is_none)
    """Tokens that the judge read and wrote; left out where it does not say."""


def judgement_record(
    view: JudgeView, result: JudgeResult, pooling: Pooling
) -> JudgementRecord:
    """Return what a log may hold of a judgement.

    Args:
        view: what was judged.
        result: the judgement.
        pooling: pools of criteria.
    """
    weighted = [criterion for criterion in view.rubric if criterion.weight > 0]
    shares = shares_by_id(view.rubric)
    pools = {
        criterion.id: name
        for criterion in weighted
        if (name := pooling.pool(criterion).name) != criterion.id
    }
    return JudgementRecord(
        task_id=view.task_id,
        outcome=result.outcome,
        shares={criterion.id: shares[criterion.id] for criterion in weighted},
        z=weighted_scores_z(result, view.rubric),
        pools=pools,
        turns={
            criterion.id: number
            for criterion in weighted
            if (number := turn_of(criterion.judges)) is not None
        },
        tokens=tokens_of(result),
    )


def tokens_of(result: JudgeResult) -> int | None:
    """Return the tokens that a judgement took; None where the judge does not say."""
    if result.usage is None:
        return None
    return result.usage.prompt_tokens + result.usage.completion_tokens
