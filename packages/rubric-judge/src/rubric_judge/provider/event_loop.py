"""One event loop at a time: what counts calls in flight must not be asked from two at once."""

import asyncio
import os
import threading

from rubric_judge.errors import EventLoopError


class LoopGuard:
    """Who is inside, all of them on one event loop.

    The next loop may have it when nobody is left inside, or when the last one has stopped: what a
    loop that ended in the middle left behind is forgotten.
    """

    def __init__(self, owner: str) -> None:
        """Start without a loop.

        Args:
            owner: what it is part of, for the error.
        """
        self._owner = owner
        self._lock = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inside = set[object]()

    @property
    def inside(self) -> int:
        """How many are inside."""
        return len(self._inside)

    def enter(self, member: object) -> bool:
        """Let one in.

        Returns:
            Whether this is another loop than before: nothing else is inside, and what was counted
            of the last loop counts no more.

        Raises:
            EventLoopError: others are inside, on a loop that is running.
        """
        loop = _running_loop()
        if (
            os.getpid() != self._pid
        ):  # after a fork, the lock may be another process's for good
            self._lock = threading.Lock()
        with self._lock:
            moves = loop is not self._loop or os.getpid() != self._pid
            if moves:
                if self._inside and self._is_running():
                    raise EventLoopError(
                        f"this {self._owner} is in use on another event loop; make one for "
                        "each event loop, or call it from one loop only (from other threads "
                        "with `asyncio.run_coroutine_threadsafe`)"
                    )
                self._inside.clear()
                self._loop, self._pid = loop, os.getpid()
            self._inside.add(member)
        return moves

    def leave(self, member: object) -> bool:
        """Let one out; return what `holds` would have."""
        is_held = self.holds(member)
        self._inside.discard(member)
        return is_held

    def holds(self, member: object) -> bool:
        """Return whether one is inside and asks on the loop; one of a loop that ended does not."""
        return member in self._inside and self._loop is _running_loop()

    def _is_running(self) -> bool:
        return (
            os.getpid() == self._pid
            and self._loop is not None
            and self._loop.is_running()
        )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # Trio's loops end with all that is in them
        return None
