"""Two processes that train make the updates of one: the same figures and the same weights.

Each of the two is a rank of OpenRLHF's policy, with DeepSpeed over gloo; the one is the local
backend.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from rubric_core import group_advantages
from rubric_train_openrlhf.cluster.settings import RUN_FILE, inherited
from rubric_train_openrlhf.cluster.training.trained import (
    Shares,
    TrainedSample,
    check_trained,
    in_row_order,
)
from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates
from rubric_train_openrlhf.config.train import dump_config
from rubric_train_openrlhf.local.update import Learner, UpdateBatch
from rubric_train_openrlhf.objective import adamw, warmup
from rubric_train_openrlhf.policy import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import RealInput
    from rubric_train_openrlhf.cluster.sampling.samples import Group
    from rubric_train_openrlhf.config.train import TrainConfig
    from rubric_train_openrlhf.local.update import UpdateMetrics
    from rubric_train_openrlhf.policy import Rollouts

pytestmark = [pytest.mark.openrlhf, pytest.mark.slow, pytest.mark.timeout(900)]

RANKS = 2
REWARDS_PG = np.array([[0.0, 0.25, 0.5, 1.0], [0.75, 0.5, 0.0, 0.5]])
VALID_PG = np.array([[True, True, False, False], [True, True, True, False]])
"""One rank has no valid response in the first of two updates; of four, one has none at all."""
ADVANTAGES_PG = group_advantages(REWARDS_PG, valid_PG=VALID_PG)

CASES: dict[str, dict[str, Any]] = {
    "two updates of two passes": {"updates": 2},
    "an update with nothing to learn from": {"updates": 4},
    "weights are split too": {"updates": 2, "zero_stage": 3},
    "responses of equal weight": {
        "updates": 2,
        "objective": {"aggregation": "sequence"},
    },
    "sequence ratio": {
        "updates": 2,
        "objective": {"ratio": "sequence", "aggregation": "sequence"},
    },
    "truncated weights": {
        "updates": 2,
        "objective": {"importance": {"type": "tis", "cap": 1.05}},
    },
    "responses out of the band": {
        "updates": 2,
        "objective": {"importance": {"type": "seq_mask_tis", "low": 0.9, "high": 1.1}},
    },
}


def config_of(real_input: RealInput, out: Path, case: dict[str, Any]) -> TrainConfig:
    return real_input.config(
        out,
        rollout={"prompts": 2, "group_size": 4, "max_new_tokens": 24},
        # A large ε keeps the first step of AdamW linear in the gradient.
        optim={
            "updates_per_rollout": case["updates"],
            "micro_batch": 1,
            "eps": 1.0,
            "learning_rate": 1e-1,
            "max_grad_norm": 0.5,
        },
        objective={"kl_coef": 1e-3, **case.get("objective", {})},
        cluster={
            "gpus_per_node": RANKS,
            "deepspeed": {
                "forward_micro_batch": 2,
                "zero_stage": case.get("zero_stage", 2),
            },
        },
    )


def by_the_local_backend(
    config: TrainConfig, rollouts: Rollouts, *, model: Path, reference: Path
) -> tuple[UpdateMetrics, dict[str, torch.Tensor]]:
    policy = load_policy(model).model
    optimizer = adamw(policy.parameters(), config=config.optim)
    learner = Learner(
        model=policy,
        reference=load_policy(reference).model.requires_grad_(requires_grad=False),
        optimizer=optimizer,
        schedule=warmup(optimizer, config=config.optim),
        config=config,
    )
    batch = UpdateBatch(
        rollouts=rollouts,
        advantages_B=torch.from_numpy(ADVANTAGES_PG.reshape(-1)),
        valid_B=torch.from_numpy(VALID_PG.reshape(-1)),
    )
    metrics = learner.update(batch, step=1)
    return metrics, {name: p.detach().clone() for name, p in policy.named_parameters()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def configs(real_input: RealInput, folder: Path) -> dict[str, TrainConfig]:
    return {
        name: config_of(real_input, folder / f"run_{number}", case)
        for number, (name, case) in enumerate(CASES.items())
    }


@pytest.fixture(scope="module")
def done(
    configs: dict[str, TrainConfig],
    real_input: RealInput,
    rollouts: Rollouts,
    as_groups: Callable[[Rollouts], list[Group]],
    drifted: Path,
    folder: Path,
) -> list[dict[str, Any]]:
    """What each of the processes did, by case: they are started once, for all cases."""
    cases: dict[str, Any] = {}
    for number, (name, config) in enumerate(configs.items()):
        path = folder / f"config_{number}.yaml"
        path.write_text(dump_config(config))
        cases[name] = {
            "config": path,
            "model": str(drifted),
            "reference": str(real_input.folder / "model"),
            "groups": as_groups(rollouts),
            "advantages_PG": ADVANTAGES_PG,
            "valid_PG": VALID_PG,
        }
    torch.save(cases, folder / "cases.pt")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    script = str(Path(__file__).with_name("one_rank.py"))
    environment = {**inherited(), "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
    processes: list[subprocess.Popen[bytes]] = []
    for rank in range(RANKS):
        with (folder / f"rank_{rank}.log").open("wb") as log:
            words = [sys.executable, script, str(folder), str(rank), str(RANKS), port]
            own = environment | {RUN_FILE: str(folder / f"rank_{rank}.json")}
            processes.append(subprocess.Popen(words, env=own, stdout=log, stderr=log))
    for rank, process in enumerate(processes):
        assert process.wait(timeout=800) == 0, (
            folder / f"rank_{rank}.log"
        ).read_text()[-5000:]
    return [torch.load(folder / f"rank_{rank}.pt") for rank in range(RANKS)]


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_make_the_updates_of_one_process(
    name: str,
    configs: dict[str, TrainConfig],
    done: list[dict[str, Any]],
    real_input: RealInput,
    rollouts: Rollouts,
    drifted: Path,
) -> None:
    expected, weights = by_the_local_backend(
        configs[name], rollouts, model=drifted, reference=real_input.folder / "model"
    )
    first, second = (rank[name] for rank in done)
    assert first["figures"] == second["figures"]
    figures = first["figures"]
    for figure in ("loss", "kl", "ratio_mean", "clip_frac", "grad_norm", "lr"):
        assert figures[figure] == pytest.approx(getattr(expected, figure), rel=1e-4), (
            figure
        )
    assert figures["updates"] == min(CASES[name]["updates"], 3)
    before = load_policy(drifted).model.state_dict()
    for key, weight in weights.items():
        moved = (weight - before[key]).double()
        theirs = (first["weights"][key] - before[key]).double()
        assert (moved - theirs).norm() <= 1e-3 * moved.norm(), key


@pytest.mark.parametrize("name", ["two updates of two passes", "weights are split too"])
def test_every_rank_comes_back_when_all_have_saved(
    name: str, configs: dict[str, TrainConfig], done: list[dict[str, Any]]
) -> None:
    seen = [rank[name]["state"] for rank in done]
    for part in range(RANKS):
        assert any(f"pp_rank_{part}_" in file for file in seen[0]), "files of each rank"
    assert seen[0] == seen[1]

    states = DeepSpeedStates(configs[name].out)
    assert not (states.path(1).parent / "latest").exists(), (
        "DeepSpeed names none by itself"
    )
    assert states.check() == 0, "nothing counts without a mark"
    states.mark(1, seen, keep=1)
    assert states.check() == 1


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_say_what_each_response_was_trained_on(
    name: str,
    done: list[dict[str, Any]],
    rollouts: Rollouts,
    as_groups: Callable[[Rollouts], list[Group]],
) -> None:
    reports = [
        [
            TrainedSample(bytes.fromhex(digest), *rest)
            for digest, *rest in rank[name]["trained"]
        ]
        for rank in done
    ]
    shares = Shares(updates=CASES[name]["updates"], ranks=RANKS)
    trained = in_row_order(reports, shares=shares, step=1)
    credit: Any = SimpleNamespace(advantages_PG=ADVANTAGES_PG, valid_PG=VALID_PG)
    check_trained(trained, as_groups(rollouts), credit, step=1)
    got_PG = np.array([one.advantage for one in trained]).reshape(ADVANTAGES_PG.shape)
    np.testing.assert_allclose(got_PG, ADVANTAGES_PG, rtol=0, atol=1e-6)
    assert [one.tokens > 0 for one in trained] == VALID_PG.reshape(-1).tolist()
