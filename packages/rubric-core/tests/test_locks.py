import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rubric_core import FolderLockError
from rubric_core.locks import file_lock, folder_lock, is_locked

HOLD = """
import sys, pathlib
from rubric_core.locks import folder_lock
with folder_lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_one_process_at_a_time_and_a_kill_frees_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"

        with (
            pytest.raises(
                FolderLockError, match=rf"in use by another process, pid {holder.pid}\b"
            ),
            folder_lock(folder),
        ):
            pass
        assert is_locked(folder)
        holder.send_signal(signal.SIGKILL)
        holder.wait()

    assert (folder / ".lock").exists()
    assert not is_locked(folder)
    with folder_lock(folder):
        assert (folder / ".lock").read_text() == f"{os.getpid()}\n"
    assert not (folder / ".lock").exists()


def test_a_folder_that_was_there_stays_and_an_empty_new_one_goes(
    tmp_path: Path,
) -> None:
    (tmp_path / "old").mkdir()
    for name in ("old", "new", "used"):
        with folder_lock(tmp_path / name):
            if name == "used":
                (tmp_path / name / "row").touch()

    assert {path.name for path in tmp_path.iterdir()} == {"old", "used"}


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "mine")

    with pytest.raises(FolderLockError), folder_lock(tmp_path / "run"):
        pass

    assert (tmp_path / "mine").read_text() == "mine"


def test_a_path_that_cannot_be_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(FolderLockError, match="file"), folder_lock(path):
            pass


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="of Linux")
def test_a_folder_that_is_there_and_takes_no_file_is_an_error_and_no_endless_try() -> (
    None
):
    for lock in (file_lock(Path("/proc/x.jsonl")), folder_lock(Path("/proc"))):
        with (
            pytest.raises(
                FolderLockError, match=r"cannot write '/proc.*choose another"
            ),
            lock,
        ):
            pass


def test_a_file_is_one_process_at_a_time_by_any_of_its_names(tmp_path: Path) -> None:
    path, link = tmp_path / "rows.jsonl", tmp_path / "link"
    link.symlink_to(path)
    with file_lock(path):
        for name in (path, link):
            with (
                pytest.raises(FolderLockError, match=f"pid {os.getpid()}"),
                file_lock(name),
            ):
                pass
        with file_lock(tmp_path / "other.jsonl"):
            pass

    assert not list(tmp_path.glob(".*"))
    (tmp_path / "plain").touch()
    with (
        pytest.raises(FolderLockError, match="cannot write"),
        file_lock(tmp_path / "plain" / "a"),
    ):
        pass
