"""Regular files, opened without a way to hang, and what a folder holds."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from rubric_synth.rejection import RejectionReason
from rubric_synth.sources.raw_text import NotTextError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


class Refused(NamedTuple):
    """An entry of a folder that is no file."""

    path: Path
    error: NotTextError


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading.

    Raises:
        NotTextError: It cannot be opened, or is a pipe or a device, which could be read forever.
    """
    try:
        # Without O_NONBLOCK, to open a pipe is to wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise unreadable(error) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotTextError(RejectionReason.UNSUPPORTED_TYPE, "not a regular file")
    return os.fdopen(handle, "rb")


def read_regular(path: Path, *, most: int) -> bytes:
    """Return the bytes of a file.

    Raises:
        NotTextError: It cannot be read, is no regular file, or has more than `most` bytes.
    """
    try:
        with open_regular(path) as file:
            data = file.read(most + 1)
            if len(data) > most:
                size = max(os.fstat(file.fileno()).st_size, len(data))
                raise NotTextError(RejectionReason.TOO_LONG, f"{size} bytes")
    except OSError as error:
        raise unreadable(error) from error
    return data


def unreadable(error: BaseException) -> NotTextError:
    """Return the refusal of a file that could not be read."""
    return NotTextError(RejectionReason.UNREADABLE, type(error).__name__)


def visible_files(folder: Path) -> Iterator[Path | Refused]:
    """Yield the files of a folder and of its subfolders in the order of their paths.

    Hidden files and folders are left alone; a link to a folder is refused, since it may lead back.
    """
    # A stack of its own: folders can lie deeper in each other than functions may.
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        try:
            if path is folder or (path.is_dir() and not path.is_symlink()):
                entries = (entry for entry in path.iterdir() if not entry.name.startswith("."))
                waiting.extend(sorted(entries, reverse=True))
            elif path.is_dir():
                error = NotTextError(RejectionReason.UNSUPPORTED_TYPE, "a link to a folder")
                yield Refused(path, error)
            else:
                yield path
        except OSError as error:
            yield Refused(path, unreadable(error))
