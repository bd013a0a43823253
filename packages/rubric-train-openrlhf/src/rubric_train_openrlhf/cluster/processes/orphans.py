"""Processes that would outlive their run: they end with it, or are found and ended after it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from rubric_core.files import read_file
from rubric_train_openrlhf.cluster.processes.settings import RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SET_SIGNAL_OF_PARENTS_DEATH = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""
_MARK = f"{RUN_FILE}=".encode()
_TITLE = b"ray::"
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


def processes_of(folder: Path) -> list[int]:
    """Find the processes of a run that use a temporary folder of it; this process is left out.

    Ray's workers lose their parent with it, and their title is not their command. What they keep
    is the variable that every process of a run is started with, which the title of Ray's agents
    writes over, and files open below the folder. A reader's `tail -f` has the last alone.
    """
    return [pid for pid in _pids() if _is_of_a_run(pid) and _uses(pid, folder)]


def end_processes(folder: Path) -> int:
    """Kill the processes of a run that use a temporary folder of it, and wait for their end.

    Returns:
        How many there were.
    """
    ended: set[int] = set()
    gives_up_s = time.monotonic() + _PATIENCE_S
    while (left := processes_of(folder)) and time.monotonic() < gives_up_s:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:  # it ended by itself, or is another user's
                continue
            ended.add(pid)
        time.sleep(_LOOK_EVERY_S)
    return len(ended)


def _pids() -> Iterator[int]:
    """All processes but this one; none on a system that does not show them."""
    names = (path.name for path in Path("/proc").glob("[0-9]*"))
    yield from (int(name) for name in names if int(name) != os.getpid())


def _is_of_a_run(pid: int) -> bool:
    return any(word.startswith(_TITLE) for word in _words(pid, "cmdline")[:1]) or any(
        variable.startswith(_MARK) for variable in _words(pid, "environ")
    )


def _uses(pid: int, folder: Path) -> bool:
    below = f"{folder}/"
    return any(below in os.fsdecode(word) for word in _words(pid, "cmdline")) or any(
        target.startswith(below) for target in _open_files(pid)
    )


def _words(pid: int, name: str) -> list[bytes]:
    try:
        return read_file(Path(f"/proc/{pid}/{name}")).split(b"\0")
    except OSError:  # it has ended, or is another user's
        return []


def _open_files(pid: int) -> Iterator[str]:
    try:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # as above
        return
    for link in links:
        try:
            yield str(link.readlink())
        except OSError:  # closed meanwhile
            continue
