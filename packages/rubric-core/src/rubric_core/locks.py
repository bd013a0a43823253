"""Locks that admit one process at a time to a folder or a file."""

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path

from rubric_core.errors import FolderLockError

LOCK_FILE = ".lock"
_MOST_MISSING = 100
"""Most times in a row that another process may remove the folder as we make it."""


@contextlib.contextmanager
def file_lock(path: Path, *, wait: bool = False) -> Generator[None]:
    """Keep every other process that asks for the same lock from writing a file.

    Args:
        path: the file, which need not be there; a link is the file that it leads to. The lock is a
            hidden file beside it, which is removed on leaving.
        wait: whether to wait until the lock is free.

    Raises:
        FolderLockError: another process holds it, or nothing can be written beside it.
    """
    place = path.resolve()
    lock = place.with_name(f".{place.name}{LOCK_FILE}")
    try:
        descriptor = _take(lock, path, wait=wait)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        yield
    finally:
        _release(lock, descriptor)


@contextlib.contextmanager
def folder_lock(folder: Path, *, wait: bool = False) -> Generator[None]:
    """Keep every other run out of a folder, which is made if it is missing.

    The system frees the lock of a process that ends in any way, so a lock file that a kill left
    behind stops nobody. A folder that was made here and is still empty on leaving is removed.

    Args:
        folder: the folder to lock.
        wait: whether to wait until the lock is free.

    Raises:
        FolderLockError: another run holds the folder, or it cannot be made or written into.
    """
    try:
        is_new = not folder.exists()
        descriptor = _take(folder / LOCK_FILE, folder, wait=wait)
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        yield
    finally:
        _release(folder / LOCK_FILE, descriptor)
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()


def is_locked(folder: Path) -> bool:
    """Return whether a run is at work in the folder."""
    try:
        refuse_locked(folder)
    except FolderLockError:
        return True
    return False


def refuse_locked(folder: Path) -> None:
    """Refuse a folder that is in use, before anything is started; only `folder_lock` is certain.

    Raises:
        FolderLockError: another run holds the folder.
    """
    try:
        descriptor = os.open(
            folder / LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        )
    except OSError:  # there is no lock file, or its holder has left
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(folder, descriptor) from None
    finally:
        os.close(descriptor)


def _in_use(place: Path, descriptor: int) -> FolderLockError:
    holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
    problem = f"{str(place)!r} is in use by another process, pid {holder}"
    remedy = "wait for it, stop it, or choose another place"
    return FolderLockError(f"{problem}: {remedy}", path=place)


def _unwritable(place: Path, error: OSError) -> FolderLockError:
    problem = f"cannot write {str(place)!r}: {error.strerror or error}"
    return FolderLockError(f"{problem}; make room, or choose another place", path=place)


def _take(lock: Path, place: Path, *, wait: bool = False) -> int:
    """Open and lock the file; repeat if its holder unlinked it meanwhile."""
    operation = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    missing = 0
    while True:
        lock.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(
                lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644
            )
        except FileNotFoundError:
            # Also raised in a folder without files, such as /proc.
            missing += 1
            if missing > _MOST_MISSING:
                raise
            continue
        with contextlib.ExitStack() as unless_taken:
            unless_taken.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, operation)
            except BlockingIOError:
                raise _in_use(place, descriptor) from None
            if _is_current(lock, descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                unless_taken.pop_all()
                return descriptor


def _release(lock: Path, descriptor: int) -> None:
    # Unlinked while still held: a process that opened it in between finds it gone and tries again.
    with contextlib.suppress(OSError):
        lock.unlink(missing_ok=True)
    os.close(descriptor)


def _is_current(lock: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), lock.stat())
    except FileNotFoundError:
        return False


def hold(descriptor: int, path: Path) -> bool:
    """Lock a temporary file or folder until it is closed: its writer is alive.

    Returns:
        Whether it is still there: before it was locked it could be taken for a killed writer's.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # not every file system has locks
        return True
    return path.exists()


@contextlib.contextmanager
def abandoned(path: Path) -> Generator[bool]:
    """Tell whether nobody writes a temporary file or folder, and let nobody begin in the block.

    Where that cannot be told, without locks or the right to read, somebody may be writing it.
    """
    if path.is_symlink():
        yield True  # it holds nothing
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        # A shared lock: on NFS, the other kind needs a file that is open to write.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)
