"""What a judgement takes: calls, tokens, seconds and dollars, as the results say themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rubric_core import JudgeResult
from rubric_judge.page.tables import Part, or_dash


class JudgementCost(Part):
    """Means over the judgements of one judge that say it, those without scores included.

    A judgement from a ledger says what it took when it was made. A listwise judge's call is divided
    among the responses of its group, but all of them wait for the whole call.
    """

    calls: float | None
    """Attempts; None where no judgement tells of tokens, as of a program or a person."""
    prompt_tokens: float | None
    completion_tokens: float | None
    cached_tokens: float | None
    """Of the prompt's; None where no server said."""
    cost_usd: float | None
    seconds: float | None
    """From the first attempt to the answer."""


def judgement_cost(results: Sequence[JudgeResult]) -> JudgementCost:
    """Average what judgements took.

    Args:
        results: of one judge.
    """
    used = [result.usage for result in results if result.usage is not None]
    calls = [float(result.attempts) for result in results] if used else []
    return JudgementCost(
        calls=_mean(calls),
        prompt_tokens=_mean([usage.prompt_tokens for usage in used]),
        completion_tokens=_mean([usage.completion_tokens for usage in used]),
        cached_tokens=_mean_known([usage.cached_tokens for usage in used]),
        cost_usd=_mean_known([usage.cost_usd for usage in used]),
        seconds=_mean_known([result.latency_s for result in results]),
    )


COST_ROWS: Final[tuple[tuple[str, Callable[[JudgementCost], str]], ...]] = (
    ("calls a judgement", lambda one: or_dash(one.calls, ".2f")),
    ("prompt tokens a judgement", lambda one: or_dash(one.prompt_tokens, ".0f")),
    ("  of them cached", lambda one: or_dash(one.cached_tokens, ".0f")),
    ("completion tokens a judgement", lambda one: or_dash(one.completion_tokens, ".0f")),
    ("seconds to a judgement", lambda one: or_dash(one.seconds, ".3g")),
    (
        "US dollars for 1,000 judgements",
        lambda one: or_dash(None if one.cost_usd is None else 1000 * one.cost_usd, ".4g"),
    ),
)
"""Names of the rows of a report, and what stands in them."""


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _mean_known(values: Sequence[float | None]) -> float | None:
    return _mean([value for value in values if value is not None])
