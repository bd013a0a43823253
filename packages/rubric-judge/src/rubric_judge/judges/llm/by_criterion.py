"""One judgement from one call per criterion, so that an error in one does not affect another."""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import reduce
from typing import NamedTuple

import anyio
from anyio.abc import TaskGroup

from rubric_core import Criterion, JudgeResult, JudgeView, Outcome, Rubric
from rubric_core.judgement.evidence import Evidence
from rubric_core.judgement.result import Answerer, Call, Usage

_Ask = Callable[[JudgeView], Awaitable[JudgeResult]]


class _Part(NamedTuple):
    criterion: Criterion
    result: JudgeResult
    ended_s: float


async def judge_by_criterion(ask: _Ask, view: JudgeView, *, warm: bool) -> JudgeResult:
    """Ask for all criteria at once, each in a call of its own, and combine the answers.

        s_j from the call for c_j;   r = Σ s_j / W

    A criterion without weight scores 0 without a call. All calls are completed, so that the usage
    of a failed judgement is known.

    Args:
        ask: judges a view with one call.
        view: the view to judge.
        warm: whether the first call goes alone, for servers that share a prefix only after a call
            with it has ended.

    Returns:
        A scored result if every criterion is scored. If an answer is invalid, the whole is, with
        the reason of the first such answer; otherwise, if one is unavailable, the whole is. Usage
        and attempts are summed; the latency is from the first attempt to the last answer.

    Raises:
        Exception: whatever `ask` raises; the other calls are cancelled first.

    Cancellation passes through.
    """
    asked = [criterion for criterion in view.rubric if criterion.weight]
    first = asked[:1] if warm else []
    parts = await _judged(ask, view, first) if first else []
    parts += await _judged(ask, view, asked[len(first) :])
    result = _joined(view.rubric, parts)
    return result.with_call(**_together(parts))


async def _judged(
    ask: _Ask, view: JudgeView, criteria: Sequence[Criterion]
) -> list[_Part]:
    parts: dict[int, _Part] = {}
    raised: list[BaseException] = []

    async def judge(place: int, criterion: Criterion, group: TaskGroup) -> None:
        alone = Rubric(criteria=(criterion,))
        try:
            result = await ask(view.model_copy(update={"rubric": alone}))
        # Raised in the caller's task, not as a group, since the exception's type matters there.
        except BaseException as error:
            is_cancelled_outside = anyio.current_effective_deadline() == -math.inf
            if is_cancelled_outside:
                raise
            raised.append(error)
            group.cancel_scope.cancel()
        else:
            parts[place] = _Part(criterion, result, time.perf_counter())

    async with anyio.create_task_group() as group:
        for place, criterion in enumerate(criteria):
            group.start_soon(judge, place, criterion, group)
    if raised:
        raise raised[0]
    return [parts[place] for place in range(len(criteria))]


def _joined(rubric: Rubric, parts: Sequence[_Part]) -> JudgeResult:
    kinds = {
        Outcome.INVALID: JudgeResult.invalid,
        Outcome.UNAVAILABLE: JudgeResult.unavailable,
    }
    for outcome, failed in kinds.items():
        for criterion, result, _ in parts:
            if result.outcome is outcome and result.reason is not None:
                detail = f"criterion {criterion.id!r}: {result.detail or result.reason.value}"
                whole = failed(result.reason, detail=detail)
                return whole.model_copy(update={"reasoning": result.reasoning})
    scores = dict.fromkeys(rubric.ids, 0.0)
    reasons: list[str] = []
    evidence: dict[str, Evidence] = {}
    for criterion, result, _ in parts:
        scores |= result.scores
        evidence |= result.evidence
        if result.reasoning:
            reasons.append(f"{criterion.id}: {result.reasoning}")
    whole = JudgeResult.scored(rubric, scores, judge="", reasoning="\n".join(reasons))
    return JudgeResult.model_validate({**dict(whole), "evidence": evidence})


def _together(parts: Sequence[_Part]) -> Call:
    results = [part.result for part in parts]
    used = [result.usage for result in results if result.usage is not None]
    begun_s = min(part.ended_s - (part.result.latency_s or 0.0) for part in parts)
    return Call(
        judge=results[0].judge,
        answered_by=_answerer([result.answered_by for result in results]),
        usage=reduce(Usage.plus, used) if used else None,
        latency_s=max(part.ended_s for part in parts) - begun_s,
        attempts=sum(result.attempts for result in results),
        passage_truncated=any(result.passage_truncated for result in results),
    )


def _answerer(each: Sequence[Answerer | None]) -> Answerer | None:
    """Return who answered, preferring a fallback that answered for any criterion."""
    known = [answerer for answerer in each if answerer is not None]
    for answerer in known:
        if answerer.fallback:
            return answerer
    return known[0] if known else None
