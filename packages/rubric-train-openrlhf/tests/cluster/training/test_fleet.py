"""Engines that really die: actors of Ray whose processes are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from rubric_judge.ui.console.display import Lines
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.errors import ClusterError

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_train_openrlhf.cluster.sampling.fleet import EngineFleet

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # Ray leaves processes and sockets to the interpreter's end.
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Engine:
    """Answers after a moment, with the version of its weights; dies once, over one label."""

    def __init__(self, version: int, *, dies_on: str | None, mark: Path | None) -> None:
        self._version = version
        self._dies_on = dies_on
        self._mark = mark

    async def generate_responses(
        self, *, label: str, **_asked: object
    ) -> list[dict[str, Any]]:
        if (
            label == self._dies_on
            and self._mark is not None
            and not self._mark.exists()
        ):
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0.2)
        return [
            {
                "label": label,
                "version": self._version,
                "extra_logs": {"rubric/judge_s": 0.05},
            },
        ]

    async def take(self, version: int) -> None:
        self._version = version

    async def process(self) -> int:
        return os.getpid()


class Weights:
    """What the policy has, and how often each way of handing it over was taken."""

    def __init__(
        self,
        ray: Any,
        *,
        engines: int,
        restarts: int,
        dies_on: str | None = None,
        mark: Path | None = None,
    ) -> None:
        kind = ray.remote(num_cpus=0, max_restarts=restarts, max_concurrency=100)(
            Engine
        )
        self.ray = ray
        self.engines = [
            kind.remote(0, dies_on=dies_on, mark=mark) for _ in range(engines)
        ]
        self.version = 0
        self.calls: list[str] = []

    def broadcast(self) -> bool:
        self.calls.append("broadcast")
        self.ray.get([engine.take.remote(self.version) for engine in self.engines])
        return True

    def rejoin(self) -> bool:
        done = self.broadcast()
        self.calls[-1] = "rejoin"
        return done

    def kill(self, number: int) -> None:
        pid = self.ray.get(self.engines[number].process.remote())
        os.kill(pid, signal.SIGKILL)

    def fleet(self) -> EngineFleet:
        from rubric_train_openrlhf.cluster.sampling.fleet import EngineFleet

        fleet = EngineFleet(self.engines, rejoin=self.rejoin)
        fleet.check()
        return fleet


def requests(groups: int, size: int) -> list[Any]:
    from rubric_train_openrlhf.cluster.sampling.samples import SampleRequest

    sampling: Any = None
    return [
        SampleRequest("prompt", f"t{group}.{member}", sampling, 64, group)
        for group in range(groups)
        for member in range(size)
    ]


def test_answers_come_in_order_and_the_judge_is_waited_for_apart(
    module_ray: Any,
) -> None:
    weights = Weights(module_ray, engines=2, restarts=0)
    asked = requests(4, 3)
    counted: list[str] = []
    show = Lines("run", clock=time.monotonic, write=counted.append)
    with Progress(show):
        answers = weights.fleet().ask(asked)
    assert counted[0] == "run: responses: 0 of 12\n"
    assert counted[-1].startswith("run: responses: 12 of 12, ")
    assert [one["label"] for one in answers.responses] == [one.task_id for one in asked]
    assert answers.timing.judge_s == pytest.approx(12 * 0.05)
    assert answers.timing.judge_wait_s == pytest.approx(0.05, abs=0.04)
    assert answers.timing.generate_s >= 0.15
    assert (answers.resent, weights.calls) == (0, [])


def test_what_an_engine_took_with_it_is_asked_for_again_under_the_same_weights(
    module_ray: Any,
    tmp_path: Path,
) -> None:
    weights = Weights(
        module_ray, engines=2, restarts=1, dies_on="t3.1", mark=tmp_path / "died"
    )
    fleet = weights.fleet()
    weights.version = 7
    fleet.synchronise(weights.broadcast)
    asked = requests(6, 4)
    answers = fleet.ask(asked)

    assert [one["label"] for one in answers.responses] == [one.task_id for one in asked]
    assert {one["version"] for one in answers.responses} == {7}
    assert answers.resent > 0
    assert fleet.take_restarts() == 1
    assert weights.calls == ["broadcast", "rejoin"]


def test_an_engine_that_came_back_between_two_steps_joins_again(
    module_ray: Any,
) -> None:
    weights = Weights(module_ray, engines=2, restarts=1)
    fleet = weights.fleet()
    weights.kill(0)
    time.sleep(3)  # it is back, with the weights of the start, before anyone asks
    weights.version = 3
    fleet.synchronise(weights.broadcast)
    assert weights.calls == ["rejoin"]
    assert fleet.take_restarts() == 1
    fleet.synchronise(weights.broadcast)
    assert weights.calls == ["rejoin", "broadcast"]
    assert {one["version"] for one in fleet.ask(requests(4, 1)).responses} == {3}


def test_an_engine_that_died_for_good_ends_the_run(module_ray: Any) -> None:
    weights = Weights(module_ray, engines=2, restarts=0)
    fleet = weights.fleet()
    weights.kill(1)
    with pytest.raises(ClusterError, match="engine 1 died and is not started again"):
        fleet.ask(requests(4, 2))
