"""The line before a limiter: order, places that are taken in the same turn, cancellation anywhere.

On an event loop whose time goes by only while everybody waits, so that minutes take no time and a
wake-up that is lost is an error at once.
"""

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rubric_judge import LimitsConfig
from rubric_judge.models import limits
from rubric_judge.models.limits import Attempt, LocalLimiter

_TOKENS = 1000


class _Waits(selectors.DefaultSelector):
    """Lets time go by instead of waiting for a socket."""

    now_s = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "all wait, and nothing will wake them"
        self.now_s += max(0.0, timeout)
        return []


def _run_in_no_time(
    main: Callable[[Callable[[], float]], Coroutine[Any, Any, None]],
) -> None:
    waits = _Waits()

    class _Loop(asyncio.SelectorEventLoop):
        def time(self) -> float:
            return waits.now_s

    def now_s() -> float:
        return waits.now_s

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "time", SimpleNamespace(monotonic=now_s))
        with asyncio.Runner(loop_factory=lambda: _Loop(waits)) as runner:
            runner.run(main(now_s))


async def _enter(
    limiter: LocalLimiter, count: int, *, tokens: int = 1
) -> list[Attempt]:
    attempts = [limiter.attempt(tokens=tokens) for _ in range(count)]
    for attempt in attempts:
        await attempt.__aenter__()
    return attempts


