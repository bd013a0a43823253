"""How many judge calls one process has under way, whoever in it asks for them."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

_OF_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
"""An engine's process has one event loop, and a semaphore belongs to one."""


def judge_places(n: int) -> asyncio.Semaphore:
    """Limit the judge calls of this process; every caller in it gets the same limiter.

    It is no part of `agent.py`, which OpenRLHF executes anew for each executor that it makes.

    Args:
        n: most calls under way, which is the same for all of a run.

    Raises:
        RuntimeError: no event loop is running.
    """
    return _OF_LOOPS.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(n))
