from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rubric_train_openrlhf.cluster.orphans import end_session
from rubric_train_openrlhf.cluster.settings import (
    local_environment,
    process_environment,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_train_openrlhf.config.train import TrainConfig

ENDS_WITH_PARENT = """
import os, sys, time
from rubric_train_openrlhf.cluster.orphans import end_with
end_with(os.getppid())
print("ready", flush=True)
time.sleep(60)
"""
STARTS_ANOTHER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(pid: int) -> None:
    for _ in range(100):
        if not is_running(pid):
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} is still there")


@pytest.mark.skipif(sys.platform != "linux", reason="a service of Linux")
def test_a_process_ends_when_the_one_that_started_it_is_killed() -> None:
    words = [sys.executable, "-c", STARTS_ANOTHER, ENDS_WITH_PARENT]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        parent.kill()
    wait_until_gone(grandchild)


def test_ending_a_driver_ends_what_it_left_behind() -> None:
    leaves_a_child = (
        "import subprocess; c = subprocess.Popen(['sleep', '60']); print(c.pid)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", leaves_a_child],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.wait()
    assert is_running(child)
    end_session(process, by=signal.SIGTERM, within_s=60)
    process.stdout.close()
    wait_until_gone(child)


def test_gpus_of_the_judge_are_kept_from_a_cluster_of_the_runs_own(
    make_config: Callable[..., TrainConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(cluster={"gpus_per_node": 8, "judge_gpus_per_node": 4})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert local_environment(config)["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,6,5,4,3,2,1,0")
    assert local_environment(config)["CUDA_VISIBLE_DEVICES"] == "7,6,5,4"
    assert "CUDA_VISIBLE_DEVICES" not in process_environment(config)


def test_a_run_on_a_cpu_tells_its_processes_so(
    make_config: Callable[..., TrainConfig],
) -> None:
    pytest.importorskip(
        "deepspeed", reason="its version names the cache of what it compiles"
    )
    on_cpu = process_environment(
        make_config(cluster={"device": "cpu", "gpus_per_node": 1})
    )
    assert on_cpu["DS_ACCELERATOR"] == "cpu"
    assert on_cpu["OMP_NUM_THREADS"] == "1"
    assert "TORCH_COMPILE_DISABLE" not in on_cpu
    assert "DS_ACCELERATOR" not in process_environment(make_config())
    eager = make_config(
        cluster={
            "device": "cpu",
            "gpus_per_node": 1,
            "engines": {"enforce_eager": True},
        }
    )
    assert process_environment(eager) == on_cpu | {"TORCH_COMPILE_DISABLE": "1"}
