"""Real runs over two nodes that have addresses, names, processes and disks of their own.

The nodes are namespaces of this machine; they share Python, this repository and the run's files.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rubric_core import group_advantages
from rubric_train_openrlhf.config.train import dump_config
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import RolloutRow

if TYPE_CHECKING:
    from conftest import RealInput

HERE = Path(__file__).parent
NAMESPACES = (
    "--user",
    "--map-root-user",
    "--net",
    "--uts",
    "--mount",
    "--pid",
    "--fork",
)
TOOLS = ("setpriv", "unshare", "ip", "mount", "hostname", "pgrep")


def missing() -> str | None:
    """Why there can be no such nodes here."""
    if lacking := [name for name in TOOLS if shutil.which(name) is None]:
        return f"not on this machine: {', '.join(lacking)}"
    words = [
        "unshare",
        *NAMESPACES,
        "--mount-proc",
        "ip",
        "link",
        "add",
        "type",
        "veth",
    ]
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else None


WHY_NOT = missing()
pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no namespaces: {WHY_NOT}"),
]

STEPS, GROUPS, GROUP = 2, 4, 4
ENGINES = ("RubricRolloutActor", "RolloutRayActor")
POLICIES = ("RubricPolicyActor", "PolicyModelActor")
"""A title names the class that the method last called is of."""
ADDRESS = "10.77.0.1:6379"
PLACE = {"nodes": 2, "ray": {"address": ADDRESS}}
LAYOUTS: dict[str, dict[str, Any]] = {
    "apart": {"cluster": {**PLACE, "colocation": "models"}},
    # No reference: two processes less at the start.
    "together": {
        "cluster": {**PLACE, "colocation": "all"},
        "objective": {"kl_coef": 0.0},
    },
}


@dataclass(frozen=True)
class Ran:
    """A run over two nodes."""

    folder: RunFolder
    places: dict[str, list[str]]
    """Nodes of the actors, by the beginning of their titles."""

    def nodes_of(self, *classes: str) -> list[str]:
        return sorted(node for name in classes for node in self.places.get(name, ()))

    def rollouts(self, step: int) -> list[RolloutRow]:
        lines = (
            (self.folder.rollouts / f"step_{step:06d}.jsonl").read_text().splitlines()
        )
        return [RolloutRow.model_validate_json(line) for line in lines]


@pytest.fixture(scope="module")
def runs(
    real_input: RealInput, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Ran]:
    """The engine on one node and the policy on the other; then both on both."""
    folder = tmp_path_factory.mktemp("nodes")
    configs = {
        name: real_input.config(
            folder / name / "run",
            steps=STEPS,
            **layout,
            optim={"micro_batch": 2},
            rollout={"prompts": GROUPS, "group_size": GROUP},
        )
        for name, layout in LAYOUTS.items()
    }
    for name, config in configs.items():
        (folder / name).with_suffix(".yaml").write_text(dump_config(config))
    shared = [HERE, folder, real_input.folder]
    shared += map(Path, (sys.prefix, sys.base_prefix, *sys.path))
    paths = ":".join(sorted({str(path) for path in shared if path.is_dir()}))
    search = os.pathsep.join(path for path in sys.path if path)
    # However this process ends, all of the nodes' do.
    words = ["env", f"PYTHONPATH={search}", "setpriv", "--pdeathsig", "KILL"]
    words += ["unshare", *NAMESPACES, "--mount-proc", "--kill-child"]
    words += [str(HERE / "two_nodes.sh"), sys.executable, paths]
    words += [sys.executable, str(HERE / "run_on_two_nodes.py"), ADDRESS]
    words += [
        str(folder / "places.json"),
        *(str(folder / f"{name}.yaml") for name in configs),
    ]
    with (folder / "log").open("wb") as log:
        done = subprocess.run(words, stdout=log, stderr=log, check=False)
    assert done.returncode == 0, (folder / "log").read_text()[-8000:]
    places = json.loads((folder / "places.json").read_text())
    return {
        name: Ran(RunFolder(config.out), places[str(folder / f"{name}.yaml")])
        for name, config in configs.items()
    }


def test_engine_and_policy_are_on_two_nodes(runs: dict[str, Ran]) -> None:
    [engine], [policy] = (
        runs["apart"].nodes_of(*ENGINES),
        runs["apart"].nodes_of(*POLICIES),
    )
    assert engine != policy


def test_both_nodes_train_and_sample(runs: dict[str, Ran]) -> None:
    assert runs["together"].nodes_of(*ENGINES) == ["first", "second"]
    assert runs["together"].nodes_of(*POLICIES) == ["first", "second"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_judge_coordinator_stays_beside_the_task_files(
    runs: dict[str, Ran], name: str
) -> None:
    assert runs[name].nodes_of("JudgeCoordinator") == ["first"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_runs_end_and_weights_cross(runs: dict[str, Ran], name: str) -> None:
    folder = runs[name].folder
    assert folder.read_summary().status == "finished"
    rows = folder.read_metrics()
    assert [row.step for row in rows] == list(range(1, STEPS + 1))
    assert (rows[-1].kl > 0) is ("objective" not in LAYOUTS[name])
    first, *_, last = sorted(folder.checkpoints.glob("step_*/model.safetensors"))
    assert first.read_bytes() != last.read_bytes()
    for row in rows:
        assert row.cluster is not None
        assert row.cluster.sampler_gap < 1e-5


@pytest.mark.parametrize("name", LAYOUTS)
def test_advantages_are_those_of_the_formula(runs: dict[str, Ran], name: str) -> None:
    for step in range(1, STEPS + 1):
        rows = runs[name].rollouts(step)
        rewards_PG = np.array([row.reward for row in rows], dtype=float).reshape(
            GROUPS, GROUP
        )
        got_PG = np.array([row.advantage for row in rows]).reshape(GROUPS, GROUP)
        np.testing.assert_allclose(got_PG, group_advantages(rewards_PG), atol=1e-6)
        assert rewards_PG.std() > 0
