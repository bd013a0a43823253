"""How a run ends before all documents are done: nothing is drawn any more, calls may end."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

    from anyio.abc import TaskStatus

    from rubric_synth.errors import UnfinishedCause

_GRACE_S: Final = 5.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether a run shall end, why, and how soon."""

    def __init__(self) -> None:
        """Let it run."""
        self._scope: anyio.CancelScope | None = None
        self.cause: UnfinishedCause | None = None
        """The first reason to end."""
        self._is_interrupted = False
        self.is_left = False
        """Whether to leave at once, without writing what is done."""

    @contextmanager
    def scope(self) -> Generator[None]:
        """Give what to work in; it is cancelled where calls in flight do not end in time."""
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                yield
            finally:
                self._scope = None

    @contextmanager
    def letting_end(self) -> Generator[None]:
        """Let what is done outside of the event loop end at a first interrupt; leave at the next.

        Raises:
            KeyboardInterrupt: At the second interrupt.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupted(number: int, frame: FrameType | None) -> None:
            del number, frame
            self.interrupt()
            if self.is_left:
                raise KeyboardInterrupt

        before = [signal.signal(number, interrupted) for number in _SIGNALS]
        try:
            yield
        finally:
            for number, handler in zip(_SIGNALS, before, strict=True):
                signal.signal(number, handler)

    def interrupt(self) -> None:
        """End in good order; leave at once where that was asked for before."""
        if self._is_interrupted:
            self.leave()
        else:
            self._is_interrupted = True
            self.request("interrupted")

    def request(self, cause: UnfinishedCause) -> None:
        """Draw no further document and let calls in flight end.

        They get a few seconds, or as long as they take where the ceiling on costs was reached:
        those are paid for.
        """
        if self.cause is None:
            self.cause = cause
        if self._scope is not None and cause in {"interrupted", "unavailable"}:
            self._scope.deadline = min(self._scope.deadline, anyio.current_time() + _GRACE_S)

    def leave(self) -> None:
        """Leave at once."""
        self.is_left = True
        if self._scope is not None:
            self._scope.cancel()


async def watch_signals(stop: Stop, *, task_status: TaskStatus[None]) -> None:
    """End the run at the first interrupt, in good order; leave at the second."""
    if threading.current_thread() is not threading.main_thread():
        task_status.started()
        return
    before = [signal.getsignal(number) for number in _SIGNALS]
    try:
        with anyio.open_signal_receiver(*_SIGNALS) as received:
            task_status.started()
            async for _ in received:
                stop.interrupt()
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)
