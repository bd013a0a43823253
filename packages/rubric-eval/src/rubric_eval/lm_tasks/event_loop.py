"""Running a coroutine from lm-eval, which is synchronous, wherever lm-eval is called from."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_Result = TypeVar("_Result")


def run_async(function: Callable[..., Awaitable[_Result]], *arguments: object) -> _Result:
    """Run a coroutine function to its end; in a thread where this one has a loop, as a notebook's.

    Args:
        function: the coroutine function.
        arguments: its arguments.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(function, *arguments)
    with ThreadPoolExecutor(max_workers=1) as threads:
        return threads.submit(anyio.run, function, *arguments).result()
