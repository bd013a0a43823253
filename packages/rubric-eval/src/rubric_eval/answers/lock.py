"""One run at a time in an evaluation's folder."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rubric_eval.errors import EvalFolderError, EvalWriteError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_LOCK_FILE: Final = ".lock"
_guard: Final = threading.Lock()
_held: Final[dict[Path, tuple[int, int]]] = {}
"""Descriptor and number of holders of each folder that this process has locked."""


@contextmanager
def locked(root: Path) -> Generator[None]:
    """Keep other processes out of a folder, which is made if it is missing.

    The kernel takes the lock back when the process ends, however it ends. Within one process the
    lock can be taken again.

    Raises:
        EvalFolderError: another process has it.
        EvalWriteError: there can be no such folder.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = root.resolve()
        with _guard:
            descriptor, holders = _held.get(folder) or (_taken(folder), 0)
            _held[folder] = (descriptor, holders + 1)
    except OSError as error:
        raise EvalWriteError(
            f"cannot write into {str(root)!r}: {error.strerror or error}; make room, or choose "
            "another folder",
            path=root,
        ) from error
    try:
        yield
    finally:
        with _guard:
            descriptor, holders = _held.pop(folder)
            if holders > 1:
                _held[folder] = (descriptor, holders - 1)
            else:
                os.close(descriptor)


def _taken(folder: Path) -> int:
    descriptor = os.open(folder / _LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise EvalFolderError(
            f"another evaluation is at work in {str(folder)!r} (process {holder}): wait until it "
            "ends, or choose another folder"
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
