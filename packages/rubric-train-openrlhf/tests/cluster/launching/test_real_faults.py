"""A real run in which the judge fails, and an engine and a judge are killed: it goes on, no reward
is wrong, and no process of the policy's side has read a word of a passage or a criterion.
"""

# The search for planted words has no module that could be imported.
from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

from rubric_core import Outcome, group_advantages, write_tasks
from rubric_judge.testing import FakeEndpoint, Fault, numbered_share
from rubric_train_openrlhf.cluster.launching.launch import launch
from rubric_train_openrlhf.cluster.orphans import PLACE, RAY
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import JudgementRow, RolloutRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from conftest import RealInput
    from rubric_core import Task
    from rubric_train_openrlhf.run.records import MetricsRow

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.slow,
    pytest.mark.timeout(3000),
]
STEPS = 4
FAULTS = (
    *(None, Fault.SERVER_ERROR, Fault.PROSE, None, None, None),
    *(None, Fault.RATE_LIMIT, Fault.PROSE, None, None, None),
)
"""Of the judge's calls in turn, again and again: a third fail. Calls 5 to 8 come after one line to
see that the judge is there and four held-out answers: they are of step 1, which has four questions,
and however often an answer is repeated, one fails and one gets an answer out of contract."""
ENGINES = ("ray::RubricRolloutActor", "ray::RolloutRayActor")
"""Beginnings of the titles of engines' processes, which change while they start."""
TRAINERS = ("ray::RubricPPOTrainer", "ray::PPOTrainer")
POLICYS = {
    "engine": ENGINES,
    "engine's own process": ("VLLM::EngineCore",),
    "trainer": TRAINERS,
    "policy": ("ray::RubricPolicyActor", "ray::PolicyModelActor"),
}
"""All that hold what the policy is trained on. The driver is not among them: before anything else
is started it reads the task files, to check them and to write the policy's prompts, so that it is
on the judge's side, as the coordinator and the judge's actors are."""
LONG = 250_000
"""Characters of some passages: more than Ray sends without its object store, and more than the
judge reads of one."""


@dataclass(frozen=True)
class Faulty:
    """What is left of the run."""

    folder: RunFolder
    killed: Counter[str]
    awarded: Counter[float]
    """Rewards that the endpoint gave in valid answers."""
    leaks: list[Any]
    """Planted words outside of the judge's side, while all of its processes ran."""
    searched: Counter[str]
    """Processes of the policy's side whose memory was searched, by kind."""

    def rows(self, step: int) -> tuple[list[RolloutRow], list[JudgementRow]]:
        name = f"step_{step:06d}.jsonl"
        rollouts = (self.folder.rollouts / name).read_text().splitlines()
        judgements = (self.folder.judgements / name).read_text().splitlines()
        return (
            [RolloutRow.model_validate_json(line) for line in rollouts],
            [JudgementRow.model_validate_json(line) for line in judgements],
        )


def processes(*names: str) -> list[psutil.Process]:
    """Descendants of this process by the beginning of their title, as Ray's workers set it."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        try:
            title = " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
        if title.startswith(names):
            found.append(process)
    return found


def planted(canaries: Any, tasks: Sequence[Task], folder: Path) -> dict[str, Path]:
    """Task files with planted words; the policy's warm start knew none of them."""
    tasks = [
        canaries.plant(task, passage_chars=LONG * (number % 2))
        for number, task in enumerate(tasks)
    ]
    files = {name: folder / f"{name}.jsonl" for name in ("train", "validation")}
    write_tasks(files["train"], tasks[:12])
    write_tasks(files["validation"], tasks[12:])
    return files


def leaks_of(canaries: Any, out: Path, *, searched: Counter[str]) -> list[Any]:
    """Look where the policy's side could read: files, arguments, Ray's objects, its own memory."""
    [ray] = [
        owner.parent
        for owner in PLACE.glob(f"{RAY}*/owner")
        if owner.read_text() == str(ClusterPaths(out).logs / "ray")
    ]
    leaks = canaries.in_reach(out, ray)
    for kind, titles in POLICYS.items():
        for process in processes(*titles):
            leaks += canaries.in_memory(process.pid)
            searched[kind] += 1
    return leaks


def each_step(
    folder: RunFolder, tell: Callable[[MetricsRow], None], done: Event
) -> None:
    """Tell every row of metrics once, as soon as it stands there."""
    told = 0
    while not done.wait(0.1):
        with contextlib.suppress(ResumeError):  # a row is being written
            for row in folder.read_metrics()[told:]:
                tell(row)
                told += 1


