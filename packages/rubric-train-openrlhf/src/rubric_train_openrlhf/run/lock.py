"""One process per run folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.writing import disk_errors

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

LOCK_FILE = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Generator[None]:
    """Keep other processes out of the folder, which is made if it is missing.

    The system frees the lock of a process that ends in any way, so a lock file that a kill left
    behind stops nobody. A folder that was made here and is still empty on leaving is removed.

    Raises:
        ResumeError: another run holds the folder.
        DiskWriteError: there can be no such folder, or nothing can be written into it.
    """
    with disk_errors(folder):
        is_new = not folder.exists()
        descriptor = _take(folder)
    try:
        yield
    finally:
        # Unlinked while still held: whoever opened it in between finds it gone and tries again.
        with contextlib.suppress(OSError):
            (folder / LOCK_FILE).unlink(missing_ok=True)
        os.close(descriptor)
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()


def is_held(folder: Path) -> bool:
    """Whether a process works in the folder."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:  # nobody made one, or whoever held it has left
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def refuse_held(folder: Path) -> None:
    """Find out before anything is started that a folder is taken; `locked` alone makes sure of it.

    Raises:
        ResumeError: another run holds the folder.
    """
    if is_held(folder):
        try:
            holder = (folder / LOCK_FILE).read_text(encoding="ascii", errors="replace")
        except OSError:  # it has left meanwhile
            return
        raise _in_use(folder, holder=holder)


def _take(folder: Path) -> int:
    """Open and lock the file; once more where its holder unlinked it meanwhile."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(folder, descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                return descriptor
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace")
            os.close(descriptor)
            raise _in_use(folder, holder=holder) from None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _in_use(folder: Path, *, holder: str) -> ResumeError:
    return ResumeError(
        f"{str(folder)!r} is in use by another process, pid {holder.strip() or 'unknown'}; wait "
        "for it, stop it, or choose another `out`",
        path=folder,
    )


def _is_current(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), (folder / LOCK_FILE).stat())
    except FileNotFoundError:
        return False
