"""One run at a time in a work folder."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from rubric_synth.errors import WorkFolderError

if TYPE_CHECKING:
    from pathlib import Path


class FolderLock:
    """A lock that the kernel takes back when its process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            WorkFolderError: Another process has it.
        """
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            message = (
                f"another run is at work in {str(path.parent)!r} (process {holder or 'unknown'}): "
                "wait until it ends, or choose another folder"
            )
            raise WorkFolderError(message, path=path.parent) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give it back."""
        os.close(self._descriptor)
