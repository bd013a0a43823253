from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_synth.ordered import map_in_order


@given(st.permutations(range(12)), st.integers(1, 5))
def test_results_come_in_order_and_the_limit_holds(order: list[int], limit: int) -> None:
    emitted: list[int] = []
    running = peak = 0

    async def work(item: int) -> int:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        for _ in range(order[item]):
            await anyio.lowlevel.checkpoint()
        running -= 1
        return item

    async def main() -> None:
        await map_in_order(work, range(12), emitted.append, limit=limit)

    anyio.run(main)
    assert emitted == list(range(12))
    assert 1 <= peak <= limit


def test_items_are_drawn_only_as_there_is_room() -> None:
    drawn = 0
    release = anyio.Event()
    seen: list[int] = []

    def items() -> object:
        nonlocal drawn
        for number in range(100):
            drawn += 1
            yield number

    async def work(item: int) -> int:
        if item == 0:
            await release.wait()
        return item

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: map_in_order(work, items(), seen.append, limit=2))
            await anyio.wait_all_tasks_blocked()
            assert drawn <= 2 * 4 + 1
            release.set()

    anyio.run(main)
    assert seen == list(range(100))


def test_an_exception_cancels_the_rest_and_is_raised_as_itself() -> None:
    async def work(item: int) -> int:
        if item == 3:
            raise KeyError(item)
        await anyio.lowlevel.checkpoint()
        return item

    async def main() -> None:
        await map_in_order(work, range(10), lambda _: None, limit=2)

    with pytest.raises(KeyError):
        anyio.run(main)
