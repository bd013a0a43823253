"""Where a driver and all that it starts print to: its terminal first, then the run's log."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rubric_core.files import open_to_append
from rubric_train_openrlhf.log import configure_logging
from rubric_train_openrlhf.run.writing import disk_errors

if TYPE_CHECKING:
    from pathlib import Path


class Output:
    """Standard output and error of this process, which its children inherit."""

    def __init__(self) -> None:
        """Show what whoever started the process has to know, and no more."""
        configure_logging(verbose=False)
        self._first = os.dup(sys.stderr.fileno())
        self.is_file = False

    def turn_to(self, path: Path) -> None:
        """Send all that is printed from now on to a file, with every step of ours.

        Raises:
            DiskWriteError: there can be no such file.
        """
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_to_append(path) as log:
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                    os.dup2(log.fileno(), stream.fileno())
        self.is_file = True
        configure_logging(verbose=True)

    def say_first(self, line: str) -> None:
        """Print a line where the process printed to when it started."""
        os.write(self._first, f"{line}\n".encode())
