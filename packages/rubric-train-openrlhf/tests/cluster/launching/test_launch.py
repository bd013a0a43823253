from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rubric_core import FolderLockError, MissingExtraError
from rubric_core.locks import folder_lock
from rubric_judge.ui.console.command import fail
from rubric_judge.ui.console.display import Lines
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.cluster.failure import write_failure
from rubric_train_openrlhf.cluster.launching import launch as launching
from rubric_train_openrlhf.cluster.launching.launch import (
    FollowedPhases,
    check_installed,
)
from rubric_train_openrlhf.cluster.launching.workers import set_up
from rubric_train_openrlhf.cluster.settings import directory
from rubric_train_openrlhf.errors import ClusterError, ResumeError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import RunSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig

TURNS = """
import sys
from pathlib import Path
from rubric_train_openrlhf.cluster.launching.driver import Output
output = Output()
print("before")
output.turn_to(Path(sys.argv[1]))
print("after")
output.say_first("to whoever started it")
"""


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        (
            {},
            r"needs ray, openrlhf, deepspeed, vllm: run `uv sync --extra openrlhf` in",
        ),
        ({"device": "cpu", "gpus_per_node": 1}, r"`uv sync --extra openrlhf-cpu`"),
        (
            {"ray": {"dashboard": "http://head:8265"}},
            r"needs ray: run `uv sync --extra openrlhf`",
        ),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(
    make_config: Callable[..., TrainConfig],
    monkeypatch: pytest.MonkeyPatch,
    cluster: dict[str, object],
    says: str,
) -> None:
    monkeypatch.setattr(launching, "find_spec", lambda name: None)  # noqa: ARG005
    with pytest.raises(MissingExtraError, match=says):
        check_installed(make_config(cluster=cluster))


def test_a_driver_that_ended_without_a_word_is_told_by_how(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    config = make_config(out=tmp_path)
    error = launching._error(-9, failure=tmp_path / "f", config=config)
    assert isinstance(error, ClusterError)
    assert (
        "ended by signal 9, as the system ends a process where memory runs out"
        in str(error)
    )
    assert "ended by status 3 and" in str(
        launching._error(3, failure=tmp_path / "f", config=config)
    )


def test_the_logs_are_named_for_what_they_may_explain(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    config = make_config(out=tmp_path)
    (tmp_path / "logs").mkdir()
    for error, notes in (
        (ClusterError("no engine"), 1),
        (ResumeError("another run"), 0),
    ):
        write_failure(tmp_path / "f", error)
        told = launching._error(1, failure=tmp_path / "f", config=config)
        assert type(told) is type(error)
        assert len(getattr(told, "__notes__", ())) == notes


def test_the_command_shows_where_the_logs_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = ClusterError("no engine")
    error.add_note("logs: 'runs/x/logs'")
    with pytest.raises(SystemExit):
        fail("rubric-train", error, status=1)
    assert capsys.readouterr().err == "rubric-train: no engine\nlogs: 'runs/x/logs'\n"


def test_output_turns_to_a_file_and_back_for_a_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-u", "-c", TURNS, str(tmp_path / "logs" / "driver.log")],
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"before\n"
    assert done.stderr == b"to whoever started it\n"
    assert (tmp_path / "logs" / "driver.log").read_bytes() == b"after\n"


def test_a_worker_goes_to_the_directory_of_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv("RUBRIC_TRAIN_DIRECTORY", str(tmp_path))
    set_up()
    assert tmp_path.samefile(".")
    monkeypatch.setenv("RUBRIC_TRAIN_DIRECTORY", str(tmp_path / "of another machine"))
    set_up()
    assert tmp_path.samefile(".")
    monkeypatch.delenv("RUBRIC_TRAIN_DIRECTORY")
    assert directory() == "."


DRIVER = """
import os, signal, sys
from pathlib import Path
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import live_summary
with Progress.silent() as progress:
    with live_summary(RunFolder(Path(sys.argv[1])), total_steps=9, resume=False, progress=progress):
        with progress.phase("training", total=9, unit="steps") as phase:
            phase.advance(3)
            progress.beat()
            os.kill(os.getpid(), signal.SIGKILL)
"""


def all_installed(config: TrainConfig) -> None:
    del config


def started_with(tmp_path: Path, command: str) -> Callable[..., object]:
    """A driver of another command, in the place of the real one."""

    @contextlib.contextmanager
    def started(*_: object, **__: object) -> Generator[Callable[[], int | None]]:
        words = [sys.executable, "-c", command, str(tmp_path)]
        with subprocess.Popen(words) as process:
            yield process.poll

    return started


def launched(config: TrainConfig, lines: list[str]) -> None:
    shown = Lines("rubric-train", clock=time.monotonic, write=lines.append)
    with Progress(shown) as progress:
        launching.launch(config, progress=progress)


def test_a_phase_in_which_the_driver_was_killed_is_not_called_done(
    make_config: Callable[..., TrainConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launching, "check_installed", all_installed)
    monkeypatch.setattr(launching, "driver_here", started_with(tmp_path, DRIVER))
    lines: list[str] = []
    with pytest.raises(ClusterError, match="signal 9"):
        launched(make_config(out=tmp_path), lines)
    assert "training" in lines[-1]
    assert "stopped after" in lines[-1]


def test_a_folder_that_another_run_holds_is_refused_before_anything_is_shown(
    make_config: Callable[..., TrainConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launching, "check_installed", all_installed)
    monkeypatch.setattr(launching, "driver_here", started_with(tmp_path, ""))
    lines: list[str] = []
    with (
        folder_lock(tmp_path),
        pytest.raises(
            FolderLockError, match=f"in use by another process, pid {os.getpid()}:"
        ),
    ):
        launched(make_config(out=tmp_path), lines)
    assert lines == []


@pytest.mark.parametrize("phase", [None, "writing the checkpoint"])
def test_steps_that_end_between_two_looks_are_counted(
    phase: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path)

    def tell(**fields: object) -> None:
        summary = {"status": "running", "steps": 5, "total_steps": 7, **fields}
        folder.write_summary(RunSummary.model_validate(summary))

    with (
        Progress.of("rubric-train", at_once=True) as progress,
        FollowedPhases(tmp_path, progress) as phases,
    ):
        tell(phase="training", phase_total=7, phase_done=5, updated_at="1")
        phases.poll()
        tell(phase=phase, steps=7, updated_at="2")
        phases.poll()

    assert " 7 of 7 steps" in capsys.readouterr().err
