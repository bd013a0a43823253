import random
from collections.abc import Callable

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import JudgeResult, JudgeView, Outcome, Reason, Usage
from rubric_judge import Hedging, JudgePool
from rubric_judge.pool.step import Hedger
from rubric_judge.testing import ScriptedJudge

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio


class Scene:
    """A judge that answers at once, except that the first call for a straggler takes its time."""

    def __init__(self, first: JudgeResult | float, second: JudgeResult | float) -> None:
        self.first, self.second = first, second
        self.release_first, self.release_second = anyio.Event(), anyio.Event()
        self.asked = 0
        self.cancelled: list[str] = []
        self.judge = ScriptedJudge(self.script, before=self.before)
        self._turns: list[str] = []

    async def before(self, view: JudgeView) -> None:
        if view.response != "straggler":
            return
        self.asked += 1
        number = self.asked
        try:
            await (self.release_first if number == 1 else self.release_second).wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append("first" if number == 1 else "second")
            raise
        self._turns.append("first" if number == 1 else "second")

    def script(self, view: JudgeView) -> JudgeResult | float:
        if view.response != "straggler":
            return 1.0
        return self.first if self._turns[-1] == "first" else self.second


async def _until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(600):
        while not condition():  # noqa: ASYNC110  # it depends on the clock
            await anyio.sleep(0.005)


def _unavailable() -> JudgeResult:
    usage = Usage(prompt_tokens=7, cost_usd=0.5)
    return JudgeResult.unavailable(Reason.SERVER_ERROR, attempts=3, usage=usage)


async def _run(
    scene: Scene, make_view: ViewFactory, *, order: tuple[str, ...]
) -> tuple[JudgeResult, JudgePool]:
    """Judge one straggler among 99 others; let its calls answer in an order."""
    pool = JudgePool(scene.judge, hedge=Hedging(after_medians=6, max_extra_frac=0.05))
    views = [make_view("straggler"), *(make_view(str(number)) for number in range(99))]
    results: list[JudgeResult] = []

    async def judge() -> None:
        results.extend(await pool.judge_all(views))

    async with anyio.create_task_group() as group:
        group.start_soon(judge)
        await _until(lambda: scene.asked == 2)
        for name in order:
            (scene.release_first if name == "first" else scene.release_second).set()
            await anyio.wait_all_tasks_blocked()
    statistics = pool.statistics()
    assert (statistics.done, statistics.in_flight, statistics.hedged) == (100, 0, 1)
    assert statistics.attempts == sum(result.attempts for result in results)
    return results[0], pool


async def test_the_second_answer_is_taken_and_the_first_call_cancelled(
    make_view: ViewFactory,
) -> None:
    scene = Scene(first=0.0, second=1.0)
    result, pool = await _run(scene, make_view, order=("second",))
    assert result.total == 3.0
    assert result.attempts == 2
    assert scene.cancelled == ["first"]
    assert pool.statistics().hedge_wins == 1


async def test_the_first_answer_is_taken_and_the_second_call_cancelled(
    make_view: ViewFactory,
) -> None:
    scene = Scene(first=1.0, second=0.0)
    result, pool = await _run(scene, make_view, order=("first",))
    assert (result.total, result.attempts) == (3.0, 2)
    assert scene.cancelled == ["second"]
    assert pool.statistics().hedge_wins == 0


async def test_an_invalid_answer_settles_it(make_view: ViewFactory) -> None:
    scene = Scene(first=1.0, second=JudgeResult.invalid(Reason.NOT_JSON))
    result, pool = await _run(scene, make_view, order=("second",))
    assert result.reason is Reason.NOT_JSON
    assert scene.cancelled == ["first"]
    assert pool.statistics().by_outcome == {Outcome.SCORED: 99, Outcome.INVALID: 1}


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
async def test_a_call_that_brings_nothing_waits_for_its_twin(
    make_view: ViewFactory, order: tuple[str, ...]
) -> None:
    answers = {order[0]: _unavailable(), order[1]: 1.0}
    scene = Scene(first=answers["first"], second=answers["second"])
    result, pool = await _run(scene, make_view, order=order)
    assert (result.total, result.attempts) == (3.0, 4)
    assert result.usage == Usage(
        prompt_tokens=7, cost_usd=0.5
    )  # failed attempts cost as well
    assert scene.cancelled == []
    assert pool.statistics().hedge_wins == (order[1] == "second")


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
async def test_two_calls_that_bring_nothing_are_one_unavailable_judgement(
    make_view: ViewFactory, order: tuple[str, ...]
) -> None:
    scene = Scene(first=_unavailable(), second=_unavailable())
    result, pool = await _run(scene, make_view, order=order)
    assert (result.reason, result.attempts) == (Reason.SERVER_ERROR, 6)
    assert pool.statistics().usage == Usage(prompt_tokens=14, cost_usd=1.0)
    assert pool.statistics().by_reason == {Reason.SERVER_ERROR: 1}


