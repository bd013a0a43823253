"""OpenRLHF's transfer of weights, over gloo, to actors of Ray that die in the middle of it."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.usefixtures("group_of_one"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # Ray and vLLM leave processes and sockets to the interpreter's end.
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ENGINES = 3


class Receiver:
    """Takes weights as an engine does; dies, or complains, over one that a file names, once."""

    def __init__(self, marks: Path, *, complains: bool) -> None:
        self._marks = marks
        self._complains = complains
        self.weights: dict[str, Any] = {}

    def init_process_group(
        self, host: str, port: int, rank: int, world_size: int, *_: object, **__: object
    ) -> None:
        from rubric_train_openrlhf.cluster.cpu import GlooGroup

        self._group = GlooGroup(host, port, rank=rank, world_size=world_size)

    def update_weight(
        self, name: str, *, dtype: Any, shape: Any, empty_cache: bool
    ) -> None:
        del empty_cache
        if (mark := self._marks / name).exists():
            mark.unlink()
            if self._complains:
                self._group.close()
                raise TypeError("no such precision")
            os.kill(os.getpid(), signal.SIGKILL)
        weight = torch.empty(tuple(shape), dtype=dtype)
        self._group.broadcast(weight, src=0)
        self.weights[name] = weight

    def taken(self) -> dict[str, Any]:
        return {name: weight.tolist() for name, weight in self.weights.items()}


class Policy:
    """A rank that trains, with OpenRLHF's own loop over its parameters."""

    def __init__(
        self, ray: Any, folder: Path, *, complains: bool = False, restarts: int = 3
    ) -> None:
        from rubric_train_openrlhf.cluster.sampling.fleet import EngineFleet
        from rubric_train_openrlhf.cluster.training.learner import RubricLearner

        kind = ray.remote(num_cpus=0, max_restarts=restarts, max_concurrency=8)(
            Receiver
        )
        self.engines = [
            kind.remote(folder / str(engine), complains=complains)
            for engine in range(ENGINES)
        ]
        self._marks = folder / "1"
        self._marks.mkdir()
        self._ray = ray
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        self.learner = RubricLearner.__new__(RubricLearner)
        self.learner.strategy = SimpleNamespace(
            args=SimpleNamespace(
                vllm=SimpleNamespace(
                    num_engines=ENGINES, tensor_parallel_size=1, sync_backend="gloo"
                ),
                ds=SimpleNamespace(zero_stage=2, tensor_parallel_size=1),
            )
        )
        self.learner.actor = SimpleNamespace(model=SimpleNamespace(module=self.net))
        self.learner.vllm_engines = self.engines
        self.learner.use_cuda_ipc = False
        self.fleet = EngineFleet(self.engines, rejoin=self.rejoin)
        self.learner._init_vllm_sync_group("gloo")
        self.fleet.check()

    def let_engine_die_on(self, weight: str) -> None:
        """Have engine 1 die, or complain, when it is next given a weight."""
        (self._marks / weight).touch()

    def is_to_die(self) -> bool:
        return any(self._marks.iterdir())

    def rejoin(self) -> bool:
        return self.learner.broadcast_to_vllm(rejoin=True)

    def synchronise(self) -> None:
        self.fleet.synchronise(self.learner.broadcast_to_vllm)

    def has_arrived(self) -> bool:
        own = {name: weight.tolist() for name, weight in self.net.named_parameters()}
        return all(
            self._ray.get(engine.taken.remote()) == own for engine in self.engines
        )


def test_an_engine_that_dies_over_the_weights_comes_back_and_gets_them(
    module_ray: Any, tmp_path: Path
) -> None:
    """Over the first of them, one in the middle and the last, in three transfers."""
    policy = Policy(module_ray, tmp_path)
    for number, weight in enumerate(("0.weight", "1.weight", "1.bias")):
        nn.init.constant_(next(policy.net.parameters()), number)
        policy.let_engine_die_on(weight)

        policy.synchronise()

        assert not policy.is_to_die()
        assert policy.has_arrived()
        assert policy.fleet.take_restarts() == 1
    nn.init.constant_(next(policy.net.parameters()), 9.0)
    policy.synchronise()
    assert policy.has_arrived()


def test_an_engine_that_dies_for_good_ends_the_run(
    module_ray: Any, tmp_path: Path
) -> None:
    from rubric_train_openrlhf.errors import ClusterError

    policy = Policy(module_ray, tmp_path, restarts=0)
    policy.let_engine_die_on("1.weight")
    with pytest.raises(ClusterError, match="engine 1 died and is not started again"):
        policy.synchronise()


def test_what_is_no_death_is_raised(module_ray: Any, tmp_path: Path) -> None:
    policy = Policy(module_ray, tmp_path, complains=True)
    policy.let_engine_die_on("1.weight")
    with pytest.raises(RuntimeError, match=r"Connection closed|Connection reset"):
        policy.synchronise()
    assert policy.fleet.take_restarts() == 0
