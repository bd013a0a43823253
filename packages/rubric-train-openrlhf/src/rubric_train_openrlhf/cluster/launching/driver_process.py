"""The driver as a process to wait for and to end: a child of this one, on a machine of the run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import structlog

from rubric_train_openrlhf.cluster.processes.environment import local_environment
from rubric_train_openrlhf.cluster.processes.settings import inherited

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from rubric_train_openrlhf.config import TrainConfig

_DRIVER = "rubric_train_openrlhf.cluster.launching.driver"
GRACE_S = 60.0
"""For a driver to end its cluster, before it is killed."""

_log = structlog.get_logger()


def driver_words(file: Path, *, failure: Path, resume: bool) -> list[str]:
    """Arguments for Python that run the driver."""
    words = ["-m", _DRIVER, str(file), "--failure", str(failure)]
    return [*words, "--resume"] if resume else words


@dataclass(frozen=True)
class DriverHere:
    """A child process, which starts a cluster on this machine or joins the one it is part of."""

    process: subprocess.Popen[bytes]

    @classmethod
    @contextlib.contextmanager
    def started(
        cls, config: TrainConfig, *, file: Path, failure: Path, resume: bool
    ) -> Generator[Self]:
        """Start the driver; on leaving, end it and all that it left running."""
        words = [sys.executable, *driver_words(file, failure=failure, resume=resume)]
        words += ["--parent", str(os.getpid())]
        environment = {**inherited(), **local_environment(config)}
        # In a session of its own: Ctrl-C reaches this process alone, which then ends that one.
        process = subprocess.Popen(words, env=environment, start_new_session=True)  # noqa: S603
        try:
            yield cls(process)
        finally:
            cls(process).end()

    def status(self) -> int | None:
        """Exit status; negative for a signal, None while it runs."""
        return self.process.poll()

    def end(self) -> None:
        """Ask the driver to end its cluster, then kill whatever of its session is left.

        A second Ctrl-C meanwhile goes over to the second part.
        """
        try:
            if self.process.poll() is None:
                _log.warning("train.stopping", longest_s=GRACE_S)
                self.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(timeout=GRACE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
