"""One held-out task that several processes share: accelerate's or torchrun's ranks.

Each has every n-th question. lm-eval gathers metrics by the names that its first process has: one
that another lacks ends the run, and one that only another has is lost without a word.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rubric_core import ConfigError, Outcome
from rubric_eval.errors import HeldoutAbortError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.lm_tasks.verdicts import Verdict


@dataclass(frozen=True)
class RankResult:
    """What one process says of its verdicts to the others."""

    responses: int
    reasons: tuple[str, ...]
    """Of each response without a judgement."""

    criteria: frozenset[str]
    """That at least one of its verdicts has a score of."""


def rank_result(verdicts: Sequence[Verdict]) -> RankResult:
    """Sum the verdicts of this process up."""
    lost = [one for one in verdicts if one.outcome == Outcome.UNAVAILABLE]
    return RankResult(
        responses=len(verdicts),
        reasons=tuple(str(one.reason) for one in lost),
        criteria=frozenset(name for one in verdicts for name in one.criteria_z),
    )


def gathered(result: RankResult, *, world_size: int) -> list[RankResult]:
    """Return the results of all processes, in their order; they must all come here.

    Raises:
        ConfigError: processes that torch.distributed does not join.
    """
    if world_size == 1:
        return [result]
    try:
        distributed: Any = import_module("torch.distributed")
    except ImportError:
        distributed = None
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        raise ConfigError(
            f"rubric_heldout is shared by {world_size} processes that torch.distributed does not "
            "join, so they cannot agree on what was judged: run it in one process, or by "
            "`accelerate launch`",
            location="world_size",
        )
    results: list[RankResult] = [result] * world_size
    distributed.all_gather_object(results, result)
    return results


def refuse_unreached(results: Sequence[RankResult], *, allowed: float) -> None:
    """End where too many responses of all processes have no judgement, or all of one process.

    Raises:
        HeldoutAbortError: the same in every process.
    """
    reasons = Counter(reason for one in results for reason in one.reasons)
    responses = sum(one.responses for one in results)
    share = reasons.total() / responses
    is_lost = any(len(one.reasons) == one.responses for one in results)
    if share > allowed or is_lost:
        listed = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
        bound = f"more than the allowed share {allowed!r}"
        if share <= allowed:
            bound = "all those of one process, whose mean would be of none"
        raise HeldoutAbortError(
            f"rubric_heldout: no judgement for {reasons.total()} of {responses} responses "
            f"({listed}), {bound}; check the judge and run again, with `--use_cache` and a "
            "`ledger` what is done is not done again",
            unavailable_frac=share,
            reasons=reasons,
        )


def common_criteria(results: Sequence[RankResult]) -> frozenset[str]:
    """Return the criteria that every process has a score of; of the others there is no mean."""
    first, *others = results
    return frozenset(name for name in first.criteria if all(name in one.criteria for one in others))
