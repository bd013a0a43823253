"""Blocking work in a thread of its own, whose results are taken one by one, as they come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

import anyio.to_thread

_Result = TypeVar("_Result")
Report: TypeAlias = Callable[[_Result], None]
"""What work calls with each result."""


async def reported(work: Callable[[Report[_Result]], object]) -> AsyncGenerator[_Result]:
    """Run work that reports its results, and give each as soon as it is reported.

    Close it with `contextlib.aclosing`. A thread cannot be stopped: work that nobody waits for any
    more runs on, unless it has a way of its own to learn of that.

    Args:
        work: is given a function to report with.

    Yields:
        What is reported, in order.

    Raises:
        Exception: whatever the work raises, behind its last result.
    """
    queue: SimpleQueue[tuple[_Result, ...]] = SimpleQueue()
    worker = ThreadPoolExecutor(max_workers=1)
    try:
        ended = worker.submit(work, lambda result: queue.put((result,)))
        ended.add_done_callback(lambda _: queue.put(()))
        while found := await anyio.to_thread.run_sync(queue.get, abandon_on_cancel=True):
            yield found[0]
        ended.result()
    finally:
        worker.shutdown(wait=False)
