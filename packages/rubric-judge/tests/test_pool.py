import asyncio
import threading
import time
from collections.abc import Callable
from typing import cast

import anyio
import pytest
import structlog
import structlog.testing
from anyio.from_thread import start_blocking_portal

from rubric_core import (
    JudgeResult,
    JudgeView,
    Outcome,
    Reason,
    Thought,
    Unanswered,
    Usage,
)
from rubric_judge import JudgePool
from rubric_judge.pool import step as step_module
from rubric_judge.testing import FailingJudge, ScriptedJudge

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio


async def test_results_come_in_the_order_of_the_views_though_calls_end_in_reverse(
    make_view: ViewFactory,
) -> None:
    views = [make_view(str(number)) for number in range(6)]
    ended = [anyio.Event() for _ in range(7)]
    ended[6].set()

    async def after_the_next(view: JudgeView) -> None:
        number = int(view.response)
        await ended[number + 1].wait()
        ended[number].set()

    judge = ScriptedJudge(lambda view: int(view.response) / 10, before=after_the_next)
    order: list[int] = []
    results = await JudgePool(judge, workers=6).judge_all(
        views, on_result=lambda position, _: order.append(position)
    )
    assert [result.scores["gives_limit"] for result in results] == [
        pytest.approx(number / 10) for number in range(6)
    ]
    assert order == [5, 4, 3, 2, 1, 0]


async def test_no_more_calls_are_in_flight_than_workers_times_micro_batch(
    make_view: ViewFactory,
) -> None:
    release = anyio.Event()

    async def wait(view: JudgeView) -> None:
        del view
        await release.wait()

    judge = ScriptedJudge(before=wait)
    pool = JudgePool(judge, workers=2, micro_batch=3)
    async with anyio.create_task_group() as group:
        # Two callers share the limit.
        group.start_soon(pool.judge_all, [make_view()] * 20)
        group.start_soon(pool.judge_all, [make_view()] * 20)
        await anyio.wait_all_tasks_blocked()
        assert judge.in_flight == pool.statistics().in_flight == 6
        release.set()
    statistics = pool.statistics()
    assert (statistics.limit, statistics.peak_in_flight) == (6, 6)
    assert (statistics.done, statistics.in_flight) == (40, 0)


async def test_an_unexpected_exception_costs_one_judgement_and_shows_no_text(
    make_view: ViewFactory,
) -> None:
    def script(view: JudgeView) -> float:
        if view.response == "bad":
            raise RuntimeError(f"cannot read {view.grounding.reveal()}")
        return 1.0

    views = [make_view(text) for text in ("good", "bad", "good")]
    with structlog.testing.capture_logs() as logs:
        results = await JudgePool(ScriptedJudge(script)).judge_all(views)
    assert [r.outcome for r in results] == [
        Outcome.SCORED,
        Outcome.UNAVAILABLE,
        Outcome.SCORED,
    ]
    assert results[1].reason is Reason.JUDGE_ERROR
    assert results[1].detail == "the judge raised RuntimeError"
    (event,) = logs
    assert event["event"] == "judge.pool.unexpected"
    assert "cross entropy" not in f"{logs}{results}"


async def test_a_judge_that_always_fails_fails_every_judgement_with_its_reason(
    make_view: ViewFactory,
) -> None:
    pool = JudgePool(FailingJudge(Reason.RATE_LIMITED))
    results = await pool.judge_all([make_view()] * 5)
    assert {r.reason for r in results} == {Reason.RATE_LIMITED}
    assert pool.statistics().by_reason == {Reason.RATE_LIMITED: 5}
    assert pool.statistics().by_outcome == {Outcome.UNAVAILABLE: 5}
    raising = await JudgePool(FailingJudge(ValueError("x"))).judge_all(
        [make_view()] * 2
    )
    assert [r.reason for r in raising] == [Reason.JUDGE_ERROR] * 2


async def test_a_judge_that_returns_something_else_costs_its_own_judgement(
    make_view: ViewFactory,
) -> None:
    class Forgetful:
        name = "forgetful"

        async def judge(self, view: JudgeView) -> JudgeResult:
            return None if view.response == "x" else JudgeResult.invalid(Reason.EMPTY)  # pyright: ignore[reportReturnType]

    views = [make_view("x"), make_view("y")]
    results = await JudgePool(Forgetful()).judge_all(views)
    assert [r.reason for r in results] == [Reason.JUDGE_ERROR, Reason.EMPTY]


@pytest.mark.parametrize("workers", [1, 6])
async def test_a_call_that_cancels_itself_costs_its_own_judgement(
    make_view: ViewFactory, workers: int
) -> None:
    def script(view: JudgeView) -> float:
        if view.response in {"0", "2"}:
            raise asyncio.CancelledError
        return int(view.response) / 10

    views = [make_view(str(number)) for number in range(6)]
    pool = JudgePool(ScriptedJudge(script), workers=workers, micro_batch=1)
    results = await pool.judge_all(views)
    assert [r.reason for r in results] == [
        Reason.CANCELLED,
        None,
        Reason.CANCELLED,
        *[None] * 3,
    ]
    assert [r.scores["gives_limit"] for r in results if r.scores] == [
        pytest.approx(number / 10) for number in (1, 3, 4, 5)
    ]
    assert (pool.statistics().done, pool.statistics().in_flight) == (6, 0)


