"""Files made beside a folder's own ones, which they replace when all of them are whole."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import IO, TYPE_CHECKING, Final

from rubric_core.locks import folder_lock
from rubric_synth.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

STAGING_FOLDER: Final = ".collecting"


class LineSpool:
    """Lines on disk, found again by their place: memory does not grow with their length."""

    def __init__(self, path: Path, shown: Path) -> None:
        """Make the file; errors name `shown`, which is what the reader knows."""
        self._shown = shown
        self._size = 0
        with writing_to(shown):
            self._file: IO[bytes] = path.open("w+b")

    def append(self, line: bytes) -> tuple[int, int]:
        """Write a line and return its place."""
        place = (self._size, len(line))
        with writing_to(self._shown):
            self._file.write(line)
        self._size += len(line)
        return place

    def read(self, place: tuple[int, int]) -> bytes:
        """Read a line back."""
        offset, length = place
        with writing_to(self._shown):
            if self._file.tell() != offset:
                self._file.seek(offset)
            return self._file.read(length)

    def close(self) -> None:
        """Close the file, written or not."""
        with contextlib.suppress(OSError):
            self._file.close()


class Staging:
    """A hidden folder inside the one that is to be written."""

    def __init__(self, out: Path) -> None:
        """See `staging`."""
        self._out = out
        self._folder = out / STAGING_FOLDER
        self._spools: list[LineSpool] = []
        self._written: list[str] = []

    def spool(self, name: str, *, shown: str) -> LineSpool:
        """Make a file of lines that is gone at the end."""
        spool = LineSpool(self._folder / name, self._out / shown)
        self._spools.append(spool)
        return spool

    def write(self, name: str, lines: Iterable[bytes]) -> Path:
        """Write a file whole; it takes its place with `publish`."""
        path = self._folder / name
        with writing_to(self._out / name), path.open("wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        self._written.append(name)
        return path

    def publish(self) -> None:
        """Put all written files into their places, in the order of their writing."""
        for name in self._written:
            with writing_to(self._out / name):
                (self._folder / name).replace(self._out / name)

    def close(self) -> None:
        """Remove what is left."""
        for spool in self._spools:
            spool.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.contextmanager
def staging(out: Path) -> Generator[Staging]:
    """Keep other processes out of a folder and make files for it; without `publish`, none stays.

    What a killed process left is removed. A folder that was made here, with the folders above it,
    is removed again if nothing was put into it.

    Raises:
        FolderLockError: Another process is writing into the folder, or it cannot be made.
        OutputError: It cannot be written.
    """
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        with folder_lock(out):
            staged = Staging(out)
            try:
                with writing_to(out):
                    shutil.rmtree(out / STAGING_FOLDER, ignore_errors=True)
                    (out / STAGING_FOLDER).mkdir()
                yield staged
            finally:
                staged.close()
    finally:
        with contextlib.suppress(OSError):
            for folder in made[1:]:
                folder.rmdir()


@contextlib.contextmanager
def writing_to(path: Path) -> Generator[None]:
    """Turn what the system refuses into an `OutputError` that names the path."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        message = (
            f"cannot write {str(path)!r}: {error.strerror or type(error).__name__}; "
            "nothing was changed, free the space or choose another folder"
        )
        raise OutputError(message, path=path) from error
