"""Blocking work in a thread of its own, whose results are taken one by one, as they come."""

import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Generic, TypeVar

import anyio.to_thread

_Result = TypeVar("_Result")


class Report(Generic[_Result]):
    """The callback that work calls with each result."""

    def __init__(self) -> None:
        """Begin with none."""
        self.queue: SimpleQueue[tuple[_Result, ...]] = SimpleQueue()
        self.left = threading.Event()
        """Set once nobody waits for results any more."""

    def __call__(self, result: _Result) -> None:
        """Hand a result over."""
        self.queue.put((result,))


async def reported(
    work: Callable[[Report[_Result]], object],
) -> AsyncGenerator[_Result]:
    """Run work that reports its results, and give each as soon as it is reported.

    Close it with `contextlib.aclosing`. A thread cannot be stopped: work that nobody waits for any
    more runs on, unless it looks at `Report.left`.

    Args:
        work: is given what to report with.

    Yields:
        What is reported, in order.

    Raises:
        Exception: whatever the work raises, after its last result.
    """
    report: Report[_Result] = Report()
    worker = ThreadPoolExecutor(max_workers=1)
    try:
        ended = worker.submit(work, report)
        ended.add_done_callback(lambda _: report.queue.put(()))
        while True:
            results = await anyio.to_thread.run_sync(
                report.queue.get, abandon_on_cancel=True
            )
            if not results:
                break
            yield results[0]
        ended.result()
    finally:
        report.left.set()
        worker.shutdown(wait=False)