@pytest.fixture(scope="module")
def faulty(
    real_input: RealInput, canaries: Any, tmp_path_factory: pytest.TempPathFactory
) -> Faulty:
    killed: Counter[str] = Counter()
    searched: Counter[str] = Counter()
    leaks: list[Any] = []
    folder = tmp_path_factory.mktemp("faulty")

    def kill(row: MetricsRow) -> None:
        if row.step == 1:
            # Looking takes longer than the rest of the run.
            for trainer in processes(*TRAINERS):
                trainer.suspend()
            leaks.extend(leaks_of(canaries, folder / "run", searched=searched))
            processes(*ENGINES)[0].kill()
            killed["engine"] += 1
            for trainer in processes(*TRAINERS):
                trainer.resume()
        if row.step == 2:
            processes("ray::JudgeActor")[0].kill()
            killed["judge"] += 1

    # Before the judge's own processes, the driver asks whether the judge is there.
    faults = itertools.chain([None], itertools.cycle(FAULTS))
    with FakeEndpoint(
        numbered_share, faults=faults, latency=0.05, keep="records"
    ) as endpoint:
        spec = {
            "type": "llm",
            "model": "openai/fake",
            "api_base": endpoint.url,
            "transport": "direct",
            "max_transport_attempts": 1,
        }
        config = real_input.config(
            folder / "run",
            steps=STEPS,
            data=planted(canaries, real_input.tasks, folder),
            judge={
                "spec": spec,
                "workers": 2,
                "micro_batch": 2,
                # A policy as small as this one often says the same: judged once, it counts for all.
                "max_invalid_frac": 1.0,
                "max_unavailable_frac": 0.99,
            },
            objective={"kl_coef": 0.0},
            cluster={
                "device": "cpu",
                "gpus_per_node": 4,  # two ranks beside the engines
                "colocation": "models",
                "max_len": 96,
                "engines": {"count": 2, "enforce_eager": True},
                "deepspeed": {"forward_micro_batch": 4},
            },
        )
        with ThreadPoolExecutor() as pool:
            done = Event()
            killing = pool.submit(each_step, RunFolder(config.out), kill, done)
            try:
                launch(config)
            finally:
                done.set()
            killing.result()
        awarded = Counter(
            round(record.awarded["named"] / 2, 9)
            for record in endpoint.records
            if record.awarded
        )
    return Faulty(RunFolder(config.out), killed, awarded, leaks, searched)


def test_the_run_goes_on_to_its_last_step(faulty: Faulty) -> None:
    assert faulty.killed == {"engine": 1, "judge": 1}
    assert faulty.folder.read_summary().status == "finished"
    assert [row.step for row in faulty.folder.read_metrics()] == list(
        range(1, STEPS + 1)
    )


def test_the_rates_are_in_the_metrics(faulty: Faulty) -> None:
    rows = faulty.folder.read_metrics()
    seen: Counter[Outcome] = Counter()
    for row in rows:
        _, judgements = faulty.rows(row.step)
        outcomes = Counter(judgement.result.outcome for judgement in judgements)
        assert row.unavailable_frac == outcomes[Outcome.UNAVAILABLE] / len(judgements)
        assert row.invalid_frac == outcomes[Outcome.INVALID] / len(judgements)
        seen += outcomes
    assert set(seen) == set(Outcome)
    assert sum(row.cluster.engine_restarts for row in rows if row.cluster) == 1
    assert sum(row.cluster.judge_restarts for row in rows if row.cluster) == 1


def test_every_reward_is_one_that_the_judge_gave(faulty: Faulty) -> None:
    given = Counter(faulty.awarded)
    # What was answered twice in the same words was judged once, and stands in the ledger.
    judged: dict[tuple[str, str], float] = {}
    for step in range(1, STEPS + 1):
        rollouts, judgements = faulty.rows(step)
        by_id = {row.id: row for row in judgements}
        for rollout in rollouts:
            result = by_id[rollout.id].result
            if result.outcome is Outcome.UNAVAILABLE:
                assert rollout.reward is None
                assert rollout.advantage == 0.0
                continue
            if result.outcome is Outcome.INVALID:
                assert rollout.reward == 0.0
                continue
            share = round(rollout.reward, 9)
            answer = (rollout.task_id, rollout.response)
            if answer not in judged:
                judged[answer] = share
                given[share] -= 1
                assert given[share] >= 0
            assert share == judged[answer]


def test_no_word_of_a_passage_or_a_criterion_is_where_the_policy_could_read_it(
    faulty: Faulty, canaries: Any
) -> None:
    assert faulty.leaks == []
    assert faulty.searched == {
        "engine": 2,
        "engine's own process": 2,
        "trainer": 1,
        "policy": 2,
    }
    for place in ("files", "cmdline", "environ", "object store", "memory"):
        assert canaries.looked_at[place] > 0


def test_advantages_leave_the_unavailable_out(faulty: Faulty) -> None:
    for step in range(1, STEPS + 1):
        rollouts, _ = faulty.rows(step)
        rewards_PG = np.array([row.reward for row in rollouts], dtype=float).reshape(
            4, 4
        )
        expected = group_advantages(
            np.nan_to_num(rewards_PG), valid_PG=~np.isnan(rewards_PG)
        )
        got = np.array([row.advantage for row in rollouts]).reshape(4, 4)
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_a_restarted_engine_gets_the_policys_weights(faulty: Faulty) -> None:
    """The engine came back with the weights of the start; the gap would show them."""
    for row in faulty.folder.read_metrics():
        assert row.cluster is not None
        assert row.cluster.sampler_gap < 1e-5
