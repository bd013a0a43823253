import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

import anyio
import pytest

from rubric_core import (
    Grounding,
    JudgeResult,
    JudgeView,
    MissingExtraError,
    Outcome,
    Reason,
)
from rubric_judge import (
    JudgeConfig,
    JudgePool,
    JudgeSetupError,
    Ledger,
    LexicalConfig,
    LimitsConfig,
    ListwiseConfig,
    PluginConfig,
    load_judge,
)
from rubric_judge.models.limits import LimiterStatistics
from rubric_judge.pool.ray_actors import LimiterActor
from rubric_judge.pool.ray_pool import RayJudgePool
from rubric_judge.pool.ray_start import start_ray
from rubric_judge.pool.step import Hedging
from rubric_judge.testing import FakeEndpoint, Fault, marked, marked_share

ViewFactory = Callable[..., JudgeView]
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(900),  # what is waited for may take long on a busy machine
    # Ray tells of its own future, and leaves sockets and subprocesses to the end of the process.
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# A judge that an installed package registers; workers find it as they find any other.
_PLUGIN = """
import asyncio, os, pathlib

from rubric_core import JudgeResult


class Deadly:
    name = "deadly"

    def __init__(self, options):
        self.diary = pathlib.Path(options["diary"])

    async def judge(self, view):
        with self.diary.open("a") as diary:
            diary.write(f"{view.response}\\n")
        await asyncio.sleep(0.02)
        kind, _, number = view.response.partition(" ")
        if kind == "always":
            os._exit(1)
        if kind == "once" and self.diary.read_text().split("\\n").count(view.response) == 1:
            os._exit(1)
        share = int(number) / 1000
        return JudgeResult.scored(
            view.rubric, {c.id: c.weight * share for c in view.rubric}, judge=self.name
        )


class Quoting:
    name = "quoting"

    def __init__(self, options):
        self.begun = pathlib.Path(options["begun"])
        self.go_on = pathlib.Path(options["go_on"])

    async def judge(self, view):
        with self.begun.open("a") as begun:
            begun.write("1")
        while not self.go_on.exists():
            await asyncio.sleep(0.02)
        return JudgeResult.scored(
            view.rubric,
            {c.id: c.weight for c in view.rubric},
            judge=self.name,
            reasoning=view.grounding.reveal(),
        )
"""


def _in_object_store(word: str) -> bool:
    """Whether a word is in the shared memory of Ray's processes below this one."""
    psutil = pytest.importorskip("psutil")
    stores: dict[int, Path] = {}
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        links: list[Path] = []
        with contextlib.suppress(FileNotFoundError):  # the process has ended
            links = list(Path(f"/proc/{process.pid}/fd").iterdir())
        for link in links:
            with contextlib.suppress(OSError):  # closed, or its process has ended
                if "/dev/shm/plasma" in str(link.readlink()):  # noqa: S108  # Ray's place
                    stores[link.stat().st_ino] = link
    assert stores, "Ray's object store was not found"
    return any(
        word.encode() in content
        for link in stores.values()
        for content in _extents(link)
    )


def _extents(path: Path) -> Iterator[bytes]:
    """What was ever written to a file; an object store is a hole for the most part."""
    with path.open("rb") as file:
        end = 0
        while True:
            try:
                begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:  # nothing but a hole is left
                return
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            yield os.pread(file.fileno(), end - begin, begin)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    ray = pytest.importorskip("ray")
    packages = tmp_path_factory.mktemp("packages")
    (packages / "deadly_judge.py").write_text(_PLUGIN, encoding="utf-8")
    info = packages / "deadly_judge-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: deadly-judge\nVersion: 1\n"
    )
    (info / "entry_points.txt").write_text(
        "[rubric.judges]\ndeadly = deadly_judge:Deadly\nquoting = deadly_judge:Quoting\n"
    )
    environment = {
        "env_vars": {"PYTHONPATH": os.pathsep.join((str(packages), *sys.path))}
    }
    start_ray(
        ray,
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env=environment,
    )
    yield ray
    ray.shutdown()


@pytest.fixture
def deadly(tmp_path: Path) -> PluginConfig:
    return PluginConfig(name="deadly", options={"diary": str(tmp_path / "diary")})


