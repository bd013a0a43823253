"""Shared parts of judges that ask other judges: calls at once, draws, one bill, one end."""

import hashlib
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from rubric_core import Judge, JudgeResult
from rubric_core.judgement.result import CascadeTrace, one_call
from rubric_judge.judges.capabilities import check, close

_Answer = TypeVar("_Answer")


class SeveralJudges:
    """Judges that are checked and closed together."""

    def __init__(self, judges: Sequence[Judge]) -> None:
        """Take the judges, in the order in which they are asked."""
        self._judges = tuple(judges)

    async def check(self) -> None:
        """Check every judge.

        Raises:
            JudgeSetupError: an endpoint is not there.
        """
        for judge in self._judges:
            await check(judge)

    async def aclose(self) -> None:
        """Close the judges."""
        for judge in self._judges:
            await close(judge)


async def at_once(
    calls: Iterable[Callable[[], Awaitable[_Answer]]], *, warm: bool = False
) -> list[_Answer]:
    """Make calls together, the first alone where a cache is to be filled by it.

    Returns:
        What they return, in the order of the calls.

    Raises:
        Exception: the first that a call raises, as it is: callers know no groups of exceptions.
    """
    answers: dict[int, _Answer] = {}
    raised: list[BaseException] = []

    async def keep(
        place: int, call: Callable[[], Awaitable[_Answer]], group: TaskGroup
    ) -> None:
        try:
            answers[place] = await call()
        # Raised in the caller's task, not as a group, since the exception's type matters there.
        except BaseException as error:
            is_cancelled_outside = (
                not raised and anyio.current_effective_deadline() == -math.inf
            )
            if is_cancelled_outside:
                raise
            raised.append(error)
            group.cancel_scope.cancel()

    numbered = list(enumerate(calls))
    first = numbered[:1] if warm else []
    for some in (first, numbered[len(first) :]):
        async with anyio.create_task_group() as tasks:
            for place, call in some:
                tasks.start_soon(keep, place, call, tasks)
        if raised:
            raise raised[0]
    return [answers[place] for place in sorted(answers)]


def draw(*parts: object) -> int:
    """Return 64 bits that follow from the parts alone: the same ones whenever they are drawn."""
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:8])


def with_totals(
    result: JudgeResult,
    answers: Sequence[JudgeResult],
    *,
    judge: str,
    latency_s: float,
    cascade: CascadeTrace | None = None,
) -> JudgeResult:
    """Return a result with the totals of all answers that it is made of.

    Args:
        result: scores, or the failure.
        answers: one or more.
        judge: name of the judge that asked for them.
        latency_s: seconds from the first question to the last answer.
        cascade: who decided what, where judges were asked in turn.
    """
    call = one_call(answers, judge=judge, latency_s=latency_s)
    return result.with_fields(**call, cascade=cascade)