async def _queue(
    limiter: LocalLimiter, count: int, tokens: int = 1
) -> list[asyncio.Task[None]]:
    async def pass_through() -> None:
        async with limiter.attempt(tokens=tokens):
            pass

    tasks = [asyncio.ensure_future(pass_through()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def test_all_places_that_come_free_in_one_turn_are_taken_in_that_turn() -> None:
    async def main(_: Callable[[], float]) -> None:
        limiter = LocalLimiter(LimitsConfig(max_in_flight=4))
        attempts = await _enter(limiter, 4)
        tasks = await _queue(limiter, 7)
        for attempt in attempts:
            limiter.leave(attempt)
        assert (limiter.statistics().in_flight, limiter.statistics().waiting) == (4, 3)
        await _end(tasks)
        assert (limiter.statistics().attempts, limiter.statistics().peak_in_flight) == (
            11,
            4,
        )

    _run_in_no_time(main)


def test_a_place_given_to_one_that_is_cancelled_goes_to_the_next_with_its_budget() -> (
    None
):
    async def main(now_s: Callable[[], float]) -> None:
        limiter = LocalLimiter(LimitsConfig(max_in_flight=1, tpm=60_000))
        (held,) = await _enter(limiter, 1, tokens=0)
        tasks = await _queue(limiter, 2, tokens=60_000)
        started_s = now_s()
        limiter.leave(held)
        assert limiter.statistics().in_flight == 1
        tasks[0].cancel()  # it has its place, and does not know yet
        await _end(tasks)
        assert now_s() == started_s  # what it did not spend would have cost a minute
        statistics = limiter.statistics()
        assert (statistics.in_flight, statistics.waiting) == (0, 0)
        assert (statistics.attempts, statistics.tokens) == (2, 60_000)

    _run_in_no_time(main)


def test_when_the_first_gives_up_the_next_keeps_time() -> None:
    async def main(now_s: Callable[[], float]) -> None:
        limiter = LocalLimiter()
        limiter.rate_limited(30)
        until_s = now_s() + 30
        tasks = await _queue(limiter, 3)
        tasks[0].cancel()
        await asyncio.sleep(10)
        tasks[1].cancel()
        await _end(tasks)
        assert now_s() == pytest.approx(until_s)
        assert limiter.statistics().attempts == 1

    _run_in_no_time(main)


def test_who_waits_for_a_place_goes_on_with_the_first_one_also_after_a_pause() -> None:
    async def main(now_s: Callable[[], float]) -> None:
        limiter = LocalLimiter(LimitsConfig(max_in_flight=1))
        (held,) = await _enter(limiter, 1)
        tasks = await _queue(limiter, 2)
        limiter.rate_limited(20)
        until_s = now_s() + 20
        limiter.leave(held)
        await _end(tasks)
        assert now_s() == pytest.approx(until_s)

    _run_in_no_time(main)


@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 150),
    most=st.integers(1, 8) | st.none(),
    rpm=st.integers(1, 600) | st.none(),
    tpm=st.integers(1, 600).map(lambda n: n * _TOKENS) | st.none(),
    refusals=st.sampled_from([0.0, 0.2]),
    hurry=st.sampled_from([0.0, 0.3]),
)
@example(seed=1, count=150, most=3, rpm=60, tpm=60_000, refusals=0.2, hurry=0.3)
def test_nobody_is_overtaken_forgotten_or_let_in_too_early(
    *,
    seed: int,
    count: int,
    most: int | None,
    rpm: int | None,
    tpm: int | None,
    refusals: float,
    hurry: float,
) -> None:
    generator = random.Random(seed)
    limiter = LocalLimiter(LimitsConfig(max_in_flight=most, rpm=rpm, tpm=tpm))
    starts_s = dict[int, float]()

    async def one(number: int, now_s: Callable[[], float]) -> None:
        patience_s = generator.random() * 30 if generator.random() < hurry else None
        with anyio.move_on_after(patience_s):
            async with limiter.attempt(tokens=generator.randrange(_TOKENS)):
                starts_s[number] = now_s()
                await asyncio.sleep(generator.choice([0, 1, 1, 5, generator.random()]))
                if generator.random() < refusals:
                    limiter.rate_limited(generator.choice([None, 3.0]))
                else:
                    limiter.succeeded(tokens=generator.choice([None, 100, 2 * _TOKENS]))

    async def main(now_s: Callable[[], float]) -> None:
        tasks = list[asyncio.Task[None]]()
        for number in range(count):
            tasks.append(asyncio.ensure_future(one(number, now_s)))
            if generator.random() < hurry:
                generator.choice(tasks).cancel()
            if generator.random() < 0.3:
                await asyncio.sleep(generator.choice([0, 0, 0.5, 3]))
        await _end(tasks)
        await asyncio.sleep(120)  # all budgets are paid for
        (held,) = await _enter(limiter, 1)
        limiter.leave(held)

    _run_in_no_time(main)
    statistics = limiter.statistics()
    assert (statistics.in_flight, statistics.waiting) == (0, 0)
    assert most is None or statistics.peak_in_flight <= most
    assert statistics.attempts == len(starts_s) + 1
    in_order_s = [starts_s[number] for number in sorted(starts_s)]
    assert all(one_s <= next_s for one_s, next_s in pairwise(in_order_s))
    if rpm is not None:
        for number, start_s in enumerate(in_order_s[rpm:]):
            assert start_s - in_order_s[number] >= 60 - 1e-3


def test_who_was_counted_in_and_has_not_gone_is_held_back_by_a_pause() -> None:
    async def main(now_s: Callable[[], float]) -> None:
        limiter = LocalLimiter(LimitsConfig(max_in_flight=4, rpm=6000))
        attempts = await _enter(limiter, 4)
        tasks = await _queue(limiter, 3)
        started_s = now_s()
        for attempt in attempts[:3]:
            limiter.succeeded(tokens=1, of=attempt)
            limiter.leave(attempt)
        assert limiter.statistics().in_flight == 4

        limiter.rate_limited(30, of=attempts[3])

        assert limiter.statistics().in_flight == 1
        assert limiter.statistics().waiting == 3
        limiter.leave(attempts[3])
        tasks[0].cancel()
        await _end(tasks)
        assert now_s() >= started_s + 30
        statistics = limiter.statistics()
        assert (statistics.attempts, statistics.in_flight, statistics.waiting) == (
            6,
            0,
            0,
        )

    _run_in_no_time(main)