def _views(make_view: ViewFactory, responses: list[str]) -> list[JudgeView]:
    return [
        make_view(response, task_id=f"{number % 6:016x}")
        for number, response in enumerate(responses)
    ]


async def _settled(diary: Path) -> int:
    """Return how many judgements were begun once none has been for a second."""
    begun = (await anyio.Path(diary).read_text()).count("\n")
    with anyio.fail_after(300):
        while True:
            await anyio.sleep(1)
            before, begun = begun, (await anyio.Path(diary).read_text()).count("\n")
            if begun == before:
                return begun


def _check(results: Sequence[JudgeResult], responses: list[str]) -> None:
    for result, response in zip(results, responses, strict=True):
        assert result.outcome is Outcome.SCORED, result
        assert result.total == pytest.approx(3 * int(response.split()[1]) / 1000)


async def idle(pool: RayJudgePool) -> LimiterStatistics:
    """Statistics once every place is given back, which actors do in their own time."""
    with anyio.fail_after(300):
        while True:
            (limiter,) = pool.statistics().limiters
            if not limiter.in_flight + limiter.waiting:
                return limiter
            await anyio.sleep(0.05)


async def test_without_ray_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        MissingExtraError,
        match=r"pip install --no-sources './packages/rubric-judge\[ray\]'",
    ):
        RayJudgePool(LexicalConfig())
    with pytest.raises(ValueError, match="at least 1"):
        RayJudgePool(LexicalConfig(), actors=0)
    with pytest.raises(
        JudgeSetupError, match="spec=int: give the judge's configuration"
    ):
        RayJudgePool(cast("LexicalConfig", 1))


async def test_a_place_that_is_given_up_as_its_turn_comes_is_free_again() -> None:
    limiter = LimiterActor(LimitsConfig(max_in_flight=1))
    await limiter.enter("a", 1, 10)
    async with anyio.create_task_group() as group:
        group.start_soon(limiter.enter, "a", 2, 10)
        group.start_soon(limiter.enter, "b", 1, 10)
        await anyio.wait_all_tasks_blocked()
        await limiter.leave("a", 1)  # wakes the second, which is gone before it goes on
        await limiter.leave("a", 2)
        await anyio.wait_all_tasks_blocked()
        await limiter.forget("b")
        await limiter.enter("b", 2, 10)  # was on its way when its owner died
    statistics = await limiter.statistics()
    assert (statistics.in_flight, statistics.waiting) == (0, 0)


@pytest.mark.slow
async def test_cancelled_steps_and_dead_actors_leave_no_place_of_the_limiter_behind(
    cluster: ModuleType, make_view: ViewFactory
) -> None:
    with FakeEndpoint(0.5, latency=0.02, keep="counts") as endpoint:
        config = JudgeConfig(
            model="openai/m",
            api_base=endpoint.url,
            transport="direct",
            limits=LimitsConfig(max_in_flight=4),
        )
        async with RayJudgePool(config, actors=2, micro_batch=4) as pool:
            views = _views(make_view, [f"answer {number}" for number in range(100)])
            await pool.judge_all(views[:8])

            for number in range(8):
                with anyio.move_on_after(0.02 + 0.02 * number):
                    await pool.judge_all(views)
                await idle(pool)
            async with anyio.create_task_group() as group:
                group.start_soon(pool.judge_all, views)
                await anyio.sleep(0.1)
                cluster.kill(pool._judges[0].actor)
            await idle(pool)
            assert len(await pool.judge_all(views[:8])) == 8


@pytest.mark.slow
async def test_an_actor_that_is_killed_is_replaced_and_nothing_is_lost_or_counted_twice(
    cluster: ModuleType, make_view: ViewFactory, deadly: PluginConfig
) -> None:
    responses = [f"fine {number}" for number in range(120)]
    seen: list[int] = []
    async with RayJudgePool(deadly, actors=3, micro_batch=4) as pool:

        def count(position: int, result: object) -> None:
            del result
            seen.append(position)
            if len(seen) == 40:
                cluster.kill(pool._judges[0].actor)

        results = await pool.judge_all(_views(make_view, responses), on_result=count)
        _check(results, responses)
        assert sorted(seen) == list(range(120))
        statistics = pool.statistics()
        assert (statistics.done, statistics.in_flight, pool.replaced) == (120, 0, 1)
        assert statistics.by_outcome == {Outcome.SCORED: 120}
        assert sum(one.groups for one in statistics.replicas) == 6
        assert not any(one.is_down for one in statistics.replicas)  # it was replaced
        again = await pool.judge_all(_views(make_view, responses))
        _check(again, responses)


