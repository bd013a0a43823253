"""A guard that admits one event loop at a time: counters of calls in flight are not thread-safe."""

import asyncio
import os
import threading

from rubric_judge.errors import EventLoopError


class LoopGuard:
    """The members that are inside, all of them on one event loop.

    Another loop may take over once nobody is inside or the previous loop has stopped: what a loop
    that ended midway left behind is forgotten.
    """

    def __init__(self, owner: str) -> None:
        """Start without a loop.

        Args:
            owner: name of the object that it guards, for the error.
        """
        self._owner = owner
        self._lock = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inside = set[object]()

    @property
    def inside(self) -> int:
        """Number of members inside."""
        return len(self._inside)

    def enter(self, member: object) -> bool:
        """Let a member in.

        Returns:
            Whether this is another loop than before: then nothing else is inside, and counts of
            the previous loop are void.

        Raises:
            EventLoopError: others are inside, on a loop that is running.
        """
        loop = _running_loop()
        # After a fork, the lock may be held by another process for good.
        if os.getpid() != self._pid:
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
                self._loop = loop
                self._pid = os.getpid()
            self._inside.add(member)
        return moves

    def leave(self, member: object) -> bool:
        """Let a member out; return what `holds` would have returned."""
        is_held = self.holds(member)
        self._inside.discard(member)
        return is_held

    def holds(self, member: object) -> bool:
        """Return whether a member is inside and calls on the current loop, not one that ended."""
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
    except RuntimeError:  # Trio's loops end together with all their tasks
        return None
