"""One process at a time in a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final

from rubric_core.errors import FolderLockError

LOCK_FILE: Final = ".lock"


@contextlib.contextmanager
def folder_lock(folder: Path, *, wait: bool = False) -> Generator[None]:
    """Keep every other run out of a folder, which is made if it is missing.

    The system frees the lock of a process that ends in any way, so a lock file that a kill left
    behind stops nobody. A folder that was made here and is still empty on leaving is removed.

    Args:
        folder: that is locked.
        wait: until whoever holds it has left.

    Raises:
        FolderLockError: another run holds the folder, or it cannot be made or written into.
    """
    try:
        is_new = not folder.exists()
        descriptor = _take(folder, wait=wait)
    except OSError as error:
        problem = f"cannot write {str(folder)!r}: {error.strerror or error}"
        remedy = "make room, or choose another folder"
        raise FolderLockError(f"{problem}; {remedy}", path=folder) from error
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


def is_locked(folder: Path) -> bool:
    """Whether a run is at work in the folder."""
    try:
        refuse_locked(folder)
    except FolderLockError:
        return True
    return False


def refuse_locked(folder: Path) -> None:
    """Find out before anything is started that a folder is in use; `folder_lock` makes sure of it.

    Raises:
        FolderLockError: another run holds the folder.
    """
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # nobody made one, or whoever held it has left
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(folder, descriptor) from None
    finally:
        os.close(descriptor)


def _in_use(folder: Path, descriptor: int) -> FolderLockError:
    holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
    problem = f"{str(folder)!r} is in use by another process, pid {holder}"
    remedy = "wait for it, stop it, or choose another folder"
    return FolderLockError(f"{problem}: {remedy}", path=folder)


def _take(folder: Path, *, wait: bool) -> int:
    """Open and lock the file; once more where its holder unlinked it meanwhile."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(
                folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644
            )
        except FileNotFoundError:
            continue
        with contextlib.ExitStack() as unless_taken:
            unless_taken.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _in_use(folder, descriptor) from None
            if _is_current(folder, descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                unless_taken.pop_all()
                return descriptor


def _is_current(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), (folder / LOCK_FILE).stat())
    except FileNotFoundError:
        return False
