"""A deadline that holds for no judge which keeps the event loop to itself, and says so."""

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rubric_judge import events

if TYPE_CHECKING:
    from collections.abc import Generator

GRACE_S: Final = 5.0
"""How long after its deadline a step may still be cancelling its calls."""


@contextmanager
def blocked_loop_named(judge: str, *, deadline_s: float | None) -> Generator[None]:
    """Log where this thread is if the block has not ended some seconds after its deadline.

    A deadline cancels what waits. A judge that computes or sleeps in the event loop waits for
    nothing: the step cannot end before it does, and this is how its name becomes known.

    Args:
        judge: whose step it is.
        deadline_s: of the step; without one nothing is watched.
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
        yield
    finally:
        timer.cancel()
        timer.join()
