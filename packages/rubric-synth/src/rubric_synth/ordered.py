"""Bounded concurrency with results handed on in the order of the inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

Item = TypeVar("Item")
Result = TypeVar("Result")

_WINDOW: Final = 4


async def map_in_order(
    function: Callable[[Item], Awaitable[Result]],
    items: Iterable[Item],
    emit: Callable[[Result], None],
    *,
    limit: int,
) -> None:
    """Apply an async function to items, at most `limit` at one time, and emit results in order.

    Items are drawn only as there is room: at most four times `limit` of them are begun or wait
    to be emitted, so memory stays flat however slow the first of them is. An exception cancels
    the rest and is raised as itself.

    Args:
        function: Called once per item.
        items: Inputs, drawn lazily.
        emit: Given each result, in the order of the items.
        limit: Calls in flight.
    """
    running = anyio.Semaphore(limit)
    window = anyio.Semaphore(limit * _WINDOW)
    waiting: dict[int, Result] = {}
    emitted = 0
    failures: list[Exception] = []

    async def run(index: int, item: Item) -> None:
        nonlocal emitted
        try:
            waiting[index] = await function(item)
            running.release()
            while emitted in waiting:
                emit(waiting.pop(emitted))
                emitted += 1
                window.release()
        except Exception as error:  # noqa: BLE001 - raised below, outside the task group's wrapper
            failures.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        try:
            for index, item in enumerate(items):
                await window.acquire()
                await running.acquire()
                group.start_soon(run, index, item)
        except Exception as error:  # noqa: BLE001 - as above: drawing an item may fail too
            failures.append(error)
            group.cancel_scope.cancel()
    if failures:
        raise failures[0]
