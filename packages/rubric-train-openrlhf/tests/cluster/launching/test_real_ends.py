"""Real runs that are killed, stopped and handed in: everything of them ends, and they go on.

Each start of the stack takes the better part of a minute, so that every one serves several tests.
"""

from __future__ import annotations

import contextlib
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
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from rubric_judge.testing import FakeEndpoint, numbered_share
from rubric_train_openrlhf.cluster.orphans import PLACE, RAY
from rubric_train_openrlhf.cluster.settings import RUN_FILE, ClusterPaths
from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates
from rubric_train_openrlhf.config.train import dump_config
from rubric_train_openrlhf.run.checkpoints import latest_checkpoint, step_of
from rubric_train_openrlhf.run.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import RealInput
    from rubric_train_openrlhf.config.train import TrainConfig

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.real_run,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

LIMIT_S = 600.0
ENDED_S = 30.0
"""For Ray to end the workers of a run that has left a cluster."""
MANY_STEPS = 100_000


@dataclass
class Command:
    """`rubric-train run` as a process of its own, and what it prints."""

    config: TrainConfig
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def run(cls, config: TrainConfig, *words: str) -> Command:
        file, log = config.out.with_suffix(".yaml"), config.out.with_suffix(f".{time.time_ns()}")
        file.write_text(dump_config(config))
        command = [sys.executable, "-m", "rubric_train_openrlhf.cli", "run", str(file), *words]
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
def config(
    real_input: RealInput, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TrainConfig]:
    """Steps without end, judged by actors of Ray's that are busy when a run is ended."""
    with FakeEndpoint(numbered_share, latency=0.2, seed=5) as endpoint:
        spec = {
            "type": "llm",
            "model": "openai/fake",
            "api_base": endpoint.url,
            "transport": "direct",
        }
        yield real_input.config(
            tmp_path_factory.mktemp("ends") / "run",
            steps=MANY_STEPS,
            judge={"spec": spec, "workers": 2, "micro_batch": 2},
            objective={"kl_coef": 0.0},  # no reference: one process less at every start
            checkpoint={"every": 1},
            validation={"every": MANY_STEPS},
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
    """Kill the process that writes a state while some of it is there and its mark is not."""
    out = command.config.out
    writers: list[psutil.Process] = []
    while not writers:  # a title is that of the call which goes on
        assert command.process.poll() is None, command.said
        everyone = processes_of_run(out)
        writers = [one for one in everyone if "PolicyActor" in titles([one])]
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
    """Killed together with the process that was writing a checkpoint."""
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
    for kind in ("raylet", "gcs_server", "ray::JudgeActor", "ray::JudgeCoordinator", "EngineCore"):
        assert kind in killed_driver.before
    assert killed_driver.left == ""
    assert len(killed_driver.folders) == 2
    assert not any(folder.exists() for folder in killed_driver.folders)


def test_the_command_says_that_its_driver_was_killed(killed_driver: KilledDriver) -> None:
    assert killed_driver.status == 1
    assert "rubric-train: the driver of the run ended by signal 9" in killed_driver.said
    assert "Traceback" not in killed_driver.said


def test_a_second_run_in_the_folder_of_one_that_runs_is_refused(
    killed_driver: KilledDriver,
) -> None:
    assert killed_driver.second_status == 2
    assert "is in use by another process, pid" in killed_driver.second
    assert "Traceback" not in killed_driver.second


def test_the_kill_fell_inside_the_writing_of_a_checkpoint(killed_driver: KilledDriver) -> None:
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
    names = ("port", "dashboard-port", "dashboard-agent-listen-port", "ray-client-server-port")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    words = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block"]
    words += ["--node-ip-address", "127.0.0.1", "--dashboard-host", "127.0.0.1"]
    words += ["--temp-dir", str(place), "--num-gpus", "1", "--num-cpus", "16"]
    words += ["--object-store-memory", str(2**28), "--disable-usage-stats"]
    words += [word for name, port in ports.items() for word in (f"--{name}", str(port))]
    with (place / "log").open("wb") as log:
        # In another directory than the runs: their paths must mean the same there.
        process = subprocess.Popen(words, cwd=place, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + LIMIT_S
        while b"Ray runtime started" not in (place / "log").read_bytes():
            assert process.poll() is None, (place / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield Cluster(f"127.0.0.1:{ports['port']}", f"http://127.0.0.1:{ports['dashboard-port']}")
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
    cluster = config.cluster.model_copy(update={"ray": config.cluster.ray.model_copy(update=ray)})
    return config.model_copy(update={"out": out, "cluster": cluster})


@pytest.fixture(scope="module")
def terminated(
    config: TrainConfig, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TrainConfig, End]:
    out = tmp_path_factory.mktemp("joined") / "run"
    there = joined(config, out, {"address": cluster.address})
    command = Command.run(there)
    command.wait_until(lambda: command.steps >= 1)
    before = titles(processes_of_run(out))
    command.process.send_signal(signal.SIGTERM)
    status = command.status()
    return there, End(
        status=status,
        said=command.said,
        before=before,
        left=titles(left_of(out)),
        steps=command.steps,
    )


def test_a_run_that_is_terminated_leaves_nothing_on_a_cluster_that_it_joined(
    terminated: tuple[TrainConfig, End],
) -> None:
    _, end = terminated
    assert end.status == 143
    assert "go on with: rubric-train run" in end.said
    assert "Traceback" not in end.said
    assert "EngineCore" in end.before
    assert end.left == ""


def test_a_run_that_is_handed_in_is_followed_to_its_end(
    terminated: tuple[TrainConfig, End], cluster: Cluster
) -> None:
    there, end = terminated
    handed_in = joined(there, there.out, {"address": None, "dashboard": cluster.dashboard})
    steps = end.steps + 1
    command = Command.run(handed_in, "--resume", "--verbose", f"--steps={steps}")
    assert command.status() == 0, command.said
    assert '"status": "finished"' in command.said
    assert command.steps == steps
    assert (there.out / "report.html").exists()
    assert not list(ClusterPaths(there.out).folder.glob("driver.*"))
    assert titles(left_of(there.out)) == ""


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
    assert f"rubric-train: no task file at '{tmp_path / 'missing.jsonl'}'" in command.said
    assert "Traceback" not in command.said
