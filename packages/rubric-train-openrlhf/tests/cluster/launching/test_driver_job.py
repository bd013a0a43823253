from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("ray.job_submission", reason="a job is handed in by Ray's client")

from ray.job_submission import JobStatus

from rubric_train_openrlhf.cluster.launching.launch import (
    DriverJob,
    driver_words,
    entrypoint,
)
from rubric_train_openrlhf.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig


@pytest.fixture
def words(
    make_config: Callable[..., TrainConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """The job's command, run from a folder whose name a shell would take apart."""
    folder = tmp_path / "a;folder'with$signs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    config = make_config(
        cluster={"ray": {"dashboard": "http://head:8265"}}, out="runs/x"
    )
    line = entrypoint(
        config, driver_words(folder / "c", failure=folder / "f", resume=True)
    )
    shows = "import os, sys; print(os.getcwd(), os.environ['RUBRIC_TRAIN_RUN'], *sys.argv[1:])"
    shown = line.replace(
        "-m rubric_train_openrlhf.cluster.launching.driver", f"-c {shlex.quote(shows)}"
    )
    done = subprocess.run(  # noqa: S602
        shown, shell=True, cwd="/", stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode().split(" ")


def test_a_job_runs_the_driver_where_its_command_stands(
    words: list[str], tmp_path: Path
) -> None:
    folder = f"{tmp_path}/a;folder'with$signs"
    assert words == [
        folder,
        f"{folder}/runs/x/cluster/run.json",
        *(f"{folder}/c", "--failure", f"{folder}/f", "--resume\n"),
    ]


def test_a_job_takes_the_python_of_its_machine_where_the_command_s_is_not_there(
    make_config: Callable[..., TrainConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "the other: $3"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", "/nowhere/bin/python")
    words = driver_words(tmp_path / "c", failure=tmp_path / "f", resume=False)
    line = entrypoint(make_config(), words)
    path = {"PATH": f"{tmp_path}:{os.defpath}"}
    done = subprocess.run(  # noqa: S602
        line, shell=True, env=path, stdout=subprocess.PIPE, check=True
    )
    assert done.stdout.decode().strip() == f"the other: {tmp_path / 'c'}"


class Client:
    """The cluster's answers, one after the other; the last of them for ever."""

    def __init__(self, *answers: JobStatus | Exception) -> None:
        self.answers = list(answers)
        self.stopped: list[str] = []

    def get_job_status(self, name: str) -> JobStatus:
        del name
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop_job(self, name: str) -> bool:
        self.stopped.append(name)
        return True


def last_status(job: DriverJob) -> int | None:
    job._asked_s = float("-inf")  # as if time had passed
    return job.status()


@pytest.mark.parametrize(
    ("end", "status"),
    [(JobStatus.SUCCEEDED, 0), (JobStatus.FAILED, 1), (JobStatus.STOPPED, 1)],
)
def test_a_job_is_followed_through_a_network_that_fails(
    end: JobStatus, status: int
) -> None:
    unanswered = (ConnectionError("no route"), RuntimeError("status 502"))
    job = DriverJob(
        Client(JobStatus.PENDING, *unanswered, JobStatus.RUNNING, end), "rubric-1"
    )
    assert [last_status(job) for _ in range(6)] == [
        None,
        None,
        None,
        None,
        status,
        status,
    ]


def test_a_cluster_that_stays_silent_is_given_up_with_the_job_s_name() -> None:
    job = DriverJob(Client(ConnectionError("no route")), "rubric-1", patience_s=0.0)
    with pytest.raises(ClusterError, match=r"no route.*'rubric-1' may go on there"):
        job.status()


def test_a_job_that_runs_is_stopped_and_one_that_has_ended_is_not() -> None:
    running = Client(JobStatus.STOPPED)
    DriverJob(running, "rubric-1").end()
    assert running.stopped == ["rubric-1"]
    ended = Client(JobStatus.SUCCEEDED)
    job = DriverJob(ended, "rubric-2")
    assert job.status() == 0
    job.end()
    assert ended.stopped == []
