"""One judgement from several calls, each for a part of the rubric: one criterion, or k of them."""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from rubric_core import Evidence, JudgeResult, JudgeView, Rubric, VerdictProbability
from rubric_core.judgement.call import Answerer
from rubric_core.judgement.result import first_failure, one_call
from rubric_judge.judges.several import at_once

_Ask = Callable[[JudgeView], Awaitable[JudgeResult]]
_RUBRICS_KEPT = 1024


class _Part(NamedTuple):
    rubric: Rubric
    result: JudgeResult
    ended_s: float


async def judge_by_criterion(
    ask: _Ask, view: JudgeView, *, warm: bool, k: int = 1
) -> JudgeResult:
    """Ask for k criteria in each call, all calls at once, and combine the answers.

        s_j from the call that asks for c_j;   r = Σ s_j / W

    A criterion without weight scores 0 without a call. All calls are completed, so that the usage
    of a failed judgement is known.

    Args:
        ask: judges a view with one call.
        view: the view to judge.
        warm: whether the first call goes alone, for servers that share a prefix only after a call
            with it has ended.
        k: most criteria in a call, in the rubric's order; the last call has the rest.

    Returns:
        A scored result if every criterion is scored. If an answer is invalid, the whole is, with
        the reason of the first such answer; otherwise, if one is unavailable, the whole is. Usage
        and attempts are summed; the latency is from the first attempt to the last answer.

    Raises:
        Exception: whatever `ask` raises; the other calls are cancelled first.

    Cancellation passes through.
    """

    async def judged(rubric: Rubric) -> _Part:
        result = await ask(view.model_copy(update={"rubric": rubric}))
        return _Part(rubric, result, time.perf_counter())

    calls = [partial(judged, rubric) for rubric in _rubrics(view.rubric, k)]
    parts = await at_once(calls, warm=warm)
    results = [part.result for part in parts]
    begun_s = min(part.ended_s - (part.result.latency_s or 0.0) for part in parts)
    latency_s = max(part.ended_s for part in parts) - begun_s
    call = one_call(results, judge=results[0].judge, latency_s=latency_s)
    call["answered_by"] = _answerer([result.answered_by for result in results])
    return _joined(view.rubric, parts).with_call(**call)


# One object for a group: what is kept for a rubric, its schema and its text, is kept for its parts.
@lru_cache(maxsize=_RUBRICS_KEPT)
def _rubrics(rubric: Rubric, k: int) -> tuple[Rubric, ...]:
    """Cut the criteria with weight into rubrics of at most k."""
    asked = tuple(criterion for criterion in rubric if criterion.weight)
    return tuple(
        Rubric(criteria=asked[start : start + k]) for start in range(0, len(asked), k)
    )


def _joined(rubric: Rubric, parts: Sequence[_Part]) -> JudgeResult:
    failed = first_failure([(_named(part), result) for part, result, _ in parts])
    if failed is not None:
        return failed
    scores = dict.fromkeys(rubric.ids, 0.0)
    reasons: list[str] = []
    evidence: dict[str, Evidence] = {}
    probabilities: dict[str, VerdictProbability] = {}
    for part, result, _ in parts:
        scores |= result.scores
        evidence |= result.evidence
        probabilities |= result.probabilities
        if result.reasoning:
            reasons.append(f"{', '.join(part.ids)}: {result.reasoning}")
    whole = JudgeResult.scored(rubric, scores, judge="", reasoning="\n".join(reasons))
    return whole.with_fields(evidence=evidence, probabilities=probabilities)


def _named(rubric: Rubric) -> str:
    """Name a part of a rubric by its criteria, the first and the last of several."""
    first, *others = rubric.ids
    return f"criteria {first!r} to {others[-1]!r}" if others else f"criterion {first!r}"


def _answerer(each: Sequence[Answerer | None]) -> Answerer | None:
    """Return who answered, preferring a fallback that answered for any criterion."""
    known = [answerer for answerer in each if answerer is not None]
    for answerer in known:
        if answerer.fallback:
            return answerer
    return known[0] if known else None
