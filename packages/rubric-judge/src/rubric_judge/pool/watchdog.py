"""A deadline that holds for no judge which keeps the event loop to itself, and says so."""

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio

from rubric_judge import events

if TYPE_CHECKING:
    from collections.abc import Generator

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
