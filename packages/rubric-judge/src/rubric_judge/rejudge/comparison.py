"""What a second judgement changes."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rubric_core import JudgeResult
from rubric_judge.responses import JudgedResponse, reward_of

if TYPE_CHECKING:
    from rubric_core.groups import FloatArray


_EQUAL = 1e-9
"""Rewards that are closer are the same: nothing but rounding parts them."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rewards before and after, of the responses that have both."""

    rewarded: int
    """Responses with a reward from either judgement."""
    mean_before: float
    mean_after: float
    changed_frac: float
    """Share whose reward differs."""
    mean_abs_difference: float
    rank_correlation: float | None
    """Spearman's ρ; None without scipy, or where all rewards of one side are equal."""
    order_kept_frac: float | None
    """Of the pairs of responses to one task that differed before, the share that still stand in
    that order: what a group-relative advantage is made of. None without such a pair."""


def compare(
    before: Sequence[JudgeResult | None], after: Sequence[JudgedResponse]
) -> Comparison | None:
    """Compare judgements of the same responses, in the same order.

    Returns:
        None where not a single response has a reward from either.
    """
    both = [
        (old, new, judged.view.task_id)
        for result, judged in zip(before, after, strict=True)
        if (old := reward_before(result)) is not None and (new := judged.reward) is not None
    ]
    if not both:
        return None
    old_N, new_N = np.array([old for old, _, _ in both]), np.array([new for _, new, _ in both])
    differences_N = np.abs(new_N - old_N)
    return Comparison(
        rewarded=len(both),
        mean_before=float(old_N.mean()),
        mean_after=float(new_N.mean()),
        changed_frac=float((differences_N > _EQUAL).mean()),
        mean_abs_difference=float(differences_N.mean()),
        rank_correlation=_rank_correlation(old_N, new_N),
        order_kept_frac=_order_kept(both),
    )


def reward_before(result: JudgeResult | None) -> float | None:
    """Return the reward of a stored judgement, if there is one."""
    return None if result is None else reward_of(result)


def _rank_correlation(old_N: FloatArray, new_N: FloatArray) -> float | None:
    if np.ptp(old_N) <= _EQUAL or np.ptp(new_N) <= _EQUAL:
        return None
    try:
        from scipy import stats  # optional, and slow to load
    except ImportError:
        return None
    spearman = cast("Any", stats).spearmanr  # scipy has no type stubs
    return float(spearman(old_N, new_N).statistic)


def _order_kept(both: Sequence[tuple[float, float, str]]) -> float | None:
    of_task: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for old, new, task_id in both:
        of_task[task_id].append((old, new))
    kept = [
        (old_a - old_b) * (new_a - new_b) > 0
        for rewards in of_task.values()
        for (old_a, new_a), (old_b, new_b) in itertools.combinations(rewards, 2)
        if abs(old_a - old_b) > _EQUAL
    ]
    return sum(kept) / len(kept) if kept else None