async def test_a_deadline_around_the_pool_still_ends_it(make_view: ViewFactory) -> None:
    async def wait(view: JudgeView) -> None:
        del view
        await anyio.sleep_forever()

    pool = JudgePool(ScriptedJudge(before=wait), workers=1, micro_batch=2)
    task = asyncio.create_task(pool.judge_all([make_view()] * 5))
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with anyio.move_on_after(0.01) as scope:
        await pool.judge_all([make_view()] * 5)
    assert scope.cancelled_caught
    assert pool.statistics().done == 0


@pytest.mark.parametrize("exit_type", [SystemExit, KeyboardInterrupt])
def test_a_judge_that_ends_the_program_ends_it_at_once(
    make_view: ViewFactory, exit_type: type[BaseException]
) -> None:
    def script(view: JudgeView) -> float:
        if view.response == "end":
            raise exit_type(3)
        return 1.0

    async def wait(view: JudgeView) -> None:
        if view.response == "wait":
            await anyio.sleep_forever()

    pool = JudgePool(ScriptedJudge(script, before=wait))
    views = [make_view(text) for text in ("wait", "end", "wait")]
    with pytest.raises(exit_type) as ended:
        anyio.run(pool.judge_all, views)
    assert ended.value.args == (3,)
    assert pool.statistics().in_flight == 0
    with start_blocking_portal() as portal:  # a thread of its own, which it cannot end
        (result,) = portal.call(
            JudgePool(ScriptedJudge(script)).judge_all, [make_view("end")]
        )
    assert result.reason is Reason.JUDGE_ERROR
    assert exit_type.__name__ in (result.detail or "")


@pytest.mark.parametrize(
    "scores", [{"zzz": 1.0}, {"names the loss": 9.0, "gives_limit": 0.0}]
)
async def test_scores_that_are_not_the_rubrics_cost_their_own_judgement(
    make_view: ViewFactory, scores: dict[str, float]
) -> None:
    def script(view: JudgeView) -> JudgeResult:
        if view.response == "foreign":
            return JudgeResult(
                outcome=Outcome.SCORED, scores=scores, total=1.0, max_total=3.0
            )
        return JudgeResult.scored(
            view.rubric, dict.fromkeys(view.rubric.ids, 0.5), judge="j"
        )

    views = [make_view(text) for text in ("good", "foreign", "good")]
    results = await JudgePool(ScriptedJudge(script)).judge_all(views)
    assert [r.reason for r in results] == [None, Reason.JUDGE_ERROR, None]
    assert results[1].scores == {}
    assert results[1].detail == "the judge raised SchemaError"


async def test_what_the_callers_own_function_raises_comes_back_as_it_is(
    make_view: ViewFactory,
) -> None:
    def full(position: int, result: JudgeResult) -> None:
        del result
        raise OSError(28, f"no space for {position}")

    pool = JudgePool(ScriptedJudge(), workers=1, micro_batch=1)
    with pytest.raises(OSError, match="no space for 0"):
        await pool.judge_all([make_view("a"), make_view("b")], on_result=full)
    assert len(await pool.judge_all([make_view("c")])) == 1


async def test_cancellation_reaches_the_calls_in_flight_and_leaves_the_pool_usable(
    make_view: ViewFactory,
) -> None:
    cancelled: list[str] = []
    block = True

    async def wait(view: JudgeView) -> None:
        if block:
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                cancelled.append(view.response)
                raise

    pool = JudgePool(ScriptedJudge(before=wait), workers=1, micro_batch=2)
    async with anyio.create_task_group() as group:
        group.start_soon(
            pool.judge_all, [make_view(str(number)) for number in range(5)]
        )
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert sorted(cancelled) == ["0", "1"]
    assert (pool.statistics().in_flight, pool.statistics().done) == (0, 0)
    block = False
    assert len(await pool.judge_all([make_view()] * 3)) == 3


async def test_statistics_add_up_usage_and_latency(make_view: ViewFactory) -> None:
    usage = Usage(
        prompt_tokens=100, completion_tokens=10, cached_tokens=80, cost_usd=0.5
    )

    def script(view: JudgeView) -> JudgeResult:
        return JudgeResult.invalid(Reason.NOT_JSON, usage=usage, judge=view.task_id)

    pool = JudgePool(ScriptedJudge(script))
    assert pool.statistics().latency is None
    await pool.judge_all([make_view()] * 3)
    statistics = pool.statistics()
    assert statistics.usage == Usage(
        prompt_tokens=300, completion_tokens=30, cached_tokens=240, cost_usd=1.5
    )
    assert statistics.by_outcome == {Outcome.INVALID: 3}
    latency = statistics.latency
    assert latency is not None
    assert 0 <= latency.p50_s <= latency.p90_s <= latency.p99_s <= latency.max_s


