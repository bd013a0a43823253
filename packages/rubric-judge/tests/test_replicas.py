"""Several servers: which gets a call, and what becomes of the calls of one that fails."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import anyio
import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from rubric_core import JudgeView, Outcome, Reason
from rubric_judge import (
    ChatModel,
    JudgeConfig,
    JudgePool,
    JudgeTransportError,
    LLMJudge,
    ModelConfig,
    Prices,
    load_replicas,
)
from rubric_judge.models import replicas as replicas_module
from rubric_judge.models.replicas import Replica, Replicas
from rubric_judge.testing import FakeEndpoint, Fault, ScriptedJudge

ViewFactory = Callable[..., JudgeView]

GROUPS = [f"task {number}" for number in range(40)]
SERVERS = ("a:1", "b:1", "c:1", "d:1")
READY = json.dumps({"ready": True})


class Ready(BaseModel):
    """A reply of one field."""

    ready: bool


class Clock:
    """The time that replicas see, and nothing else does."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(
        replicas_module, "time", SimpleNamespace(monotonic=clock.monotonic)
    )
    return clock


def _named(*names: str) -> Replicas[str]:
    return Replicas(names, names=names)


def _picked(replicas: Replicas[str], group: str) -> str:
    replica = replicas.pick(group)
    assert replica is not None
    return replica.target


def _down(replicas: Replicas[str], name: str) -> Replica[str]:
    (replica,) = [one for one in replicas.all if one.name == name]
    replicas.report(replica, ok=False, seconds=0.1)
    return replica


def test_a_group_stays_where_it_is_when_another_server_fails_and_comes_back(
    clock: Clock,
) -> None:
    replicas = _named(*SERVERS)
    homes = {group: _picked(replicas, group) for group in GROUPS}
    assert set(Counter(homes.values()).values()) == {10}

    lost = _down(replicas, "b:1")
    moved = {group: _picked(replicas, group) for group in GROUPS}
    for group, home in homes.items():
        assert (moved[group] == home) is (home != "b:1")
    # Those of the lost one are shared out among all others.
    others = [moved[group] for group in GROUPS if homes[group] == "b:1"]
    assert set(others) == set(SERVERS) - {"b:1"}

    clock.now_s += 6
    replicas.report(lost, ok=True, seconds=0.1)
    # What moved has its prefix there by now: back, the server gets the groups that are new.
    assert {group: _picked(replicas, group) for group in GROUPS} == moved
    assert [_picked(replicas, f"new {number}") for number in range(3)].count("b:1") >= 1


def test_between_idle_servers_a_group_has_one_home_in_every_process() -> None:
    homes = {group: _picked(_named(*SERVERS), group) for group in GROUPS}
    turned = {group: _picked(_named(*SERVERS[::-1]), group) for group in GROUPS}
    fewer = {group: _picked(_named(*SERVERS[1:]), group) for group in GROUPS}
    assert homes == turned
    assert len(set(homes.values())) == len(SERVERS)
    # Without a server only its own groups have another home.
    assert {g for g in GROUPS if fewer[g] != homes[g]} == {
        g for g in GROUPS if homes[g] == SERVERS[0]
    }


def test_calls_without_a_group_are_spread() -> None:
    replicas = _named(*SERVERS)
    assert Counter(_picked(replicas, "") for _ in range(8)) == dict.fromkeys(SERVERS, 2)


def test_a_failing_server_is_left_alone_longer_each_time_and_tried_by_one_call(
    clock: Clock,
) -> None:
    replicas = _named("a:1", "b:1")
    lost = _down(replicas, "a:1")
    _down(replicas, "a:1")  # another call of the same outage
    for rest_s in (5, 10, 20, 40, 80, 120, 120):
        clock.now_s += rest_s - 1
        assert _picked(replicas, f"at rest {rest_s} {clock.now_s}") == "b:1"
        clock.now_s += 1
        # The other one has more to do, so the trial goes where it is due, and once.
        trials = [_picked(replicas, f"due {clock.now_s} {n}") for n in range(30)]
        assert trials.count("a:1") == 1
        _down(replicas, "a:1")
    assert lost.statistics().times_down == 8
    replicas.report(lost, ok=True, seconds=2.0)
    statistics = lost.statistics()
    assert (statistics.is_down, statistics.mean_s) == (False, 2.0)