async def test_the_second_call_goes_to_another_replica(make_view: ViewFactory) -> None:
    release = anyio.Event()

    async def wait(view: JudgeView) -> None:
        if view.response == "straggler":
            await release.wait()

    stuck, other = ScriptedJudge(before=wait), ScriptedJudge()
    pool = JudgePool([stuck, other], hedge=Hedging())
    views = [make_view("straggler"), *(make_view(str(number)) for number in range(99))]
    results = await pool.judge_all(views)
    assert {result.outcome for result in results} == {Outcome.SCORED}
    assert [view.response for view in other.calls] == ["straggler"]


async def test_extra_calls_stay_within_their_share_at_every_moment(
    make_view: ViewFactory,
) -> None:
    generator = random.Random(7)
    shares: list[float] = []
    late = 0

    async def wait(view: JudgeView) -> None:
        nonlocal late
        del view
        slow = generator.random() < 0.1
        late += slow
        await anyio.sleep(1.5 if slow else 0.001)

    judge = ScriptedJudge(before=wait)
    pool = JudgePool(
        judge, workers=16, hedge=Hedging(after_medians=3, max_extra_frac=0.05)
    )

    def note_share(*_: object) -> None:
        asked_first = len({view.response for view in judge.calls})
        shares.append(pool.statistics().hedged / asked_first)

    views = [make_view(str(number)) for number in range(400)]
    await pool.judge_all(views, on_result=note_share)
    assert late > 20
    assert 0 < pool.statistics().hedged <= 20
    assert max(shares) <= 0.05


@given(
    frac=st.floats(0.001, 1),
    events=st.lists(st.booleans(), max_size=3000),
)
def test_the_right_to_second_calls_never_exceeds_the_share(
    frac: float, events: list[bool]
) -> None:
    hedger = Hedger(Hedging(max_extra_frac=frac))
    first = second = 0
    for is_start in events:
        if is_start:
            hedger.started()
            first += 1
        elif hedger.spend():
            second += 1
        assert second <= frac * first + 1e-6


def test_a_straggler_is_six_medians_late_and_the_quick_ones_do_not_set_the_median() -> (
    None
):
    hedger = Hedger(Hedging())
    for _ in range(15):
        hedger.answered(1.0)
    assert hedger.late_after_s([]) is None
    hedger.answered(1.0)
    assert hedger.late_after_s([]) == 6.0
    # The first 16 of 128 to answer say little about the rest.
    assert hedger.late_after_s([1.5] * 112) is None
    assert hedger.late_after_s([0.5] * 112) == 6.0


async def test_a_judge_that_ends_the_program_in_its_second_call_ends_it(
    make_view: ViewFactory,
) -> None:
    calls = 0

    async def wait(view: JudgeView) -> None:
        nonlocal calls
        if view.response == "straggler":
            calls += 1
            if calls == 2:
                raise SystemExit(4)
            await anyio.sleep_forever()

    pool = JudgePool(ScriptedJudge(before=wait), hedge=Hedging())
    views = [make_view("straggler"), *(make_view(str(number)) for number in range(99))]
    with pytest.raises(SystemExit) as ended:
        await pool.judge_all(views)
    assert ended.value.args == (4,)
    assert pool.statistics().in_flight == 0


async def test_second_calls_keep_to_what_a_replica_may_hold(
    make_view: ViewFactory,
) -> None:
    peaks = [0, 0]

    class _Counting:
        name = "counting"

        def __init__(self, number: int) -> None:
            self.number, self.calls, self.in_flight = number, 0, 0

        async def judge(self, view: JudgeView) -> JudgeResult:
            self.calls += 1
            self.in_flight += 1
            peaks[self.number] = max(peaks[self.number], self.in_flight)
            try:
                await anyio.sleep(0.1 if self.calls % 10 == 0 else 0.002)
            finally:
                self.in_flight -= 1
            return JudgeResult.scored(
                view.rubric, dict.fromkeys(view.rubric.ids, 0.0), judge="c"
            )

    pool = JudgePool(
        [_Counting(0), _Counting(1)],
        workers=2,
        micro_batch=2,
        replica_limit=2,
        hedge=Hedging(after_medians=2, max_extra_frac=1),
    )
    views = [make_view(str(n), task_id=f"{n // 8:016x}") for n in range(160)]
    results = await pool.judge_all(views)
    assert {result.outcome for result in results} == {Outcome.SCORED}
    assert pool.statistics().hedged > 0
    assert max(peaks) <= 2
