import random
import time

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_judge import LimitsConfig
from rubric_judge.models.limits import LocalLimiter, _Budget

pytestmark = pytest.mark.anyio


async def _hold(
    limiter: LocalLimiter, until: anyio.Event, order: list[int], number: int
) -> None:
    async with limiter.attempt(tokens=1):
        order.append(number)
        await until.wait()


async def test_no_more_attempts_are_in_flight_than_allowed_and_they_start_in_order() -> (
    None
):
    limiter = LocalLimiter(LimitsConfig(max_in_flight=3))
    release, order = anyio.Event(), list[int]()
    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(_hold, limiter, release, order, number)
        await anyio.wait_all_tasks_blocked()
        assert order == [0, 1, 2]
        assert (limiter.statistics().in_flight, limiter.statistics().waiting) == (3, 7)
        release.set()
    assert order == list(range(10))
    statistics = limiter.statistics()
    assert (statistics.in_flight, statistics.peak_in_flight, statistics.attempts) == (
        0,
        3,
        10,
    )


async def test_one_burst_of_refusals_halves_once_and_answers_raise_by_one_a_round_trip() -> (
    None
):
    limiter = LocalLimiter()
    everyone_in, refuse = anyio.Event(), anyio.Event()

    async def refused() -> None:
        async with limiter.attempt(tokens=1):
            await refuse.wait()
            limiter.rate_limited(None)

    async with anyio.create_task_group() as group:
        for _ in range(16):
            group.start_soon(refused)
        await anyio.wait_all_tasks_blocked()
        assert limiter.statistics().limit is None
        refuse.set()
    assert (limiter.statistics().limit, limiter.statistics().decreases) == (8, 1)
    assert limiter.statistics().rate_limited == 16

    async def answered() -> None:
        async with limiter.attempt(tokens=1):
            await everyone_in.wait()
            limiter.succeeded(tokens=None)

    everyone_in.set()
    async with anyio.create_task_group() as group:
        for _ in range(9):  # in flight together, so that the limit is in use
            group.start_soon(answered)
    assert limiter.statistics().limit == 8

    async with limiter.attempt(
        tokens=1
    ):  # started after the decrease: the next round trip
        limiter.rate_limited(None)
    assert limiter.statistics().decreases == 2
    assert limiter.statistics().limit == 1


async def test_a_limiter_that_is_not_adaptive_keeps_its_limit() -> None:
    limiter = LocalLimiter(LimitsConfig(max_in_flight=4, adaptive=False))
    async with limiter.attempt(tokens=1):
        limiter.rate_limited(None)
    assert (limiter.statistics().limit, limiter.statistics().rate_limited) == (4, 1)


async def test_retry_after_holds_back_what_has_not_started() -> None:
    limiter = LocalLimiter()
    async with limiter.attempt(tokens=1):
        limiter.rate_limited(0.15)
    started_s = time.monotonic()
    async with anyio.create_task_group() as group:
        release = anyio.Event()
        release.set()
        for number in range(3):
            group.start_soon(_hold, limiter, release, [], number)
    assert (
        0.14 <= time.monotonic() - started_s < 30
    )  # and no minute, as where nothing is said
    assert limiter.statistics().waited_s >= 0.14


@given(
    per_minute=st.integers(1, 3000),
    gaps_s=st.lists(st.floats(0, 30) | st.just(0.0), min_size=1, max_size=300),
)
def test_no_minute_holds_more_attempts_than_allowed(
    per_minute: int, gaps_s: list[float]
) -> None:
    budget, now_s, starts_s = _Budget(per_minute), 1000.0, list[float]()
    for gap_s in gaps_s:
        now_s += gap_s
        now_s += budget.wait_s(1, now_s)
        assert budget.wait_s(1, now_s) < 1e-6
        budget.take(1, now_s)
        starts_s.append(now_s)
    for number, start_s in enumerate(starts_s[per_minute:]):
        assert start_s - starts_s[number] >= 60 - 1e-3


def test_a_budget_is_used_up_when_asked_for_all_the_time() -> None:
    budget, now_s = _Budget(600), 0.0
    for _ in range(600):
        now_s += budget.wait_s(1, now_s)
        budget.take(1, now_s)
    assert 58 < now_s < 61