@pytest.mark.slow
async def test_work_that_kills_its_actor_once_is_done_again(
    cluster: ModuleType, make_view: ViewFactory, deadly: PluginConfig
) -> None:
    del cluster
    responses = [
        f"{'once' if number == 17 else 'fine'} {number}" for number in range(48)
    ]
    async with RayJudgePool(deadly, actors=2, micro_batch=4) as pool:
        results = await pool.judge_all(_views(make_view, responses))
        _check(results, responses)
        assert pool.replaced == 1


@pytest.mark.slow
async def test_work_that_kills_every_actor_is_unavailable_and_takes_few_with_it(
    cluster: ModuleType, make_view: ViewFactory, deadly: PluginConfig, tmp_path: Path
) -> None:
    del cluster
    responses = [
        f"{'always' if number == 5 else 'fine'} {number}" for number in range(24)
    ]
    async with RayJudgePool(deadly, actors=2, micro_batch=1) as pool:
        results = await pool.judge_all(_views(make_view, responses))
        statistics = pool.statistics()
    assert results[5].reason is Reason.JUDGE_ERROR
    assert results[5].detail == "2 Ray actors died with this judgement; see their logs"
    _check(results[:5] + results[6:], responses[:5] + responses[6:])
    assert statistics.by_outcome == {Outcome.SCORED: 23, Outcome.UNAVAILABLE: 1}
    assert (tmp_path / "diary").read_text().split("\n").count("always 5") == 2


@pytest.mark.slow
async def test_a_deadline_stops_the_work_in_the_actors_and_a_ledger_keeps_what_is_done(
    cluster: ModuleType, make_view: ViewFactory, deadly: PluginConfig, tmp_path: Path
) -> None:
    del cluster
    responses = [f"fine {number}" for number in range(200)]
    with Ledger(tmp_path / "judgements.db") as ledger:
        async with RayJudgePool(deadly, actors=1, micro_batch=2, ledger=ledger) as pool:
            await pool.judge_all(_views(make_view, ["fine 999"]))  # started and warm
            results = await pool.judge_all(_views(make_view, responses), deadline_s=1.0)
            done = [result for result in results if result.outcome is Outcome.SCORED]
            assert 0 < len(done) < 200
            assert {r.reason for r in results} == {None, Reason.TIMEOUT}
            assert await _settled(tmp_path / "diary") < 200
            rest = await pool.judge_all(_views(make_view, responses))
            _check(rest, responses)
            assert pool.statistics().from_ledger == len(done)


@pytest.mark.slow
async def test_no_passage_however_long_is_in_shared_memory(
    cluster: ModuleType, make_view: ViewFactory, tmp_path: Path
) -> None:
    words = [f"zqcanary{place}" for place in ("start", "middle", "end")]
    padding = "The passage goes on. " * 6_000
    passage = padding.join(words)
    assert len(passage) > 250_000
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    judge = PluginConfig(
        name="quoting", options={"begun": str(begun), "go_on": str(go_on)}
    )
    views = [
        make_view(
            f"answer {number}",
            task_id=f"{number:016x}",
            grounding=Grounding(f"{number} {passage}"),
        )
        for number in range(6)
    ]
    results: list[JudgeResult] = []
    async with RayJudgePool(judge, actors=2, micro_batch=3) as pool:

        async def judge_all() -> None:
            results.extend(await pool.judge_all(views))

        async with anyio.create_task_group() as group:
            group.start_soon(judge_all)
            with anyio.fail_after(300):
                while not begun.exists() or begun.stat().st_size < len(views):  # noqa: ASYNC110  # another process's
                    await anyio.sleep(0.02)
            found = [word for word in words if _in_object_store(word)]
            go_on.touch()
        # What was deleted there stays until its place is used again.
        found += [word for word in words if _in_object_store(word)]
    assert [result.reasoning for result in results] == [
        view.grounding.reveal() for view in views
    ]
    assert found == []
    sentinel = cluster.put("zqsentinel" + padding)
    assert _in_object_store("zqsentinel"), "the search finds nothing"
    del sentinel