def test_only_what_does_not_reach_a_server_speaks_against_it() -> None:
    replicas = _named("a:1", "b:1")
    for replica in replicas.all:
        replicas.report(replica, ok=None, seconds=0.1)
    assert not any(replica.is_down for replica in replicas.all)
    assert replicas_module.was_reached(None) is True
    assert replicas_module.was_reached(Reason.CONNECTION) is False
    silent = set(Reason) - {Reason.CONNECTION}
    assert {replicas_module.was_reached(reason) for reason in silent} == {None}


def _config(*addresses: str, **settings: object) -> ModelConfig:
    usual = {"transport": "direct", "backoff_s": 0.001, "max_transport_attempts": 2}
    return ModelConfig.model_validate(
        {"model": "m", "api_base": addresses, **usual, **settings}
    )


@pytest.fixture
def pair() -> Iterator[tuple[FakeEndpoint, FakeEndpoint]]:
    """Two servers, the first of which breaks its first six connections."""
    with (
        FakeEndpoint(lambda _: READY, faults=[Fault.RESET] * 6) as flaky,
        FakeEndpoint(lambda _: READY) as steady,
    ):
        yield flaky, steady


async def _ask(model: ChatModel, group: str) -> tuple[int, str]:
    answer = await model.complete(system="", user=group, reply=Ready, affinity=group)
    assert answer.answered_by is not None
    return answer.attempts, f"http://{answer.answered_by.deployment}/v1"


@pytest.mark.anyio
async def test_calls_of_a_model_go_elsewhere_while_a_server_is_dead_and_come_back(
    pair: tuple[FakeEndpoint, FakeEndpoint], clock: Clock
) -> None:
    flaky, steady = pair
    async with ChatModel(_config(flaky.url, steady.url)) as model:
        answers = [await _ask(model, group) for group in GROUPS[:6]]
        assert {server for _, server in answers} == {steady.url}
        # One call found out, with all its attempts; none of the others was sent there.
        assert sorted(attempts for attempts, _ in answers) == [1, 1, 1, 1, 1, 3]
        assert (len(flaky.calls), len(steady.calls)) == (2, 6)

        for rest_s in (5, 10):
            clock.now_s += rest_s
            answers = [await _ask(model, f"{g} {rest_s}") for g in GROUPS[:6]]
            assert {server for _, server in answers} == {steady.url}
        assert (len(flaky.calls), len(steady.calls)) == (6, 18)

        clock.now_s += 20
        answers = [await _ask(model, f"{group} back") for group in GROUPS]
        assert Counter(server for _, server in answers)[flaky.url] > len(GROUPS) // 2
        assert {attempts for attempts, _ in answers} == {1}


def test_the_log_tells_once_of_a_server_at_rest_and_of_its_return(clock: Clock) -> None:
    replicas = _named("a:1", "b:1")
    with capture_logs() as logs:
        lost = _down(replicas, "a:1")
        _down(replicas, "a:1")  # another call of the same outage
        clock.now_s += 6
        _down(replicas, "a:1")
        for _ in range(2):
            replicas.report(lost, ok=True, seconds=0.1)
        _down(_named("alone:1"), "alone:1")
    assert [(log["event"], log["replica"], log.get("rest_s")) for log in logs] == [
        ("judge.replica.rests", "a:1", 5),
        ("judge.replica.rests", "a:1", 10),
        ("judge.replica.back", "a:1", None),
    ]


