"""Regular files, opened without a way to hang or to leave their folder, and what a folder holds."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from rubric_synth.rejection import RejectionReason
from rubric_synth.sources.raw_text import NotTextError, too_long

# Without O_NONBLOCK, to open a pipe is to wait for its writer.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_NO_LINK: Final = _READ | os.O_NOFOLLOW


class SourceFile(NamedTuple):
    """A file that may be read."""

    path: Path
    """Where it is."""
    source: str
    """Its name in the collection."""
    root: Path | None = None
    """The folder that it must be in, without links; None for a file that the user named."""

    def open(self) -> BinaryIO:
        """Open it for reading.

        Raises:
            NotTextError: It cannot be opened, lies outside the folder, or is a pipe or a device,
                which could be read forever.
        """
        try:
            # Before it is opened: some devices do something then.
            _check_regular(self.path.stat().st_mode)
            path, root = self.path, self.root
            handle = os.open(path, _READ) if root is None else _opened_in(root, path)
        except NotTextError:
            raise
        except (OSError, ValueError) as error:
            raise unreadable(error) from error
        file = os.fdopen(handle, "rb")
        try:
            _check_regular(os.fstat(handle).st_mode)
        except NotTextError:
            file.close()
            raise
        return file

    def read(self, *, most: int) -> bytes:
        """Return its bytes.

        Raises:
            NotTextError: It cannot be read, is no regular file, or has more than `most` bytes.
        """
        try:
            with self.open() as file:
                data = file.read(most + 1)
                if len(data) > most:
                    size = max(os.fstat(file.fileno()).st_size, len(data))
                    raise too_long(f"{size} bytes", most)
        except OSError as error:
            raise unreadable(error) from error
        return data


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        detail = "not a regular file: a pipe, a device or a socket"
        raise NotTextError(RejectionReason.UNSUPPORTED_TYPE, detail)


def unreadable(error: BaseException) -> NotTextError:
    """Return the refusal of a file that could not be read."""
    told = error.strerror if isinstance(error, OSError) else None
    return NotTextError(RejectionReason.UNREADABLE, told or type(error).__name__)


def visible_files(folder: Path) -> Iterator[tuple[Path, NotTextError | None]]:
    """Yield the files of a folder and of its subfolders in the order of their paths.

    Hidden files and folders are left alone; what cannot be read comes with its refusal, and so does
    a link to a folder, since it may lead back.
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
                detail = "a link to a folder, which is not followed; name the folder as a source"
                yield path, NotTextError(RejectionReason.UNSUPPORTED_TYPE, detail)
            else:
                yield path, None
        except OSError as error:
            yield path, unreadable(error)


def _opened_in(root: Path, path: Path) -> int:
    """Open a file below a folder, step by step and never through a link.

    So that neither the file nor a folder on the way to it can become a link after the check.
    """
    real = Path(os.path.realpath(path, strict=True))
    if not real.is_relative_to(root):
        raise NotTextError(RejectionReason.OUTSIDE_FOLDER, "a link that leaves the folder")
    *folders, name = real.relative_to(root).parts
    here = os.open(root, _READ | os.O_DIRECTORY)
    try:
        for folder in folders:
            below = os.open(folder, _NO_LINK | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name, _NO_LINK, dir_fd=here)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            detail = "a link took its place while it was opened"
            raise NotTextError(RejectionReason.OUTSIDE_FOLDER, detail) from None
        raise
    finally:
        os.close(here)
