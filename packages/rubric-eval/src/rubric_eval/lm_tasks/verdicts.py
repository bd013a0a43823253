"""A judgement as lm-eval may log it: numbers and names, no passage and no judge's words."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rubric_core import JudgeResult, Outcome, Task, criterion_scores_z, normalized_reward

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_SHARED_FRAC: Final = 0.05


@dataclass(frozen=True)
class Verdict:
    """What a response was given."""

    response: str
    outcome: str
    reason: str | None
    reward: float | None
    """None for an unavailable judgement; 0 for an invalid one."""

    criteria_z: dict[str, float]
    """z of the criteria that many questions share."""

    is_fallback: bool = False
    """Whether a fallback of a `litellm_config` judged it: another model, perhaps."""


def verdict(
    task: Task, result: JudgeResult, *, response: str, criteria: Collection[str]
) -> Verdict:
    """Return the verdict on a response.

    Args:
        task: what it answers.
        result: its judgement.
        response: its text.
        criteria: those to keep the score of.
    """
    if result.outcome is Outcome.UNAVAILABLE:
        return Verdict(response, str(result.outcome), str(result.reason), None, {})
    scores = zip(task.rubric.ids, criterion_scores_z(result, task.rubric), strict=True)
    return Verdict(
        response=response,
        outcome=str(result.outcome),
        reason=None if result.reason is None else str(result.reason),
        reward=normalized_reward(result, task.rubric),
        is_fallback=bool(result.answered_by and result.answered_by.fallback),
        criteria_z={name: float(z) for name, z in scores if name in criteria and not math.isnan(z)},
    )


def only(given: Verdict, criteria: Collection[str]) -> Verdict:
    """Return a verdict with the scores of these criteria alone."""
    kept = {name: z for name, z in given.criteria_z.items() if name in criteria}
    return replace(given, criteria_z=kept)


def shared_criteria(tasks: Iterable[Task]) -> tuple[str, ...]:
    """Return the criteria that at least one in twenty questions has.

    The mean over a criterion that one question has is that question's score; lm-eval's table would
    have thousands of rows of them.
    """
    counts: Counter[str] = Counter()
    questions = 0
    for task in tasks:
        questions += 1
        counts.update(set(task.rubric.ids))
    least = max(_SHARED_FRAC * questions, min(2, questions))
    return tuple(sorted(name for name, count in counts.items() if count >= least))
