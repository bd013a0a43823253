from collections.abc import Callable, Sequence
from itertools import groupby

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rubric_core import JudgeResult, JudgeView, Outcome, Reason
from rubric_judge import JudgePool
from rubric_judge.models import replicas as replicas_module
from rubric_judge.testing import ScriptedJudge

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio


def _interleaved(
    make_view: ViewFactory, *, groups: int, members: int
) -> list[JudgeView]:
    return [
        make_view(f"{group}.{member}", task_id=f"{group:016x}")
        for member in range(members)
        for group in range(groups)
    ]


def _groups(calls: Sequence[JudgeView]) -> list[str]:
    return [task_id for task_id, _ in groupby(calls, key=lambda view: view.task_id)]


async def test_a_group_starts_together_though_its_views_are_given_apart(
    make_view: ViewFactory,
) -> None:
    views = _interleaved(make_view, groups=5, members=4)
    judge = ScriptedJudge(lambda view: float(view.response.replace(".", "")) / 100)
    results = await JudgePool(judge, workers=1, micro_batch=3).judge_all(views)
    assert _groups(judge.calls) == [f"{group:016x}" for group in range(5)]
    assert [r.scores["gives_limit"] for r in results] == [
        pytest.approx(float(view.response.replace(".", "")) / 100) for view in views
    ]


class WarmedJudge(ScriptedJudge):
    warm_call = True


async def test_a_warm_call_goes_alone_while_other_groups_go_on(
    make_view: ViewFactory,
) -> None:
    views = _interleaved(make_view, groups=2, members=4)
    release = {f"{group:016x}": anyio.Event() for group in range(2)}

    async def wait(view: JudgeView) -> None:
        await release[view.task_id].wait()

    judge = WarmedJudge(before=wait)
    pool = JudgePool(judge, workers=8)
    async with anyio.create_task_group() as group:
        group.start_soon(pool.judge_all, views)
        await anyio.wait_all_tasks_blocked()
        assert [view.response for view in judge.calls] == ["0.0", "1.0"]
        release[f"{1:016x}"].set()
        await anyio.wait_all_tasks_blocked()
        assert [view.response for view in judge.calls] == [
            "0.0",
            "1.0",
            "1.1",
            "1.2",
            "1.3",
        ]
        release[f"{0:016x}"].set()
    assert pool.statistics().done == 8


async def test_without_a_wish_for_it_there_is_no_warm_call(
    make_view: ViewFactory,
) -> None:
    release = anyio.Event()

    async def wait(view: JudgeView) -> None:
        del view
        await release.wait()

    judge = ScriptedJudge(before=wait)
    async with anyio.create_task_group() as group:
        group.start_soon(JudgePool(judge).judge_all, [make_view()] * 8)
        await anyio.wait_all_tasks_blocked()
        assert judge.in_flight == 8
        release.set()


async def test_a_group_stays_on_one_replica_and_replicas_share_the_groups(
    make_view: ViewFactory,
) -> None:
    judges = [ScriptedJudge() for _ in range(3)]
    pool = JudgePool(judges, workers=3, micro_batch=4)
    for _ in range(2):  # also from one step to the next
        await pool.judge_all(_interleaved(make_view, groups=9, members=4))
    seen = [{view.task_id for view in judge.calls} for judge in judges]
    assert [len(groups) for groups in seen] == [3, 3, 3]
    assert len(set.union(*seen)) == 9
    assert [one.calls for one in pool.statistics().replicas] == [24, 24, 24]


async def test_a_replica_that_hangs_does_not_get_the_groups_that_an_idle_one_can_take(
    make_view: ViewFactory,
) -> None:
    release = anyio.Event()

    async def wait(view: JudgeView) -> None:
        del view
        await release.wait()

    stuck, free = ScriptedJudge(before=wait), ScriptedJudge()
    pool = JudgePool([stuck, free], workers=2, micro_batch=4)
    async with anyio.create_task_group() as group:
        group.start_soon(pool.judge_all, _interleaved(make_view, groups=10, members=2))
        await anyio.wait_all_tasks_blocked()
        # Of the first eight, half: it has not been seen to hang by then.
        assert len(stuck.calls) == 4
        assert len(free.calls) == 16
        release.set()


async def test_a_replica_holds_no_more_than_its_limit(make_view: ViewFactory) -> None:
    async def nap(view: JudgeView) -> None:
        del view
        await anyio.sleep(0.001)

    judges = [ScriptedJudge(before=nap) for _ in range(3)]
    pool = JudgePool(judges, workers=3, micro_batch=4, replica_limit=4)
    await pool.judge_all(_interleaved(make_view, groups=7, members=9))
    assert [judge.peak_in_flight for judge in judges] == [4, 4, 4]
    for judge in judges:
        others = {
            v.task_id for other in judges if other is not judge for v in other.calls
        }
        assert not others & {view.task_id for view in judge.calls}


async def test_judgements_that_do_not_reach_a_replica_move_to_another(
    make_view: ViewFactory,
) -> None:
    def unreached(view: JudgeView) -> JudgeResult:
        del view
        return JudgeResult.unavailable(Reason.CONNECTION, attempts=5)

    dead, alive = ScriptedJudge(unreached), ScriptedJudge()
    pool = JudgePool([dead, alive], workers=1, micro_batch=4)
    results = await pool.judge_all(_interleaved(make_view, groups=6, members=4))
    assert {result.outcome for result in results} == {Outcome.SCORED}
    statistics = pool.statistics()
    assert (statistics.done, statistics.in_flight) == (24, 0)
    assert statistics.by_outcome == {Outcome.SCORED: 24}
    assert statistics.moved == len(dead.calls) <= 4
    assert [one.is_down for one in statistics.replicas] == [True, False]
    assert statistics.replicas[0].times_down == 1
    # The attempts that were made in vain are not forgotten.
    assert statistics.attempts == 24 + 5 * len(dead.calls)
    assert sum(result.attempts for result in results) == statistics.attempts