@pytest.mark.slow
async def test_one_limiter_serves_all_actors(
    cluster: ModuleType, make_view: ViewFactory
) -> None:
    del cluster
    with FakeEndpoint(
        0.5, latency=0.02, faults=[None] * 8 + [Fault.RATE_LIMIT]
    ) as endpoint:
        config = JudgeConfig(
            model="openai/fake",
            api_base=endpoint.url,
            transport="direct",
            backoff_s=0.01,
            limits=LimitsConfig(max_in_flight=2),
        )
        async with RayJudgePool(
            config, actors=3, micro_batch=4, hedge=Hedging()
        ) as pool:
            results = await pool.judge_all(_views(make_view, ["fine 500"] * 60))
            _check(results, ["fine 500"] * 60)
            limiter = await idle(pool)
    assert limiter.peak_in_flight == 2
    assert limiter.rate_limited == limiter.decreases == 1
    assert limiter.attempts == len(endpoint.calls)
    # A hedge that still waits for its turn when its twin is done makes no attempt.
    assert 61 <= len(endpoint.calls) <= 61 + pool.statistics().hedged


@pytest.mark.slow
async def test_slots_of_a_dead_actor_are_given_back(
    cluster: ModuleType, make_view: ViewFactory
) -> None:
    with FakeEndpoint(0.5, latency=0.2) as endpoint:
        config = JudgeConfig(
            model="openai/fake",
            api_base=endpoint.url,
            transport="direct",
            limits=LimitsConfig(max_in_flight=4),
        )
        async with RayJudgePool(config, actors=1, micro_batch=4) as pool:
            async with anyio.create_task_group() as group:
                group.start_soon(pool.judge_all, _views(make_view, ["fine 500"] * 8))
                with anyio.fail_after(300):
                    while not endpoint.calls:  # noqa: ASYNC110  # another thread's
                        await anyio.sleep(0.02)
                cluster.kill(pool._judges[0].actor)
            assert pool.statistics().by_outcome == {Outcome.SCORED: 8}
            await idle(pool)


@pytest.mark.slow
async def test_a_judge_of_groups_gets_all_responses_to_a_task_in_one_call(
    cluster: ModuleType, make_view: ViewFactory, tmp_path: Path
) -> None:
    del cluster
    views = [
        make_view(marked(f"Answer {n}.", view=n, share=n / 8), task_id=f"{n % 2:016x}")
        for n in range(8)
    ]
    with FakeEndpoint(marked_share) as endpoint, Ledger(tmp_path / "ledger") as ledger:
        spec = ListwiseConfig(
            model="openai/fake", api_base=endpoint.url, transport="direct"
        )
        async with RayJudgePool(spec, actors=2, micro_batch=2, ledger=ledger) as pool:
            assert pool.judges_groups
            remote = await pool.judge_all(views)
            assert endpoint.counts.total() == 2
            assert await pool.judge_all(views) == remote  # from the ledger
            assert endpoint.counts.total() == 2
        local = await JudgePool(load_judge(spec)).judge_all(views)
    assert [result.scores for result in remote] == [result.scores for result in local]
    assert {result.outcome for result in remote} == {Outcome.SCORED}


@pytest.mark.slow
async def test_a_judge_that_cannot_be_built_is_one_clear_error(
    cluster: ModuleType,
) -> None:
    del cluster
    with pytest.raises(JudgeSetupError, match="NO_SUCH_KEY"):
        RayJudgePool(JudgeConfig(model="openai/x", api_key_env="NO_SUCH_KEY"), actors=1)


def test_a_cluster_that_starts_too_slowly_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = pytest.importorskip("ray")
    tries: list[dict[str, object]] = []

    def init(**options: object) -> None:
        tries.append(options)
        if len(tries) < 3:
            raise Exception("The current node timed out during startup.")  # noqa: TRY002  # as Ray does

    monkeypatch.setattr(ray, "init", init)
    start_ray(ray, num_cpus=2)
    assert tries == [{"num_cpus": 2}] * 3
    tries[:] = []
    monkeypatch.setattr(ray, "init", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        start_ray(ray)
