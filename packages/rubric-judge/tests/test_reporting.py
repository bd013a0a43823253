from __future__ import annotations

import threading
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from rubric_judge.ui.reporting import Report, reported

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


async def test_each_result_is_there_before_the_next_is_made() -> None:
    taken = threading.Semaphore(0)

    def work(report: Report[int]) -> None:
        for number in range(3):
            report(number)
            assert taken.acquire(timeout=600)

    found: list[int] = []
    async for number in reported(work):
        found.append(number)
        taken.release()
    assert found == [0, 1, 2]


@pytest.mark.parametrize("results", [0, 2])
async def test_an_error_comes_as_it_is_behind_the_results(results: int) -> None:
    def work(report: Report[None]) -> None:
        for _ in range(results):
            report(None)
        raise KeyError("broken")

    taken = reported(work)
    for _ in range(results):
        await anext(taken)
    with pytest.raises(KeyError, match="broken"):
        await anext(taken)


async def test_who_leaves_does_not_wait_for_the_work() -> None:
    left, ended = threading.Event(), threading.Event()

    def work(report: Callable[[int], None]) -> None:
        report(1)
        assert left.wait(20)
        report(2)
        ended.set()

    async with aclosing(reported(work)) as results:
        assert await anext(results) == 1
    left.set()
    assert ended.wait(20)