@pytest.mark.anyio
async def test_a_call_that_moves_is_counted_and_paid_for_once() -> None:
    prices = Prices(prompt_usd_per_mtok=1_000_000, completion_usd_per_mtok=0)
    with FakeEndpoint(lambda _: READY) as alive:
        config = _config("http://127.0.0.1:1/v1", alive.url, prices=prices)
        async with ChatModel(config) as model:
            answers = [
                await model.complete(system="four", user=g, reply=Ready, affinity=g)
                for g in GROUPS[:4]
            ]
        assert len(alive.calls) == 4
    assert sum(answer.attempts for answer in answers) == 4 + 2
    assert model.limiter.statistics().attempts == 4 + 2
    for answer in answers:
        assert answer.usage is not None
        assert answer.usage.cost_usd == answer.usage.prompt_tokens > 0


@pytest.mark.anyio
async def test_where_no_server_is_reached_the_error_has_the_attempts_of_all() -> None:
    dead = [f"http://127.0.0.1:{port}/v1" for port in (1, 2, 3)]
    async with ChatModel(_config(*dead)) as model:
        with pytest.raises(JudgeTransportError) as raised:
            await model.complete(system="", user="", reply=Ready, affinity="x")
        assert (raised.value.reason, raised.value.attempts) == (Reason.CONNECTION, 6)
        # All are down: the next call is one of one server, not of each in turn.
        with pytest.raises(JudgeTransportError) as raised:
            await model.complete(system="", user="", reply=Ready, affinity="y")
    assert raised.value.attempts == 2


@pytest.mark.anyio
async def test_a_cancelled_call_speaks_against_no_server() -> None:
    with ExitStack() as stack:
        hanging = [
            stack.enter_context(FakeEndpoint(lambda _: READY, faults=[Fault.HANG]))
            for _ in range(2)
        ]
        async with ChatModel(_config(*(one.url for one in hanging))) as model:
            for group in ("task 0", "task 1"):
                with anyio.move_on_after(0.3) as scope:
                    await _ask(model, group)
                assert scope.cancelled_caught
            first = {group: (await _ask(model, group))[1] for group in GROUPS[:2]}
            again = {group: (await _ask(model, group))[1] for group in GROUPS[:2]}
    assert [len(one.calls) for one in hanging] == [3, 3]
    assert first == again
    assert len(set(first.values())) == 2


@pytest.mark.anyio
async def test_a_deadline_of_a_pool_speaks_against_no_replica(
    make_view: ViewFactory,
) -> None:
    async def wait(view: JudgeView) -> None:
        del view
        await anyio.sleep_forever()

    pool = JudgePool([ScriptedJudge(before=wait), ScriptedJudge(before=wait)])
    views = [make_view("x", task_id=f"{number:016x}") for number in range(4)]
    results = await pool.judge_all(views, deadline_s=0.05)
    assert {result.reason for result in results} == {Reason.TIMEOUT}
    for replica in pool.statistics().replicas:
        assert (replica.in_flight, replica.calls, replica.is_down) == (0, 2, False)


@pytest.mark.anyio
@pytest.mark.parametrize("as_one_judge", [True, False])
async def test_one_judge_of_two_servers_and_two_judges_of_one_end_alike(
    make_view: ViewFactory,
    as_one_judge: bool,  # noqa: FBT001
) -> None:
    views = [make_view(f"{n}", task_id=f"{n % 8:016x}") for n in range(64)]
    with FakeEndpoint(0.5) as alive:
        config = JudgeConfig.model_validate(
            {
                "model": "m",
                "transport": "direct",
                "api_base": ["http://127.0.0.1:1/v1", alive.url],
                "backoff_s": 0.001,
                "max_transport_attempts": 2,
            }
        )
        judges = [LLMJudge(config)] if as_one_judge else load_replicas(config)
        pool = JudgePool(judges, workers=1, micro_batch=1)
        results = await pool.judge_all(views)
        await pool.aclose()
        assert len(alive.calls) == 64
    assert {result.outcome for result in results} == {Outcome.SCORED}
    assert sum(result.attempts for result in results) == 64 + 2
    assert pool.statistics().attempts == 64 + 2
