"""How often a judge may fail before a run stops."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rubric_core import Outcome
from rubric_train_openrlhf.errors import JudgeAbortError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rubric_core import JudgeResult
    from rubric_train_openrlhf.config import JudgingConfig


def check_judge(results: Sequence[JudgeResult], *, config: JudgingConfig, step: int) -> None:
    """Stop a run whose judge fails too often to train on.

    Raises:
        JudgeAbortError: a rate is above its threshold; says which, and the reasons' counts.
    """
    invalid_frac = outcome_frac(results, Outcome.INVALID)
    unavailable_frac = outcome_frac(results, Outcome.UNAVAILABLE)
    broken = [
        f"{name} judgements {rate:.1%} > judge.{field}={limit}"
        for name, field, rate, limit in (
            ("invalid", "max_invalid_frac", invalid_frac, config.max_invalid_frac),
            ("unavailable", "max_unavailable_frac", unavailable_frac, config.max_unavailable_frac),
        )
        if rate > limit
    ]
    if not broken:
        return
    reasons = Counter(result.reason.value for result in results if result.reason is not None)
    counts = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    raise JudgeAbortError(
        f"step {step}: {' and '.join(broken)} of {len(results)} responses; reasons: {counts}; "
        "repair the judge and continue with --resume, or raise the limit",
        step=step,
        invalid_frac=invalid_frac,
        unavailable_frac=unavailable_frac,
        reasons=reasons,
    )


def by_fallback(results: Iterable[JudgeResult]) -> dict[str, int]:
    """Count the results that each fallback of a `litellm_config` gave, by its name."""
    names = (result.answered_by.fallback for result in results if result.answered_by)
    return dict(Counter(filter(None, names)))


def outcome_frac(results: Sequence[JudgeResult], outcome: Outcome) -> float:
    """Share of results with an outcome."""
    return sum(result.outcome == outcome for result in results) / len(results)
