"""One call of a judge: the boundary that nothing but a result comes out of."""

from __future__ import annotations

import math
import sys
import threading
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio

from rubric_core import Judge, JudgeResult, JudgeView, Outcome, Reason
from rubric_judge import events
from rubric_judge.errors import EventLoopError

if TYPE_CHECKING:
    from collections.abc import Generator


async def ask(judge: Judge, view: JudgeView) -> JudgeResult:
    """Judge one response.

    Args:
        judge: the judge.
        view: what it sees.

    Returns:
        Its result. An exception that it lets out, or scores that are not the rubric's, are
        `unavailable` with reason `judge_error`; a cancellation of its own making is `cancelled`.

    Raises:
        SystemExit, KeyboardInterrupt: the judge asked for the program to end.
        EventLoopError: the judge is in use on another event loop.

    Cancellation from outside of the judge passes through.
    """
    try:
        # An instance passes through; what else a plugin may return is an error.
        result = JudgeResult.model_validate(await judge.judge(view))
        if result.outcome is Outcome.SCORED:
            view.rubric.check_scores(result.scores)
    except anyio.get_cancelled_exc_class():
        # A library below the judge may cancel its own task and let that out. Only where the call
        # itself is being cancelled is the deadline past for good.
        if anyio.current_effective_deadline() == -math.inf:
            raise
        return JudgeResult.unavailable(
            Reason.CANCELLED, judge=judge.name, detail="the judge cancelled its own call"
        )
    # The first is the caller's mistake; the others are not about this call.
    except (EventLoopError, SystemExit, KeyboardInterrupt, GeneratorExit):
        raise
    # The named boundary for judges: one that breaks its promise not to raise costs its own
    # judgement, not the step. The message may hold a text, so only the type and place go on.
    except BaseException as error:  # noqa: BLE001
        return _unexpected(judge, view, error)
    return result


def _unexpected(judge: Judge, view: JudgeView, error: BaseException) -> JudgeResult:
    kind = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
    events.unexpected_exception(judge=judge.name, task_id=view.task_id, error=kind, where=where)
    return JudgeResult.unavailable(
        Reason.JUDGE_ERROR, judge=judge.name, detail=f"the judge raised {kind}"
    )


GRACE_S: Final = 5.0
"""How long after its deadline a step may still be cancelling its calls."""


@contextmanager
def watched_deadline(deadline_s: float | None, *, judge: str) -> Generator[None]:
    """Cancel what the block waits for at its deadline; log where it is if that does not end it.

    A deadline cancels what waits. A judge that computes or sleeps in the event loop waits for
    nothing: the step cannot end before it does, and this is how its name becomes known.

    Args:
        deadline_s: of the step; without one nothing is cancelled or watched.
        judge: whose step it is.
    """
    if deadline_s is None:
        yield
        return
    thread = threading.get_ident()

    def name() -> None:
        frame = sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # documented, and the only way
        where = traceback.extract_stack(frame)[-1] if frame is not None else None
        place = f"{where.filename}:{where.lineno}" if where is not None else "unknown"
        events.loop_blocked(judge=judge, where=place, deadline_s=deadline_s)

    timer = threading.Timer(deadline_s + GRACE_S, name)
    timer.daemon = True
    timer.start()
    try:
        with anyio.move_on_after(deadline_s):
            yield
    finally:
        timer.cancel()
        timer.join()
