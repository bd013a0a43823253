"""Processes and folders that would outlive a run: they end with it, or are found and ended.

A temporary folder is locked by the process that made it for as long as that process lives: the
system frees the lock however it ends. Whoever can take the lock may clear the folder.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import structlog

from rubric_core import FolderLockError
from rubric_core.files import read_file
from rubric_core.locks import folder_lock
from rubric_train_openrlhf.cluster.settings import RUN_FILE
from rubric_train_openrlhf.run.writing import disk_errors

if TYPE_CHECKING:
    import psutil

_SET_SIGNAL_OF_PARENTS_DEATH = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""
_TITLE = "ray::"
"""Begins the title that Ray gives its workers and agents."""
_PATIENCE_S = 10.0
"""For the system to take a killed process away."""
_LOOK_EVERY_S = 0.05


def end_with(parent: int, *, by: signal.Signals = signal.SIGTERM) -> None:
    """Have the system send this process a signal when its parent dies, by kill -9 too.

    Args:
        parent: process id of the parent; one that is gone already counts as its death.
        by: the signal.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_SIGNAL_OF_PARENTS_DEATH, by.value)
    if os.getppid() != parent:
        os.kill(os.getpid(), by)


def end_once(is_over: Callable[[], bool], *, look_every_s: float = 1.0) -> None:
    """End this process, by status 1 and without ado, soon after something is over.

    Args:
        is_over: asked again and again, in a thread of its own.
        look_every_s: seconds between two looks.
    """

    def look() -> None:
        while not is_over():
            time.sleep(look_every_s)
        os._exit(1)

    Thread(target=look, daemon=True, name="end_once").start()


def end_session(
    leader: subprocess.Popen[bytes], *, by: signal.Signals, within_s: float
) -> None:
    """Ask a process to end, then kill whatever is left of the session that it leads.

    A second Ctrl-C meanwhile goes over to the second part.

    Args:
        leader: the process, started in a session of its own.
        by: the signal that asks it.
        within_s: how long it may take.
    """
    try:
        if leader.poll() is None:
            leader.send_signal(by)
            with contextlib.suppress(subprocess.TimeoutExpired):
                leader.wait(within_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()


def processes_of(folder: Path) -> list[int]:
    """Find the processes of a run that use a temporary folder of it; this process is left out.

    Ray's workers lose their parent with it, and their title is not their command. What they keep
    is the variable that every process of a run is started with, which the title of Ray's agents
    writes over, and files open below the folder. A reader's `tail -f` has the last alone.
    """
    import psutil  # comes with OpenRLHF, without which nothing is run

    numbers: list[int] = []
    for process in psutil.process_iter():
        # It may have ended, or be another user's.
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and _uses(process, folder):
                numbers.append(process.pid)
    return numbers


def end_processes(folder: Path) -> int:
    """Kill the processes of a run that use a temporary folder of it, and wait for their end.

    Returns:
        How many there were.
    """
    ended: set[int] = set()
    gives_up_s = time.monotonic() + _PATIENCE_S
    while (left := processes_of(folder)) and time.monotonic() < gives_up_s:
        for pid in left:
            with contextlib.suppress(
                OSError
            ):  # it ended by itself, or is another user's
                os.kill(pid, signal.SIGKILL)
                ended.add(pid)
        time.sleep(_LOOK_EVERY_S)
    return len(ended)


def _uses(process: "psutil.Process", folder: Path) -> bool:
    words = process.cmdline()
    is_of_a_run = " ".join(words).startswith(_TITLE) or RUN_FILE in process.environ()
    if not is_of_a_run:
        return False
    below = f"{folder}/"
    return any(below in word for word in words) or any(
        f"{target}/".startswith(below) for target in _open_files(process.pid)
    )


def _open_files(pid: int) -> Iterator[str]:
    """Yield what a process has open: psutil leaves out folders, and files that were removed."""
    with contextlib.suppress(OSError):  # it has ended, or is another user's
        for link in list(Path(f"/proc/{pid}/fd").iterdir()):
            with contextlib.suppress(OSError):  # closed meanwhile
                yield str(link.readlink())


PLACE = Path("/tmp")  # noqa: S108  # the names of Ray's sockets leave little room for another
"""Where the folders are."""
COMMAND = "rubric-train-"
"""Begins the name of a command's folder: the driver's configuration and its last error."""
RAY = "rubric-ray-"
"""Begins the name of a folder of Ray's."""
_OWNER = "owner"
"""File in which the owner of a folder names the place for logs."""

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
    with contextlib.ExitStack() as owned:
        with disk_errors(PLACE / prefix):
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=PLACE))
            owned.enter_context(folder_lock(folder))
            owned.callback(_clear, folder, logs=logs)
            # Nobody looks for the folder before it is locked and this is there.
            (folder / _OWNER).write_bytes(os.fsencode(logs.absolute()) if logs else b"")
        yield folder


def clear_abandoned() -> None:
    """Clear the folders of runs whose process was killed: end what uses them, and remove them.

    Folders of runs that go on, of other users, and those that have no owner's file are left alone.
    """
    # The command's first: a driver that has lost its command still owns a folder of Ray's.
    for prefix in (COMMAND, RAY):
        for folder in sorted(PLACE.glob(f"{prefix}*")):
            owner = folder / _OWNER
            with contextlib.suppress(OSError, FolderLockError):
                status = owner.lstat()
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                    continue
                with folder_lock(folder):  # refused where its owner lives
                    logs = os.fsdecode(read_file(owner))
                    _clear(folder, logs=Path(logs) if logs else None, was_left=True)


def _clear(folder: Path, *, logs: Path | None, was_left: bool = False) -> None:
    ended = end_processes(folder)
    if was_left:
        _log.warning("cluster.left_behind", folder=str(folder), processes=ended)
    # That a run failed must not hide behind a full disk.
    with contextlib.suppress(OSError, shutil.Error):
        # A run folder that has been removed since is not made again.
        if logs is not None and logs.parent.exists():
            logs.mkdir(exist_ok=True)
            for file in sorted((folder / "session_latest" / "logs").glob("*.*")):
                if file.is_file() and file.stat().st_size:
                    shutil.copy2(file, logs / file.name)
    shutil.rmtree(folder, ignore_errors=True)
