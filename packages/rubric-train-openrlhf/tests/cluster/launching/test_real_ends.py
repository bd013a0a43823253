"""Real runs that are killed, stopped and handed in: everything of them ends, and they go on.

Each start of the stack takes the better part of a minute, so that every one serves several tests:
all that a run shows is asked of the one that goes on to its last step.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import psutil
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rubric_core import Answer, Task, group_advantages
from rubric_judge import LexicalJudge
from rubric_judge.testing import numbered_share
from rubric_train_openrlhf.cluster.orphans import PLACE, RAY
from rubric_train_openrlhf.cluster.settings import RUN_FILE, ClusterPaths
from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates
from rubric_train_openrlhf.config.train import dump_config
from rubric_train_openrlhf.local.auditing import Audits
from rubric_train_openrlhf.local.rollout import JudgedGroup, background_judge
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.policy.completion import Completion
from rubric_train_openrlhf.randomness import PromptOrder
from rubric_train_openrlhf.run.checkpoints import latest_checkpoint, step_of
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import JudgementRow, RolloutRow
from rubric_train_openrlhf.run.writing import numbers
from rubric_train_openrlhf.step.audit import Auditor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from conftest import RealInput
    from rubric_train_openrlhf.config.train import TrainConfig

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

LIMIT_S = 600.0
ENDED_S = 30.0
"""For Ray to end the workers of a run that has left a cluster."""
MANY_STEPS = 100_000
AUDIT: dict[str, Any] = {
    "spec": {"type": "lexical"},
    "start": 16,
    "training_frac": 0.5,
    "on_divergence": "rollback",
    "alpha": 1e-9,
}
"""Of half of the responses, by a judge that disagrees with the other; no alarm."""


@dataclass
class Command:
    """`rubric-train run` as a process of its own, and what it prints."""

    config: TrainConfig
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def run(cls, config: TrainConfig, *words: str) -> Command:
        file, log = (
            config.out.with_suffix(".yaml"),
            config.out.with_suffix(f".{time.time_ns()}"),
        )
        file.write_text(dump_config(config))
        command = [
            sys.executable,
            "-m",
            "rubric_train_openrlhf.cli",
            "run",
            str(file),
            *words,
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            )
        return cls(config, process, log)

    @property
    def said(self) -> str:
        return self.log.read_text()

    @property
    def steps(self) -> int:
        metrics = RunFolder(self.config.out).metrics
        return metrics.read_text().count("\n") if metrics.exists() else 0

    def driver(self) -> psutil.Process:
        [driver] = [
            child
            for child in psutil.Process(self.process.pid).children()
            if "rubric_train_openrlhf.cluster.launching.driver" in child.cmdline()
        ]
        return driver

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not is_so():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)

    def status(self) -> int:
        return self.process.wait(timeout=LIMIT_S)


def processes_of_run(out: Path) -> list[psutil.Process]:
    """All processes of a run, wherever they hang: each was started with the name of its file."""
    mark = f"{RUN_FILE}={ClusterPaths(out).run}".encode()
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if mark in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                found.append(process)
    return found


def titles(found: list[psutil.Process]) -> str:
    lines: list[str] = []
    for process in found:
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline())[:100])
    return "\n".join(lines)


def left_of(out: Path) -> list[psutil.Process]:
    """Processes of a run that do not end by themselves."""
    deadline = time.monotonic() + ENDED_S
    while (left := processes_of_run(out)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def folders_of_ray(out: Path) -> list[Path]:
    return [
        owner.parent
        for owner in PLACE.glob(f"{RAY}*/owner")
        if owner.read_text() == str(ClusterPaths(out).logs / "ray")
    ]


@dataclass
class End:
    """What was there when a run was ended, and what after."""

    status: int
    said: str
    before: str
    left: str
    folders: list[Path] = field(default_factory=list)
    """Temporary ones, as they were named while it ran."""
    steps: int = 0


# --- a cluster of the run's own ---------------------------------------------------------------


@pytest.fixture(scope="module")
def judge(
    open_judge: Callable[..., AbstractContextManager[dict[str, Any]]],
) -> Iterator[dict[str, Any]]:
    """Actors of Ray's that are busy when a run is ended."""
    with open_judge(numbered_share, latency=0.2) as section:
        yield section


