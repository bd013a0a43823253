"""The calls that a language model answered, apart from those of judges that are programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_synth.calls import CallTotals
from rubric_synth.dataset.manifest import Usage

if TYPE_CHECKING:
    from rubric_synth.rejection import Stage


def asked_of_models(usage: Usage) -> Usage:
    """Return the usage without the stages that took neither tokens nor money nor an unknown price.

    A judge that is a program is counted like any other, and costs nothing.
    """
    by_stage: dict[Stage, CallTotals] = {
        stage: totals for stage, totals in usage.by_stage.items() if _is_models(totals)
    }
    if not by_stage:
        return Usage(total=usage.total) if _is_models(usage.total) else Usage()
    left = [totals for stage, totals in usage.by_stage.items() if stage not in by_stage]
    total = usage.total.model_copy(
        update={
            "calls": usage.total.calls - sum(totals.calls for totals in left),
            "attempts": usage.total.attempts - sum(totals.attempts for totals in left),
        }
    )
    return Usage(total=total, by_stage=by_stage)


def _is_models(totals: CallTotals) -> bool:
    tokens = totals.prompt_tokens + totals.completion_tokens
    return bool(tokens or totals.cost_usd or totals.unpriced_calls)