async def test_cached_tokens_are_counted_where_a_server_reports_them(
    make_view: ViewFactory,
) -> None:
    def script(view: JudgeView) -> JudgeResult:
        cached = {"no": None, "none": 0, "some": 80}[view.response]
        usage = Usage(prompt_tokens=100, completion_tokens=10, cached_tokens=cached)
        return JudgeResult.invalid(Reason.NOT_JSON, usage=usage)

    pool = JudgePool(ScriptedJudge(script))
    seen: list[tuple[float | None, float | None]] = []
    for response in ("no", "none", "some"):
        await pool.judge_all([make_view(response)])
        statistics = pool.statistics()
        seen.append(
            (statistics.cached_token_frac, statistics.cached_tokens_per_criterion)
        )
    # Of two criteria each; a server's silence is no 0.
    assert seen == [(None, None), (0.0, 0.0), (80 / 200, 80 / 4)]
    assert statistics.tokens_per_criterion == 330 / 6


async def test_an_exit_of_a_judges_own_making_costs_its_own_judgement(
    make_view: ViewFactory,
) -> None:
    class _OwnExit(BaseException):
        """Such as a library raises to pass by every `except Exception`."""

    def script(view: JudgeView) -> JudgeResult:
        if view.response == "out":
            raise _OwnExit
        return JudgeResult.scored(
            view.rubric, dict.fromkeys(view.rubric.ids, 0.0), judge="j"
        )

    pool = JudgePool(ScriptedJudge(script))
    fine, lost = await pool.judge_all([make_view(), make_view("out")])
    assert (fine.outcome, lost.reason) == (Outcome.SCORED, Reason.JUDGE_ERROR)
    assert lost.detail == "the judge raised _OwnExit"


@pytest.mark.parametrize("replicate", [-1, 2**63, True, 1.0, "1"])
async def test_a_replicate_that_is_no_count_is_refused(
    make_view: ViewFactory, replicate: object
) -> None:
    with pytest.raises(ValueError, match=r"replicate=.* must be an integer, 0 or more"):
        await JudgePool(ScriptedJudge()).judge_all(
            [make_view()], replicate=cast("int", replicate)
        )


async def test_nothing_to_judge_is_an_empty_list() -> None:
    assert await JudgePool(ScriptedJudge()).judge_all([]) == []


@pytest.mark.parametrize(("workers", "micro_batch"), [(0, 4), (4, 0), (-1, 1)])
async def test_a_pool_without_workers_is_refused(
    workers: int, micro_batch: int
) -> None:
    with pytest.raises(ValueError, match="must both be at least 1"):
        JudgePool(ScriptedJudge(), workers=workers, micro_batch=micro_batch)


def test_a_pool_serves_one_event_loop_after_another(make_view: ViewFactory) -> None:
    pool = JudgePool(ScriptedJudge(), workers=1, micro_batch=1)
    for _ in range(2):
        assert len(anyio.run(pool.judge_all, [make_view()] * 3)) == 3


async def test_a_judge_that_blocks_the_event_loop_past_the_deadline_is_named(
    make_view: ViewFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_module, "GRACE_S", 0.05)
    with structlog.testing.capture_logs() as logs:

        async def compute(view: JudgeView) -> None:
            del view
            over = time.monotonic() + 60
            while not logs and time.monotonic() < over:
                time.sleep(0.01)  # noqa: ASYNC251  # what must not be done

        judge = ScriptedJudge(1.0, name="busy", before=compute)
        await JudgePool(judge).judge_all([make_view("a")], deadline_s=0.05)

    (line,) = logs
    assert (line["event"], line["judge"]) == ("judge.pool.blocked", "busy")
    assert "test_pool.py:" in line["where"]


async def test_a_step_that_keeps_its_deadline_leaves_no_watcher(
    make_view: ViewFactory,
) -> None:
    before = threading.active_count()
    await JudgePool(ScriptedJudge(1.0)).judge_all([make_view("a")], deadline_s=600)
    assert threading.active_count() == before


async def test_no_judge_is_asked_about_a_response_without_an_answer(
    make_view: ViewFactory,
) -> None:
    judge = ScriptedJudge(1.0)
    unclosed = make_view("").model_copy(update={"thought": Thought.UNCLOSED})
    pool = JudgePool(judge)
    seen: list[int] = []
    results = await pool.judge_all(
        [make_view("a"), make_view(" \n"), unclosed, make_view("b")],
        on_result=lambda position, _: seen.append(position),
    )
    assert [one.unanswered for one in results] == [
        None, Unanswered.EMPTY, Unanswered.UNCLOSED_THOUGHT, None,
    ]  # fmt: skip
    assert [one.total == 0 for one in results] == [False, True, True, False]
    assert sorted(seen) == [0, 1, 2, 3]
    statistics = pool.statistics()
    assert statistics.done == 4
    assert statistics.attempts == 2
    assert dict(statistics.unanswered) == {
        Unanswered.EMPTY: 1,
        Unanswered.UNCLOSED_THOUGHT: 1,
    }
    assert pool.knows([unclosed])
