"""One real run: OpenRLHF's trainer, DeepSpeed and vLLM on a CPU, killed and gone on with.

Starting the stack takes minutes, so all that a run shows is asked of this one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rubric_core import group_advantages
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates
from rubric_train_openrlhf.config.train import dump_config
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.randomness import PromptOrder
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import JudgementRow, RolloutRow, RunSummary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import RealInput
    from rubric_train_openrlhf.config.train import TrainConfig

pytestmark = [pytest.mark.openrlhf, pytest.mark.slow, pytest.mark.timeout(3000)]

STEPS, PROMPTS, GROUP = 4, 4, 4
LIMIT_S = 1400.0


@dataclass(frozen=True)
class Finished:
    """A run that was killed once, and what its third step had left by then."""

    config: TrainConfig
    folder: RunFolder
    before: Path
    """Copy of the rollouts of step 3, which was done again."""


def rows(path: Path, kind: type[Any]) -> list[Any]:
    return [kind.model_validate_json(line) for line in path.read_text().splitlines()]


def plant_half_state(folder: RunFolder) -> None:
    """Leave what a kill leaves while the next state is written, and name it the latest."""
    trainer = folder.checkpoints / "trainer"
    assert DeepSpeedStates(trainer).check() == 2, "the run was killed too late"
    states = trainer / "_actor"
    half = states / "step_000004"
    half.mkdir(exist_ok=True)
    for file in (states / "step_000002").glob("*model_states.pt"):
        (half / file.name).write_bytes(file.read_bytes()[:1000])
    (states / "latest").write_text(half.name)


def steps_of(folder: RunFolder) -> int:
    return folder.metrics.read_text().count("\n") if folder.metrics.exists() else 0


def start(config: TrainConfig, *words: str) -> subprocess.Popen[bytes]:
    path = config.out.with_suffix(".yaml")
    path.write_text(dump_config(config))
    command = [sys.executable, "-m", "rubric_train_openrlhf.cli", "run", str(path), *words]
    log = config.out.with_suffix(".log").open("ab")
    with log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """End a run as a power cut would: its command, its driver and all of its cluster at once."""
    import psutil  # Ray brings it

    family = psutil.Process(process.pid).children(recursive=True)
    for one in (process.pid, *(child.pid for child in family)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    process.wait()
    psutil.wait_procs(family, timeout=60)


@pytest.fixture(scope="module")
def finished(real_input: RealInput, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    place = tmp_path_factory.mktemp("openrlhf")
    config = real_input.config(place / "run", checkpoint={"keep": 1}, steps=STEPS)
    folder = RunFolder(config.out)
    process = start(config)
    deadline = time.monotonic() + LIMIT_S
    while steps_of(folder) < 3:
        assert process.poll() is None, config.out.with_suffix(".log").read_text()
        assert time.monotonic() < deadline, "the run does not come to its third step"
        time.sleep(0.05)
    before = place / "step_3_before.jsonl"
    shutil.copy(folder.rollouts / "step_000003.jsonl", before)
    kill_all(process)
    plant_half_state(folder)
    again = start(config, "--resume")
    assert again.wait(timeout=LIMIT_S) == 0, config.out.with_suffix(".log").read_text()
    return Finished(config, folder, before)


def steps(run: Finished) -> Iterator[tuple[int, list[RolloutRow], list[JudgementRow]]]:
    for step in range(1, STEPS + 1):
        name = f"step_{step:06d}.jsonl"
        yield (
            step,
            rows(run.folder.rollouts / name, RolloutRow),
            rows(run.folder.judgements / name, JudgementRow),
        )


def test_every_step_has_its_rows_and_they_join(finished: Finished) -> None:
    assert [row.step for row in finished.folder.read_metrics()] == [1, 2, 3, 4]
    for step, rollouts, judgements in steps(finished):
        assert len(rollouts) == PROMPTS * GROUP
        assert [row.id for row in rollouts] == [row.id for row in judgements]
        assert [row.task_id for row in rollouts] == [row.task_id for row in judgements]
        assert {row.step for row in rollouts} == {step}


def test_prompts_come_in_the_order_of_the_seed_across_the_kill(finished: Finished) -> None:
    paths = ClusterPaths(finished.config.out)
    tasks = [json.loads(line)["label"] for line in paths.train_prompts.read_text().splitlines()]
    expected = [tasks[n] for n in PromptOrder(len(tasks), seed=0).take(STEPS * PROMPTS, start=0)]
    asked = [row.task_id for _, rollouts, _ in steps(finished) for row in rollouts[::GROUP]]
    assert asked == expected


def test_advantages_are_those_of_the_judge_s_rewards(finished: Finished) -> None:
    for _, rollouts, judgements in steps(finished):
        rewards_PG = np.array([row.reward for row in rollouts]).reshape(PROMPTS, GROUP)
        expected_B = group_advantages(rewards_PG).reshape(-1)
        assert np.abs(expected_B - [row.advantage for row in rollouts]).max() <= 1e-6
        for rollout, judgement in zip(rollouts, judgements, strict=True):
            scored = sum(judgement.z[name] * judgement.shares[name] for name in judgement.z)
            assert rollout.reward == pytest.approx(scored)
            assert sum(judgement.attribution.values()) == pytest.approx(rollout.advantage, abs=1e-6)


def test_the_policy_is_trained_and_the_engines_get_its_weights(finished: Finished) -> None:
    metrics = finished.folder.read_metrics()
    assert any(row.advantage_abs_mean > 0 for row in metrics)
    assert metrics[0].kl < metrics[-1].kl
    for row in metrics:
        assert row.cluster is not None
        assert row.cluster.sampler_gap < 1e-5  # float32 on both sides
        assert row.cluster.updates == 2
        assert math.isfinite(row.loss)
        assert row.grad_norm > 0 or row.degenerate_group_frac == 1
        assert row.entropy is None
        assert row.generate_s > 0
        assert row.step_s > row.generate_s + row.update_s
    assert metrics[0].lr == pytest.approx(1e-4)  # a tenth: the warm-up counts GRPO steps
    assert metrics[0].lr < metrics[-1].lr


def test_the_step_that_was_done_twice_came_out_the_same(finished: Finished) -> None:
    before = rows(finished.before, RolloutRow)
    after = rows(finished.folder.rollouts / "step_000003.jsonl", RolloutRow)
    assert [row.task_id for row in before] == [row.task_id for row in after]
    assert [row.response for row in before] == [row.response for row in after]


def test_it_goes_on_from_the_last_whole_state_and_keeps_one(finished: Finished) -> None:
    trainer = finished.folder.checkpoints / "trainer"
    assert {path.name for path in (trainer / "_actor").glob("*step_*")} == {"step_000004"}
    assert (trainer / "_actor" / "latest").read_text() == "step_000004"
    assert DeepSpeedStates(trainer).check() == 4


def test_held_out_questions_are_asked_at_the_start_every_so_often_and_at_the_end(
    finished: Finished,
) -> None:
    heldout = finished.folder.read_heldout()
    assert [row.step for row in heldout] == [0, 2, 4]
    assert {row.n for row in heldout} == {4}
    best = -math.inf
    for row in heldout:
        assert row.best == (row.reward_mean > best)
        best = max(best, row.reward_mean)


def test_the_best_checkpoint_is_that_of_the_best_pass_and_can_be_loaded(finished: Finished) -> None:
    checkpoints = finished.folder.checkpoints
    best = [row for row in finished.folder.read_heldout() if row.best][-1]
    assert (checkpoints / "best").resolve().name == f"step_{best.step:06d}"
    kept = {path.name for path in checkpoints.glob("step_*")}
    assert kept == {"step_000000", "step_000004", f"step_{best.step:06d}"}
    first = load_policy(checkpoints / "step_000000").model.state_dict()
    last = load_policy(checkpoints / "step_000004").model.state_dict()
    assert any(not torch.equal(first[name], last[name]) for name in first)


def test_the_summary_says_that_the_run_ended_well(finished: Finished) -> None:
    summary = RunSummary.model_validate_json(finished.folder.summary.read_text())
    assert (summary.status, summary.steps, summary.error) == ("finished", STEPS, None)
    assert (finished.config.out / "report.html").exists()


def test_openrlhf_s_tensorboard_and_ours_hold_rewards_and_attribution(finished: Finished) -> None:
    tags: set[str] = set()
    for file in finished.folder.tensorboard.rglob("events.out.tfevents.*"):
        tags |= set(EventAccumulator(str(file)).Reload().Tags()["scalars"])
    assert {"train/rubric/reward_mean", "train/attribution/named"} <= tags, "OpenRLHF's"
    assert {"train/reward_mean", "train/cluster/attribution/named"} <= tags, "ours"


def test_no_word_of_passage_or_rubric_is_on_the_policy_s_side(
    finished: Finished,
    real_input: RealInput,
    canaries: Any,
) -> None:
    planted = {found.word for found in canaries.in_files(real_input.folder)}
    assert all(any(kind in word for word in planted) for kind in ("passage", "criterion"))
    paths = ClusterPaths(finished.config.out)
    for place in (paths.folder, finished.folder.rollouts, paths.logs):
        assert canaries.in_files(place) == []