@pytest.fixture(scope="module")
def config(
    real_input: RealInput,
    judge: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> TrainConfig:
    """Steps without end."""
    return real_input.config(
        tmp_path_factory.mktemp("ends") / "run",
        steps=MANY_STEPS,
        judge=judge,
        objective={"kl_coef": 0.0},  # no reference: one process less at every start
        checkpoint={"every": 1},
        validation={"every": MANY_STEPS},
        audit=AUDIT,
    )


@dataclass
class KilledDriver(End):
    second: str = ""
    """What a second command in the same folder says while the first runs."""
    second_status: int = 0
    whole: int = 0
    """Step of the last state that was written whole."""
    begun: int = 0
    """Step of the last state of which something was written."""


def last_marked(out: Path) -> int:
    return DeepSpeedStates(ClusterPaths(out).trainer_state).check()


def last_begun(out: Path) -> int:
    state = latest_checkpoint(ClusterPaths(out).trainer_state / "_actor")
    return step_of(state) if state else 0


def kill_inside_a_save(command: Command, driver: psutil.Process) -> None:
    """Kill the processes that write and mark a state while some of it is there and no mark."""
    out = command.config.out
    writers: list[psutil.Process] = []
    while len(writers) < 2:  # a title is that of the call which goes on
        assert command.process.poll() is None, command.said
        everyone = [(one, titles([one])) for one in processes_of_run(out)]
        writers = [
            one
            for one, title in everyone
            if "PolicyActor" in title or "PPOTrainer" in title
        ]
    deadline = time.monotonic() + LIMIT_S
    # Without a pause: a state of the small model is written in some hundredths of a second.
    while True:
        begun = last_begun(out)
        while last_begun(out) == begun:
            assert command.process.poll() is None, command.said
            assert time.monotonic() < deadline, command.said
        for one in (*writers, driver):
            one.suspend()
        if last_marked(out) < last_begun(out):
            break
        for one in (*writers, driver):
            one.resume()
    for one in (*writers, driver):
        one.kill()


@pytest.fixture(scope="module")
def killed_driver(config: TrainConfig) -> KilledDriver:
    """Killed together with the processes that were writing a checkpoint."""
    command = Command.run(config)
    command.wait_until(lambda: command.steps >= 1)
    second = Command.run(config, "--resume")
    second_status = second.status()
    driver = command.driver()
    folders = [*folders_of_ray(config.out), Path(driver.cmdline()[3]).parent]
    assert all(folder.exists() for folder in folders)
    before = titles(processes_of_run(config.out))
    kill_inside_a_save(command, driver)
    return KilledDriver(
        status=command.status(),
        said=command.said,
        before=before,
        left=titles(processes_of_run(config.out)),
        folders=folders,
        steps=command.steps,
        whole=last_marked(config.out),
        begun=last_begun(config.out),
        second=second.said,
        second_status=second_status,
    )


def test_nothing_outlives_a_driver_that_is_killed(killed_driver: KilledDriver) -> None:
    for kind in (
        "raylet",
        "gcs_server",
        "ray::JudgeActor",
        "ray::JudgeCoordinator",
        "EngineCore",
    ):
        assert kind in killed_driver.before
    assert killed_driver.left == ""
    assert len(killed_driver.folders) == 2
    assert not any(folder.exists() for folder in killed_driver.folders)


def test_the_command_says_that_its_driver_was_killed(
    killed_driver: KilledDriver,
) -> None:
    assert killed_driver.status == 1
    assert "rubric-train: the driver of the run ended by signal 9" in killed_driver.said
    assert "Traceback" not in killed_driver.said


def test_a_second_run_in_the_folder_of_one_that_runs_is_refused(
    killed_driver: KilledDriver,
) -> None:
    assert killed_driver.second_status == 2
    assert "is in use by another process, pid" in killed_driver.second
    assert "Traceback" not in killed_driver.second


def test_the_kill_fell_inside_the_writing_of_a_checkpoint(
    killed_driver: KilledDriver,
) -> None:
    assert killed_driver.whole >= 1
    assert killed_driver.begun == killed_driver.whole + 1


@pytest.fixture(scope="module")
def interrupted(config: TrainConfig, killed_driver: KilledDriver) -> End:
    command = Command.run(config, "--resume")
    command.wait_until(lambda: command.steps > killed_driver.steps)
    folders = [*folders_of_ray(config.out), Path(command.driver().cmdline()[3]).parent]
    before = titles(processes_of_run(config.out))
    command.process.send_signal(signal.SIGINT)
    return End(
        status=command.status(),
        said=command.said,
        before=before,
        left=titles(processes_of_run(config.out)),
        folders=folders,
        steps=command.steps,
    )


def test_ctrl_c_ends_the_cluster_and_says_how_to_go_on(interrupted: End) -> None:
    assert interrupted.status == 130
    assert "go on with: rubric-train run" in interrupted.said
    assert "Traceback" not in interrupted.said
    assert "raylet" in interrupted.before
    assert interrupted.left == ""
    assert len(interrupted.folders) == 2
    assert not any(folder.exists() for folder in interrupted.folders)


def test_every_step_stands_once_in_the_rows_of_a_run_that_went_on(
    config: TrainConfig, interrupted: End
) -> None:
    rows = RunFolder(config.out).read_metrics()
    assert [row.step for row in rows] == list(range(1, interrupted.steps + 1))


def test_audits_are_the_numbers_of_the_local_backend(
    config: TrainConfig, interrupted: End, real_input: RealInput, tmp_path: Path
) -> None:
    """The same responses and judgements, audited in this process, of a run that was killed."""
    run = RunFolder(config.out)
    there = [row for row in run.read_audit() if row.step <= interrupted.steps]
    assert [(row.source, row.step) for row in there] == [
        ("heldout", 0),
        *(("training", step) for step in range(1, interrupted.steps + 1)),
    ]
    assert any(row.gap for row in there[1:])
    tasks = {task.task_id: task for task in real_input.tasks}
    local = config.model_copy(update={"out": tmp_path})
    folder = RunFolder(tmp_path)
    folder.write_audit(there[0])  # whose responses are in no file
    assert local.audit is not None
    with background_judge(LexicalJudge(), config=local.audit) as background:
        audits = Audits(Auditor(local, folder), background)
        for row in there[1:]:
            name = f"step_{row.step:06d}.jsonl"
            groups = groups_of(
                rows(run.rollouts / name, RolloutRow),
                rows(run.judgements / name, JudgementRow),
                tasks,
            )
            of_groups = [tasks[group.view.task_id] for group in groups]
            audit = audits.start("training", row.step, groups, of_groups)
            assert audit is not None
            here = audits.finish(audit)
            assert here.gaps == pytest.approx(row.gaps, abs=1e-4)
            assert here.model_dump(exclude={"gaps"}) == pytest.approx(
                row.model_dump(exclude={"gaps"}), abs=1e-4
            )
    for metrics, row in zip(run.read_metrics(), there[1:], strict=True):
        assert metrics.audit == row.figures
        assert metrics.monitor["length"] > 0


def groups_of(
    rollouts: list[RolloutRow], judged: list[JudgementRow], tasks: dict[str, Task]
) -> list[JudgedGroup]:
    return [
        JudgedGroup(
            tasks[rollouts[first].task_id].policy_view(),
            cast("Any", None),
            tuple(
                Completion(row.response, Answer(row.judged))
                for row in rollouts[first : first + GROUP]
            ),
            tuple(row.result for row in judged[first : first + GROUP]),
        )
        for first in range(0, len(rollouts), GROUP)
    ]


def test_logs_of_rays_processes_are_kept(config: TrainConfig, interrupted: End) -> None:
    del interrupted
    assert (ClusterPaths(config.out).logs / "driver.log").stat().st_size
    assert list((ClusterPaths(config.out).logs / "ray").glob("raylet.*"))


# --- a cluster that is there already ------------------------------------------------------------


@dataclass(frozen=True)
class Cluster:
    """What `ray start` started."""

    address: str
    dashboard: str


def free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Sockets below it must have short names.
    place = Path(tempfile.mkdtemp(prefix="ends-", dir=PLACE))
    names = (
        "port",
        "dashboard-port",
        "dashboard-agent-listen-port",
        "ray-client-server-port",
    )
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    words = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block"]
    words += ["--node-ip-address", "127.0.0.1", "--dashboard-host", "127.0.0.1"]
    words += ["--temp-dir", str(place), "--num-gpus", "1", "--num-cpus", "16"]
    words += ["--object-store-memory", str(2**28), "--disable-usage-stats"]
    words += [word for name, port in ports.items() for word in (f"--{name}", str(port))]
    with (place / "log").open("wb") as log:
        # In another directory than the runs: their paths must mean the same there.
        process = subprocess.Popen(
            words, cwd=place, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + LIMIT_S
        while b"Ray runtime started" not in (place / "log").read_bytes():
            assert process.poll() is None, (place / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield Cluster(
            f"127.0.0.1:{ports['port']}", f"http://127.0.0.1:{ports['dashboard-port']}"
        )
    finally:
        family = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=ENDED_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for one in psutil.wait_procs(family, timeout=ENDED_S)[1]:
            one.kill()
        shutil.rmtree(place, ignore_errors=True)


def joined(config: TrainConfig, out: Path, ray: dict[str, Any]) -> TrainConfig:
    cluster = config.cluster.model_copy(
        update={"ray": config.cluster.ray.model_copy(update=ray)}
    )
    return config.model_copy(update={"out": out, "cluster": cluster})


PROMPTS, GROUP = 4, 4
SAVED, PASSED = 4, 2
"""Steps between two states, and between two held-out passes."""


@dataclass(frozen=True)
class Terminated:
    """A run that was stopped behind its first state."""

    config: TrainConfig
    end: End
    fifth: list[RolloutRow]
    """Of its fifth step, which is done again when it goes on."""


@dataclass(frozen=True)
class Finished:
    """The same run, handed in to the cluster and gone on with to its last step."""

    config: TrainConfig
    end: End
    fifth: list[RolloutRow]
    """As they were when the run was stopped."""

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.config.out)

    def steps(self) -> Iterator[tuple[int, list[RolloutRow], list[JudgementRow]]]:
        for step in range(1, self.end.steps + 1):
            name = f"step_{step:06d}.jsonl"
            yield (
                step,
                rows(self.folder.rollouts / name, RolloutRow),
                rows(self.folder.judgements / name, JudgementRow),
            )


def rows(path: Path, kind: type[Any]) -> list[Any]:
    return [kind.model_validate_json(line) for line in path.read_text().splitlines()]


def plant_half_state(out: Path) -> None:
    """Leave what a kill leaves while the next state is written, and name it the latest."""
    assert last_marked(out) == SAVED, "the run was stopped too late"
    states = ClusterPaths(out).trainer_state / "_actor"
    half = states / f"step_{2 * SAVED:06d}"
    half.mkdir(exist_ok=True)
    for file in (states / f"step_{SAVED:06d}").glob("*model_states.pt"):
        (half / file.name).write_bytes(file.read_bytes()[:1000])
    (states / "latest").write_text(half.name)


@pytest.fixture(scope="module")
def terminated(
    real_input: RealInput,
    judge: dict[str, Any],
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Terminated:
    out = tmp_path_factory.mktemp("joined") / "run"
    config = real_input.config(
        out,
        steps=MANY_STEPS,
        judge=judge,
        checkpoint={"every": SAVED, "keep": 1},
        validation={"every": PASSED},
        cluster={"ray": {"address": cluster.address}},
        trackers=[{"type": "wandb", "mode": "offline", "tables_every": 1}],
    )
    command = Command.run(config)
    command.wait_until(lambda: command.steps > SAVED)
    before = titles(processes_of_run(out))
    command.process.send_signal(signal.SIGTERM)
    end = End(
        command.status(),
        command.said,
        before,
        titles(left_of(out)),
        steps=command.steps,
    )
    fifth = rows(RunFolder(out).rollouts / f"step_{SAVED + 1:06d}.jsonl", RolloutRow)
    return Terminated(config, end, fifth)


def test_a_run_that_is_terminated_leaves_nothing_on_a_cluster_that_it_joined(
    terminated: Terminated,
) -> None:
    end = terminated.end
    assert end.status == 143
    assert "go on with: rubric-train run" in end.said
    assert "Traceback" not in end.said
    assert "ray::JudgeActor" in end.before
    assert "EngineCore" in end.before
    assert end.left == ""


@pytest.fixture(scope="module")
def finished(terminated: Terminated, cluster: Cluster) -> Finished:
    there, out = terminated.config, terminated.config.out
    plant_half_state(out)
    handed_in = joined(there, out, {"address": None, "dashboard": cluster.dashboard})
    steps = terminated.end.steps + 1
    command = Command.run(handed_in, "--resume", "--verbose", f"--steps={steps}")
    status = command.status()
    end = End(status, command.said, "", titles(left_of(out)), steps=command.steps)
    assert (status, end.steps) == (0, steps), end.said
    return Finished(handed_in, end, terminated.fifth)


def test_a_run_that_is_handed_in_is_followed_to_its_end(finished: Finished) -> None:
    steps = finished.end.steps
    assert f" {steps} of {steps} " in finished.end.said
    assert RunFolder(finished.config.out).read_summary().status == "finished"
    assert (finished.config.out / "report.html").exists()
    assert not list(ClusterPaths(finished.config.out).folder.glob("driver.*"))
    assert finished.end.left == ""


def test_every_step_has_its_rows_and_they_join(finished: Finished) -> None:
    last = finished.end.steps
    assert [row.step for row in finished.folder.read_metrics()] == list(
        range(1, last + 1)
    )
    for step, rollouts, judgements in finished.steps():
        assert len(rollouts) == PROMPTS * GROUP
        assert [row.id for row in rollouts] == [row.id for row in judgements]
        assert [row.task_id for row in rollouts] == [row.task_id for row in judgements]
        assert {row.step for row in rollouts} == {step}


def test_prompts_come_in_the_order_of_the_seed_across_the_stop(
    finished: Finished,
) -> None:
    paths, drawn = ClusterPaths(finished.config.out), finished.end.steps * PROMPTS
    tasks = [
        json.loads(line)["label"]
        for line in paths.train_prompts.read_text().splitlines()
    ]
    expected = [tasks[n] for n in PromptOrder(len(tasks), seed=0).take(drawn, start=0)]
    asked = [
        row.task_id for _, rollouts, _ in finished.steps() for row in rollouts[::GROUP]
    ]
    assert asked == expected


def test_advantages_are_those_of_the_judge_s_rewards(finished: Finished) -> None:
    for _, rollouts, judgements in finished.steps():
        rewards_PG = np.array([row.reward for row in rollouts]).reshape(PROMPTS, GROUP)
        expected_B = group_advantages(rewards_PG).reshape(-1)
        assert np.abs(expected_B - [row.advantage for row in rollouts]).max() <= 1e-6
        for rollout, judgement in zip(rollouts, judgements, strict=True):
            scored = sum(
                judgement.z[name] * judgement.shares[name] for name in judgement.z
            )
            assert rollout.reward == pytest.approx(scored)
            assert sum(judgement.attribution.values()) == pytest.approx(
                rollout.advantage, abs=1e-6
            )


def test_the_policy_is_trained_and_the_engines_get_its_weights(
    finished: Finished,
) -> None:
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
    assert metrics[0].lr == pytest.approx(
        1e-4
    )  # a tenth: the warm-up counts GRPO steps
    assert metrics[0].lr < metrics[-1].lr


def test_the_step_that_was_done_twice_came_out_the_same(finished: Finished) -> None:
    before = finished.fifth
    after = rows(finished.folder.rollouts / f"step_{SAVED + 1:06d}.jsonl", RolloutRow)
    assert [row.task_id for row in before] == [row.task_id for row in after]
    assert [row.response for row in before] == [row.response for row in after]


def test_it_goes_on_from_the_last_whole_state_and_keeps_one(finished: Finished) -> None:
    trainer, last = finished.folder.checkpoints / "trainer", finished.end.steps
    assert {path.name for path in (trainer / "_actor").glob("*step_*")} == {
        f"step_{last:06d}"
    }
    assert (trainer / "_actor" / "latest").read_text() == f"step_{last:06d}"
    assert DeepSpeedStates(trainer).check() == last


def test_held_out_questions_are_asked_at_the_start_every_so_often_and_at_the_end(
    finished: Finished,
) -> None:
    heldout, last = finished.folder.read_heldout(), finished.end.steps
    assert [row.step for row in heldout] == sorted({*range(0, last, PASSED), last})
    assert {row.n for row in heldout} == {4}
    best = -math.inf
    for row in heldout:
        assert row.best == (row.reward_mean > best)
        best = max(best, row.reward_mean)


def test_the_best_checkpoint_is_that_of_the_best_pass_and_can_be_loaded(
    finished: Finished,
) -> None:
    checkpoints, last = finished.folder.checkpoints, f"step_{finished.end.steps:06d}"
    best = [row for row in finished.folder.read_heldout() if row.best][-1]
    assert (checkpoints / "best").resolve().name == f"step_{best.step:06d}"
    kept = {path.name for path in checkpoints.glob("step_*")}
    assert kept == {"step_000000", last, f"step_{best.step:06d}"}
    before = load_policy(checkpoints / "step_000000").model.state_dict()
    after = load_policy(checkpoints / last).model.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_the_summary_says_that_the_run_ended_well(finished: Finished) -> None:
    summary = finished.folder.read_summary()
    assert (summary.status, summary.steps) == ("finished", finished.end.steps)
    assert summary.error is None


def test_tensorboard_holds_rewards_and_attribution_once(finished: Finished) -> None:
    folder = finished.folder.tensorboard
    tags: set[str] = set()
    for file in folder.rglob("events.out.tfevents.*"):
        assert file.parent == folder
        tags |= set(EventAccumulator(str(file)).Reload().Tags()["scalars"])
    assert {
        "train/reward_mean",
        "train/cluster/attribution/named",
        "heldout/reward_mean",
    } <= tags


def test_a_tracker_has_the_figures_of_all_steps_once_over_both_starts(
    finished: Finished, read_wandb: Callable[[Path], Any]
) -> None:
    shown = read_wandb(finished.folder.trackers)
    figures = shown.figures()
    rows_by_group = {
        "train": finished.folder.read_metrics(),
        "heldout": finished.folder.read_heldout(),
    }
    for group, rows_of_group in rows_by_group.items():
        tags = {tag for tag in figures if tag.startswith(f"{group}/")}
        # Steps that were done again have the figures of their first time.
        once = {*range(SAVED + 1), finished.end.steps}
        kept = [row for row in rows_of_group if row.step in once]
        steps = [row.step for row in rows_of_group]
        assert [step for step, _ in figures[f"{group}/reward_mean"]] == steps
        dumped = {
            row.step: dict(numbers(group, row.model_dump(exclude={"best"})))
            for row in kept
        }
        # A figure may be of some steps only, such as the zero rewards of a reason.
        own = {tag for figures_of_step in dumped.values() for tag in figures_of_step}
        assert own - {f"{group}/step"} <= tags
        for tag in tags:
            places = [step for step, _ in figures[tag]]
            assert places == sorted(set(places) & set(steps)), tag
            shown_once = {step: value for step, value in figures[tag] if step in once}
            assert shown_once == {
                step: figures_of_step[tag]
                for step, figures_of_step in dumped.items()
                if tag in figures_of_step
            }, tag
    steps = [row.step for row in rows_by_group["train"]]
    for name in ("named", "parameters", "returns"):
        assert [step for step, _ in figures[f"criterion/{name}/spread"]] == steps
        means = figures[f"criterion/{name}/mean"]
        assert means == figures[f"train/criteria/{name}"]
    assert all(tokens > 0 for _, tokens in figures["judge/prompt_tokens"])
    assert len(shown.ids) == 1
    assert shown.exits == [1, 0]  # stopped by SIGTERM, and finished
    assert list(finished.folder.trackers.rglob("answers*.table.json"))


def test_no_word_of_passage_or_rubric_is_on_the_policy_s_side(
    finished: Finished,
    interrupted: End,
    config: TrainConfig,
    real_input: RealInput,
    canaries: Any,
) -> None:
    del interrupted  # whose cluster was its own: its logs are Ray's too
    planted = {found.word for found in canaries.in_files(real_input.folder)}
    assert all(
        any(kind in word for word in planted) for kind in ("passage", "criterion")
    )
    for out in (finished.config.out, config.out):
        paths = ClusterPaths(out)
        folder = RunFolder(out)
        for place in (paths.folder, folder.rollouts, folder.trackers, paths.logs):
            assert canaries.in_files(place) == []


def test_ctrl_c_of_a_follower_stops_the_job(
    config: TrainConfig, cluster: Cluster, tmp_path: Path
) -> None:
    handed_in = joined(config, tmp_path / "run", {"dashboard": cluster.dashboard})
    command = Command.run(handed_in, "--verbose")
    command.wait_until(ClusterPaths(handed_in.out).run.exists)
    assert "rubric_train_openrlhf.cluster.launching.driver" in titles(
        processes_of_run(handed_in.out)
    )
    command.process.send_signal(signal.SIGINT)
    assert command.status() == 130
    assert "go on with: rubric-train run" in command.said
    assert titles(left_of(handed_in.out)) == ""


def test_the_failure_of_a_job_has_the_status_and_words_of_its_type(
    config: TrainConfig, cluster: Cluster, tmp_path: Path
) -> None:
    handed_in = joined(config, tmp_path / "run", {"dashboard": cluster.dashboard})
    data = config.data.model_copy(update={"train": tmp_path / "missing.jsonl"})
    command = Command.run(handed_in.model_copy(update={"data": data}))
    assert command.status() == 2
    assert (
        f"rubric-train: no task file at '{tmp_path / 'missing.jsonl'}'" in command.said
    )
    assert "Traceback" not in command.said
