"""Pools, judges and limiters outlive event loops, end with them in the middle, and meet threads."""

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rubric_core import JudgeResult, JudgeView, Outcome
from rubric_judge import EventLoopError, JudgePool, LimitsConfig
from rubric_judge.models.limits import LocalLimiter

ViewFactory = Callable[..., JudgeView]
# What Python says of tasks that never began, and of those that a loop was closed over.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)


class _SlowJudge:
    name = "slow"

    async def judge(self, view: JudgeView) -> JudgeResult:
        await asyncio.sleep(0.001)
        return JudgeResult.scored(
            view.rubric, dict.fromkeys(view.rubric.ids, 0.0), judge="slow"
        )


async def _judge_after_all(pool: JudgePool, view: JudgeView) -> int:
    results = await asyncio.wait_for(pool.judge_all([view] * 4), 5)
    return sum(result.outcome is Outcome.SCORED for result in results)


@pytest.mark.parametrize("ticks", range(8))
def test_a_loop_that_ends_in_the_middle_of_a_step_takes_no_slot_with_it(
    make_view: ViewFactory, ticks: int
) -> None:
    pool = JudgePool(_SlowJudge(), workers=2, micro_batch=1)
    views = [make_view(str(number)) for number in range(20)]

    async def leave_early() -> None:
        step = asyncio.create_task(pool.judge_all(views))
        for _ in range(ticks):
            await asyncio.sleep(0)
        assert not step.done()

    for _ in range(4):
        asyncio.run(leave_early())
        assert pool.statistics().in_flight == 0
    assert asyncio.run(_judge_after_all(pool, make_view())) == 4


@pytest.mark.parametrize("ticks", range(1, 8))
def test_a_step_that_is_cancelled_gives_back_every_slot(
    make_view: ViewFactory, ticks: int
) -> None:
    async def one_loop() -> int:
        pool = JudgePool(_SlowJudge(), workers=2, micro_batch=1)
        for _ in range(4):
            step = asyncio.create_task(
                pool.judge_all([make_view(str(n)) for n in range(9)])
            )
            for _ in range(ticks):
                await asyncio.sleep(0)
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
            assert pool.statistics().in_flight == 0
        return await _judge_after_all(pool, make_view())

    assert asyncio.run(one_loop()) == 4


def test_a_loop_that_is_closed_over_a_step_leaves_a_clean_count(
    make_view: ViewFactory,
) -> None:
    pool = JudgePool(_SlowJudge(), workers=2, micro_batch=1)
    limiter = LocalLimiter(LimitsConfig(max_in_flight=1))

    async def hold() -> None:
        async with limiter.attempt(tokens=1):
            await asyncio.sleep(60)

    async def begin() -> None:
        tasks = [hold(), hold(), pool.judge_all([make_view(str(n)) for n in range(9)])]
        kept.extend(asyncio.ensure_future(task) for task in tasks)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def enter() -> None:
        async with asyncio.timeout(2), limiter.attempt(tokens=1):
            assert (limiter.statistics().in_flight, limiter.statistics().waiting) == (
                1,
                0,
            )

    kept: list[asyncio.Future[Any]] = []
    for _ in range(2):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(begin())
        loop.close()
        asyncio.run(enter())
        assert asyncio.run(_judge_after_all(pool, make_view())) == 4
        kept.clear()
        gc.collect()  # the ends of what was left behind count nothing out that is not theirs
        assert (pool.statistics().in_flight, limiter.statistics().in_flight) == (0, 0)
        asyncio.run(enter())


def _in_threads(
    *works: Callable[[], Coroutine[Any, Any, int]],
) -> list[int | BaseException]:
    ends: list[int | BaseException] = []

    def run(work: Callable[[], Coroutine[Any, Any, int]]) -> None:
        try:
            ends.append(asyncio.run(asyncio.wait_for(work(), 5)))
        except (EventLoopError, TimeoutError) as error:
            ends.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def test_a_pool_that_two_loops_use_at_once_says_so_and_stays_usable(
    make_view: ViewFactory,
) -> None:
    pool = JudgePool(_SlowJudge(), workers=2, micro_batch=1)
    both = threading.Barrier(2)

    async def work() -> int:
        both.wait(600)
        return len(await pool.judge_all([make_view(str(n)) for n in range(100)]))

    ends = _in_threads(work, work)
    assert 100 in ends
    (error,) = [end for end in ends if isinstance(end, EventLoopError)]
    assert "this pool is in use on another event loop; make one for each" in str(error)
    assert asyncio.run(_judge_after_all(pool, make_view())) == 4


class _LimitedJudge(_SlowJudge):
    limiter = LocalLimiter(LimitsConfig(max_in_flight=1))

    async def judge(self, view: JudgeView) -> JudgeResult:
        async with self.limiter.attempt(tokens=1):
            return await super().judge(view)


def test_pools_of_two_loops_that_share_a_judge_are_told(make_view: ViewFactory) -> None:
    judge, both = _LimitedJudge(), threading.Barrier(2)

    async def work() -> int:
        both.wait(600)
        return len(
            await JudgePool(judge).judge_all([make_view(str(n)) for n in range(100)])
        )

    ends = _in_threads(work, work)
    assert 100 in ends
    (error,) = [end for end in ends if isinstance(end, EventLoopError)]
    assert "this limiter is in use" in str(error)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads
def test_a_fork_in_the_middle_of_a_step_leaves_the_child_a_clean_count(
    make_view: ViewFactory,
) -> None:
    began, done = threading.Event(), threading.Event()

    class _Waiting(_SlowJudge):
        async def judge(self, view: JudgeView) -> JudgeResult:
            began.set()
            while not done.is_set():  # noqa: ASYNC110  # another thread sets it
                await asyncio.sleep(0.01)
            return await super().judge(view)

    pool = JudgePool(_Waiting(), workers=1, micro_batch=1)
    parent = threading.Thread(target=lambda: asyncio.run(pool.judge_all([make_view()])))
    parent.start()
    began.wait(600)
    if not (child := os.fork()):
        done.set()
        os._exit(asyncio.run(_judge_after_all(pool, make_view())))
    _, status = os.waitpid(child, 0)
    done.set()
    parent.join()
    assert os.waitstatus_to_exitcode(status) == 4