def test_a_budget_corrected_by_the_true_count_lets_the_next_go_earlier_or_later() -> (
    None
):
    budget = _Budget(60_000)
    budget.take(20_000, 0.0)
    estimated_s = budget.wait_s(100, 0.0)
    budget.correct(-15_000)
    assert budget.wait_s(100, 0.0) == pytest.approx(estimated_s - 15_000 * 61 / 60_000)
    budget.correct(15_000 + 10_000)
    assert budget.wait_s(100, 0.0) == pytest.approx(estimated_s + 10_000 * 61 / 60_000)
    assert budget.wait_s(100, 1e6) == 0  # long ago is paid for, and saves up nothing
    budget.correct(-50_000)
    budget.take(60_000, 1e6)
    assert budget.wait_s(100, 1e6) > 59


async def test_tokens_a_minute_hold_attempts_back_until_the_true_count_is_known() -> (
    None
):
    limiter = LocalLimiter(LimitsConfig(tpm=60_000))
    release, order = anyio.Event(), list[int]()
    async with anyio.create_task_group() as group:
        async with limiter.attempt(tokens=60_000):
            group.start_soon(_hold, limiter, release, order, 0)
            await anyio.wait_all_tasks_blocked()
            assert order == []  # for about a minute
            limiter.succeeded(tokens=500)
            limiter.succeeded(tokens=500)  # said twice, corrected once
        with anyio.fail_after(600):
            while not order:  # noqa: ASYNC110  # it depends on the clock
                await anyio.sleep(0.01)
        release.set()
    assert limiter.statistics().tokens == 501


@pytest.mark.parametrize("reported", [10**13, 10**400, -5])
async def test_what_a_server_counts_holds_the_next_back_for_a_minute_at_most(
    reported: int,
) -> None:
    limiter = LocalLimiter(LimitsConfig(tpm=6_000_000))
    async with limiter.attempt(tokens=100):
        limiter.succeeded(tokens=reported)
        limiter.succeeded(tokens=reported)
    assert limiter.statistics().tokens == max(0, min(reported, 6_000_000))
    assert limiter._hold_s(100, time.monotonic()) <= 61


async def test_no_retry_after_pauses_for_more_than_a_minute() -> None:
    limiter = LocalLimiter()
    async with limiter.attempt(tokens=1):
        limiter.rate_limited(1e9)
    assert 59 < limiter._hold_s(1, time.monotonic()) <= 60
    with anyio.move_on_after(0.05) as deadline:  # a step's deadline ends the wait
        async with limiter.attempt(tokens=1):
            pass
    assert deadline.cancelled_caught
    assert limiter.statistics().waiting == 0


async def test_requests_a_minute_space_the_attempts_out() -> None:
    limiter = LocalLimiter(LimitsConfig(rpm=1200))
    started_s = time.monotonic()
    for _ in range(24):
        async with limiter.attempt(tokens=1):
            pass
    # A second's worth goes at once, the other four follow at 61/1200 s.
    assert 0.15 < time.monotonic() - started_s < 30


@pytest.mark.parametrize("seed", range(4))
async def test_cancellation_anywhere_leaks_no_slot(seed: int) -> None:
    generator = random.Random(seed)
    limiter = LocalLimiter(LimitsConfig(max_in_flight=3, rpm=60_000, tpm=6_000_000))

    async def one() -> None:
        with anyio.move_on_after(generator.random() * 0.02):
            async with limiter.attempt(tokens=generator.randrange(1, 50)):
                await anyio.sleep(generator.random() * 0.004)
                draw = generator.random()
                if draw < 0.2:
                    limiter.rate_limited(0.001 if draw < 0.1 else None)
                else:
                    limiter.succeeded(
                        tokens=generator.randrange(100) if draw < 0.6 else None
                    )

    async with anyio.create_task_group() as group:
        for _ in range(400):
            group.start_soon(one)
            if generator.random() < 0.1:
                await anyio.sleep(0.001)
    statistics = limiter.statistics()
    assert (statistics.in_flight, statistics.waiting) == (0, 0)
    assert statistics.peak_in_flight <= 3
    with anyio.fail_after(600):
        async with limiter.attempt(tokens=1):
            assert limiter.statistics().in_flight == 1


async def test_an_attempt_that_fails_is_counted_out() -> None:
    limiter = LocalLimiter(LimitsConfig(max_in_flight=1))
    for _ in range(3):
        with pytest.raises(ValueError, match="gone"):
            async with limiter.attempt(tokens=1):
                raise ValueError("gone")
    assert limiter.statistics().in_flight == 0


def test_a_limiter_serves_one_event_loop_after_another() -> None:
    limiter = LocalLimiter(LimitsConfig(max_in_flight=1, rpm=100_000))

    async def several() -> None:
        release = anyio.Event()
        release.set()
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(_hold, limiter, release, [], number)

    for _ in range(3):
        anyio.run(several)
    assert limiter.statistics().attempts == 15