async def test_a_replica_that_is_back_gets_one_call_and_then_groups_again(
    make_view: ViewFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0
    monkeypatch.setattr(replicas_module.time, "monotonic", lambda: now_s)
    is_up = False

    def script(view: JudgeView) -> JudgeResult | float:
        del view
        return 1.0 if is_up else JudgeResult.unavailable(Reason.CONNECTION)

    flaky, steady = ScriptedJudge(script), ScriptedJudge()
    pool = JudgePool([flaky, steady], workers=1, micro_batch=1)
    views = _interleaved(make_view, groups=4, members=3)
    await pool.judge_all(views)
    assert len(flaky.calls) == 1
    now_s += 4
    await pool.judge_all(views)
    assert len(flaky.calls) == 1  # still at rest
    now_s += 2
    fresh = [make_view("x", task_id=f"{number:016x}") for number in range(100, 108)]
    assert {r.outcome for r in await pool.judge_all(fresh)} == {Outcome.SCORED}
    assert len(flaky.calls) == 2  # tried once, and left alone for twice as long
    now_s += 6
    await pool.judge_all(
        [make_view("x", task_id=f"{number:016x}") for number in range(200, 208)]
    )
    assert len(flaky.calls) == 2
    now_s, is_up = now_s + 5, True
    await pool.judge_all(
        [make_view("x", task_id=f"{number:016x}") for number in range(300, 308)]
    )
    assert len(flaky.calls) > 3
    assert not pool.statistics().replicas[0].is_down


async def test_where_no_replica_is_reached_every_judgement_says_so(
    make_view: ViewFactory,
) -> None:
    dead = [
        ScriptedJudge(JudgeResult.unavailable(Reason.CONNECTION), name="dead")
        for _ in range(3)
    ]
    pool = JudgePool(dead, workers=2)
    results = await pool.judge_all(_interleaved(make_view, groups=3, members=3))
    assert {result.reason for result in results} == {Reason.CONNECTION}
    assert pool.statistics().done == 9


async def test_judges_that_are_not_replicas_of_one_are_refused() -> None:
    with pytest.raises(ValueError, match="replicas of one"):
        JudgePool([ScriptedJudge(name="a"), ScriptedJudge(name="b")])
    with pytest.raises(ValueError, match="needs a judge"):
        JudgePool([])
    with pytest.raises(ValueError, match="replica_limit"):
        JudgePool(ScriptedJudge(), replica_limit=0)


async def test_a_deadline_keeps_what_is_done_and_says_what_is_not(
    make_view: ViewFactory,
) -> None:
    async def wait(view: JudgeView) -> None:
        if view.response.startswith("slow"):
            await anyio.sleep_forever()

    views = [
        make_view(name) for name in ("quick", "slow", "quick", "slow", "quick", "late")
    ]
    pool = JudgePool(ScriptedJudge(before=wait), workers=1, micro_batch=2)
    seen: list[int] = []
    results = await pool.judge_all(
        views, deadline_s=0.05, on_result=lambda position, _: seen.append(position)
    )
    assert [result.reason for result in results] == [
        None,
        Reason.TIMEOUT,
        None,
        Reason.TIMEOUT,
        Reason.TIMEOUT,
        Reason.TIMEOUT,
    ]
    assert results[1].detail == "waited for when the step's deadline_s=0.05 was over"
    assert (
        results[5].detail
        == "not asked for yet when the step's deadline_s=0.05 was over"
    )
    assert [result.attempts for result in results] == [1, 1, 1, 1, 0, 0]
    assert sorted(seen) == list(range(6))
    assert (pool.statistics().done, pool.statistics().in_flight) == (6, 0)
    assert len(await pool.judge_all([make_view("quick")] * 3, deadline_s=30)) == 3
    with pytest.raises(ValueError, match="deadline_s"):
        await pool.judge_all(views, deadline_s=0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    tasks=st.lists(st.integers(0, 6), max_size=40),
    replicas=st.integers(1, 4),
    workers=st.integers(1, 5),
    limit=st.none() | st.integers(1, 3),
    dead=st.integers(0, 3),
    warm=st.booleans(),
)
def test_whatever_the_schedule_every_view_gets_its_own_result_once(  # noqa: PLR0917
    make_view: ViewFactory,
    tasks: list[int],
    replicas: int,
    workers: int,
    limit: int | None,
    dead: int,
    warm: bool,  # noqa: FBT001
) -> None:
    views = [
        make_view(str(number), task_id=f"{task:016x}")
        for number, task in enumerate(tasks)
    ]
    judges = [ScriptedJudge(_own_share) for _ in range(replicas)]
    for judge in judges[1:][:dead]:
        judge.script = JudgeResult.unavailable(Reason.CONNECTION)
    for judge in judges:
        judge.warm_call = warm  # pyright: ignore[reportAttributeAccessIssue]
    pool = JudgePool(judges, workers=workers, micro_batch=1, replica_limit=limit)
    seen: list[int] = []
    results = anyio.run(
        lambda: pool.judge_all(
            views, on_result=lambda position, _: seen.append(position)
        )
    )
    assert sorted(seen) == list(range(len(views)))
    for number, result in enumerate(results):
        assert result.outcome is Outcome.SCORED
        assert result.scores["gives_limit"] == pytest.approx(number / 100)
    assert pool.statistics().done == len(views)
    assert pool.statistics().in_flight == 0


def _own_share(view: JudgeView) -> float:
    return int(view.response) / 100
