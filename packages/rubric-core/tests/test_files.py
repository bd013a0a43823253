import contextlib
import errno
import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rubric_core import read_tasks
from rubric_core.files import (
    append_whole,
    open_file,
    open_to_append,
    read_file,
    remove_unfinished,
    replacing,
    replacing_folder,
    write_text,
)


def test_a_named_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tasks.jsonl")
    os.mkfifo(tmp_path / "tasks.parquet")
    for name in ("tasks.jsonl", "tasks.parquet"):
        with pytest.raises(
            OSError, match=rf"this is a named pipe .*: name a .*'{tmp_path}/{name}'"
        ):
            list(read_tasks(tmp_path / name))


def test_a_device_is_refused_but_for_the_empty_one() -> None:
    with pytest.raises(OSError, match="this is a device and may never end"):
        read_file(Path("/dev/zero"))
    assert read_file(Path("/dev/null")) == b""


def test_what_the_process_has_open_is_read() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as file:
        file.write(b"from another program")
    assert read_file(Path(f"/dev/fd/{reader}")) == b"from another program"
    os.close(reader)


def test_a_folder_and_a_missing_file_say_so(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        open_file(tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"No such file or directory: '[^']*none'"
    ):
        open_file(tmp_path / "none")


def test_what_is_appended_to_is_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match=r"may never end|Is a directory"):
            open_to_append(path)
    for line in (b"one\n", b"two\n"):
        with open_to_append(tmp_path / "rows.jsonl") as file:
            file.write(line)
    assert read_file(tmp_path / "rows.jsonl") == b"one\ntwo\n"


def _descriptors() -> list[str]:
    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = _descriptors()
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match=r"may never end|Is a directory"):
            open_file(path)
    assert _descriptors() == before


@pytest.mark.parametrize("fails", [False, True])
def test_a_folder_is_replaced_whole_or_stays(tmp_path: Path, *, fails: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old").touch()

    with contextlib.suppress(KeyboardInterrupt), replacing_folder(folder) as fresh:
        (fresh / "new").touch()
        if fails:
            raise KeyboardInterrupt

    assert [path.name for path in folder.iterdir()] == ["old" if fails else "new"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_folder_that_cannot_be_put_in_place_leaves_what_stood_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old").touch()
    rename = Path.rename

    def no_room(path: Path, target: Path) -> Path:
        if (path / "new").exists():
            raise OSError(errno.ENOSPC, "no room")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", no_room)
    with pytest.raises(OSError, match="no room"), replacing_folder(folder) as fresh:
        (fresh / "new").touch()

    assert [path.name for path in folder.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_names_the_file() -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        write_text(Path("/dev/full"), "more than it takes")
    assert caught.value.filename == "/dev/full"


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    others = {".a.json.tmp", ".b.json.0123abcd.tmp", ".a.json.0123ABCD.tmp", "a.json"}
    for name in (*others, ".a.json.0123abcd.tmp", ".older.0"):
        (tmp_path / name).write_text("{")
    (tmp_path / ".a.folder.0123abcd.tmp" / "deep").mkdir(parents=True)
    (tmp_path / ".a.link.0123abcd.tmp").symlink_to(tmp_path)

    remove_unfinished(tmp_path, r"a\.(json|folder|link)", earlier=r"\.older\.[0-9]")
    remove_unfinished(tmp_path / "missing", "a")

    assert {path.name for path in tmp_path.iterdir()} == others


_KILLED = """
import os, signal, sys
from pathlib import Path
from rubric_core.files import replacing, replacing_folder

with replacing_folder(Path("folder")) as folder, replacing(Path("file")) as file:
    (folder / "hidden.txt").write_text("The passage.")
    file.write(b"The passage.")
    file.flush()
    print("written", flush=True)
    sys.stdin.read()
"""


def test_only_what_killed_writers_left_is_removed_by_the_next(tmp_path: Path) -> None:
    def names() -> set[str]:
        return {re.sub("[0-9a-f]{8}", "X", path.name) for path in tmp_path.iterdir()}

    with subprocess.Popen(
        [sys.executable, "-c", _KILLED],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        remove_unfinished(tmp_path, "folder|file")
        assert names() == {".folder.X.tmp", ".file.X.tmp"}  # it is alive
        writer.kill()

    with replacing_folder(tmp_path / "folder"):
        pass
    assert names() == {"folder", ".file.X.tmp"}
    remove_unfinished(tmp_path, "folder|file")
    assert names() == {"folder"}


def test_a_writer_loses_nothing_to_one_who_removes_before_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    steps = list[str]()

    def remove(step: str) -> None:
        with monkeypatch.context() as real:
            real.setattr("fcntl.flock", lock)
            remove_unfinished(tmp_path, "folder|file")
        steps.append(step)

    def flock(descriptor: int, operation: int) -> None:
        if steps.count("lock") % 2 == 0:
            remove("lock")  # it takes what is not locked yet
        else:
            steps.append("lock")
        lock(descriptor, operation)

    def replace(path: Path, target: Path) -> Path:
        remove("replace")
        os.replace(path, target)  # noqa: PTH105
        return target

    monkeypatch.setattr("fcntl.flock", flock)
    monkeypatch.setattr(Path, "replace", replace)
    with replacing_folder(tmp_path / "folder") as folder:
        (folder / "new").touch()
        write_text(tmp_path / "file", "whole")

    assert steps == ["lock", "lock", "lock", "lock", "replace"]
    assert (tmp_path / "file").read_text() == "whole"
    assert (tmp_path / "folder" / "new").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "file"}


@pytest.mark.parametrize("code", [errno.EBADF, errno.ENOTSUP])
def test_nothing_is_removed_where_locks_do_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def flock(*_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", flock)
    with replacing(tmp_path / "file") as file:
        file.write(b"whole")
        remove_unfinished(tmp_path, "file")
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_a_file_is_judged_abandoned_by_a_lock_that_network_file_systems_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        if operation & fcntl.LOCK_EX and access == os.O_RDONLY:
            raise OSError(errno.EBADF, "as flock(2) says of NFS")
        real(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", flock)
    (tmp_path / ".file.0123abcd.tmp").touch()
    with replacing(tmp_path / "file") as file:
        remove_unfinished(tmp_path, "file")
        file.write(b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_line_that_does_not_reach_the_disk_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with open_to_append(tmp_path / "lines") as file:
        append_whole(file.fileno(), b"first\n", size=0, on_disk=True)
        monkeypatch.setattr(os, "fsync", full)
        append_whole(file.fileno(), b"second\n", size=6)
        with pytest.raises(OSError, match="full"):
            append_whole(file.fileno(), b"third\n", size=13, on_disk=True)

    assert read_file(tmp_path / "lines") == b"first\nsecond\n"
