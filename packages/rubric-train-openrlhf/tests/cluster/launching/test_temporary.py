import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rubric_train_openrlhf.cluster import orphans
from rubric_train_openrlhf.cluster.orphans import (
    COMMAND,
    RAY,
    clear_abandoned,
    end_processes,
    processes_of,
    temporary_folder,
)
from rubric_train_openrlhf.cluster.settings import RUN_FILE, inherited

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="finds processes as Linux shows"
)

KEEPS_OPEN = """
import sys, time
log = open(sys.argv[1], "w")
print("ready", flush=True)
time.sleep(60)
"""
OPENS_UNSEEN = """
import os, sys, time
place = bytes.fromhex(sys.argv[1]).decode()
kept = os.open(place, os.O_RDONLY)
if os.path.isfile(place):
    os.unlink(place)
print("ready", flush=True)
time.sleep(60)
"""
"""Keeps open what no word of its command names."""
OWNS = """
import sys, time
from pathlib import Path
from rubric_train_openrlhf.cluster import orphans
orphans.PLACE = Path(sys.argv[1])
with orphans.temporary_folder(sys.argv[2], logs=Path(sys.argv[3])) as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


def started(
    code: str, *words: str | Path, of_a_run: bool = True
) -> tuple[subprocess.Popen[bytes], str]:
    environment = {
        name: value for name, value in inherited().items() if name != RUN_FILE
    }
    if of_a_run:
        environment[RUN_FILE] = "/somewhere/run.json"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    said = process.stdout.readline().decode().strip()
    process.stdout.close()
    return process, said


def stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(orphans, "PLACE", tmp_path)
    return tmp_path


def test_processes_of_a_run_are_found_by_what_they_keep_open(tmp_path: Path) -> None:
    process, _ = started(KEEPS_OPEN, tmp_path / "worker.out")
    assert processes_of(tmp_path) == [process.pid]
    assert processes_of(tmp_path / "other") == []
    assert end_processes(tmp_path) == 1
    assert process.wait() == -signal.SIGKILL
    assert end_processes(tmp_path) == 0


@pytest.mark.parametrize("name", [".", "removed.out"])
def test_a_process_is_found_by_a_folder_or_a_removed_file_that_it_keeps_open(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "removed.out").touch()
    process, _ = started(OPENS_UNSEEN, str(tmp_path / name).encode().hex())
    try:
        assert processes_of(tmp_path) == [process.pid]
    finally:
        stop(process)


def test_a_reader_of_a_log_is_no_process_of_the_run(tmp_path: Path) -> None:
    reader, _ = started(KEEPS_OPEN, tmp_path / "worker.out", of_a_run=False)
    assert end_processes(tmp_path) == 0
    assert reader.poll() is None
    stop(reader)


def test_a_folder_is_gone_with_what_used_it(place: Path) -> None:
    with temporary_folder(RAY) as folder:
        assert folder.parent == place
        process, _ = started(KEEPS_OPEN, folder / "worker.out")
    assert process.wait() == -signal.SIGKILL
    assert not folder.exists()


def test_what_a_killed_owner_left_is_cleared(place: Path) -> None:
    out = place / "out"
    (out / "logs").mkdir(parents=True)
    owner, said = started(OWNS, place, RAY, out / "logs" / "ray")
    folder = Path(said)
    (folder / "session_1" / "logs").mkdir(parents=True)
    (folder / "session_latest").symlink_to("session_1")
    (folder / "session_1" / "logs" / "raylet.out").write_text("of the killed run")
    worker, _ = started(KEEPS_OPEN, folder / "session_1" / "logs" / "worker.out")

    clear_abandoned()
    assert worker.poll() is None
    assert folder.exists()

    stop(owner)
    clear_abandoned()
    assert worker.wait() == -signal.SIGKILL
    assert not folder.exists()
    assert (out / "logs" / "ray" / "raylet.out").read_text() == "of the killed run"


def test_logs_do_not_bring_a_removed_run_folder_back(place: Path) -> None:
    owner, said = started(OWNS, place, COMMAND, place / "gone" / "logs" / "ray")
    stop(owner)
    clear_abandoned()
    assert not Path(said).exists()
    assert not (place / "gone").exists()


@pytest.mark.parametrize("name", [f"{RAY}another", "rubric-else"])
def test_folders_without_an_owner_are_left_alone(place: Path, name: str) -> None:
    (place / name).mkdir()
    clear_abandoned()
    assert (place / name).exists()


def test_an_owner_s_file_that_is_a_link_is_not_followed(place: Path) -> None:
    (place / "precious").write_text("")
    (place / f"{RAY}x").mkdir()
    (place / f"{RAY}x" / "owner").symlink_to(place / "precious")
    clear_abandoned()
    assert (place / f"{RAY}x").exists()
