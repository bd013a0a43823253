"""Temporary folders of runs, and what a run that was killed left in them and running.

A folder is owned by the process that made it for as long as that process lives: the system frees
the lock on its file `owner` however it ends. Whoever can take the lock may clear the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from rubric_train_openrlhf.cluster.processes.orphans import end_processes
from rubric_train_openrlhf.run.writing import disk_errors

if TYPE_CHECKING:
    from collections.abc import Generator

PLACE = Path("/tmp")  # noqa: S108  # the names of Ray's sockets leave little room for another
"""Where the folders are."""
COMMAND = "rubric-train-"
"""Begins the name of a command's folder: the driver's configuration and its last error."""
RAY = "rubric-ray-"
"""Begins the name of a folder of Ray's."""
_OWNER = "owner"

_log = structlog.get_logger()


@contextlib.contextmanager
def temporary_folder(prefix: str, *, logs: Path | None = None) -> Generator[Path]:
    """Make a folder; on leaving, end the processes of the run that use it, and remove it.

    Args:
        prefix: `COMMAND` or `RAY`.
        logs: where what Ray's processes wrote is kept.

    Raises:
        DiskWriteError: it cannot be made.
    """
    with disk_errors(PLACE / prefix):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=PLACE))
        owner = _own(folder, logs=logs)
    try:
        yield folder
    finally:
        _clear(folder, logs=logs)
        os.close(owner)


def clear_abandoned() -> None:
    """Clear the folders of runs whose process was killed: end what uses them, and remove them.

    Folders of runs that go on, of other users, and those that have no owner's file are left alone.
    """
    # The command's first: a driver that has lost its command still owns a folder of Ray's.
    for prefix in (COMMAND, RAY):
        for folder in sorted(PLACE.glob(f"{prefix}*")):
            owner = _take_over(folder)
            if owner is None:
                continue
            try:
                _clear(folder, logs=_logs_of(owner), was_left=True)
            finally:
                os.close(owner)


def keep_logs(source: Path, target: Path) -> None:
    """Copy what Ray's processes wrote; that a run failed must not hide behind a full disk."""
    with contextlib.suppress(OSError, shutil.Error):
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(source.glob("*.*")):
            if file.is_file() and file.stat().st_size:
                shutil.copy2(file, target / file.name)


def _clear(folder: Path, *, logs: Path | None, was_left: bool = False) -> None:
    ended = end_processes(folder)
    if was_left:
        _log.warning("cluster.left_behind", folder=str(folder), processes=ended)
    # A run folder that has been removed since is not made again.
    if logs is not None and logs.parent.exists():
        keep_logs(folder / "session_latest" / "logs", logs)
    shutil.rmtree(folder, ignore_errors=True)


def _own(folder: Path, *, logs: Path | None) -> int:
    """Write the owner's file; nobody can find it before it is locked."""
    new = folder / f".{_OWNER}"
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, os.fsencode(logs.absolute()) if logs is not None else b"")
    new.rename(folder / _OWNER)
    return descriptor


def _take_over(folder: Path) -> int | None:
    """Lock the owner's file of a folder whose owner is dead; None for any other folder."""
    try:
        descriptor = os.open(folder / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:  # not yet owned, another user's, or gone
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_mine = os.fstat(descriptor).st_uid == os.geteuid()
    except OSError:  # its owner lives
        is_mine = False
    if is_mine:
        return descriptor
    os.close(descriptor)
    return None


def _logs_of(owner: int) -> Path | None:
    path = os.fsdecode(os.pread(owner, 4096, 0))
    return Path(path) if path else None
