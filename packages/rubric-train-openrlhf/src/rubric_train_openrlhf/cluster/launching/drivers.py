"""The driver to wait for and to end: a child process of this one, or a job of a distant cluster."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import structlog

from rubric_train_openrlhf.cluster.settings import (
    ClusterPaths,
    inherited,
    local_environment,
    process_environment,
)
from rubric_train_openrlhf.errors import ClusterError, DiskWriteError
from rubric_train_openrlhf.run.writing import write_text

if TYPE_CHECKING:
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


PATIENCE_S = 600.0
"""How long a cluster that does not answer is asked again: the run needs nobody to follow it."""
_ASK_EVERY_S = 1.0
_SUCCEEDED = "SUCCEEDED"
"""As Ray names it."""
_UNANSWERED = (OSError, RuntimeError)
"""What Ray's client raises for a network that fails, and for a server that does."""


@dataclass
class DriverJob:
    """A job of Ray's that was handed in as `ray job submit` does, and is asked how it stands."""

    client: Any
    """Of the cluster's dashboard; any object with the methods of Ray's client that are used."""
    name: str
    patience_s: float = PATIENCE_S
    _status: int | None = field(default=None, init=False)
    _asked_s: float = field(default=float("-inf"), init=False)
    _answered_s: float = field(default_factory=time.monotonic, init=False)

    @classmethod
    @contextlib.contextmanager
    def started(
        cls, config: TrainConfig, *, file: Path, failure: Path, resume: bool
    ) -> Generator[Self]:
        """Hand the job in; on leaving, stop it if it still runs.

        Raises:
            ClusterError: the cluster does not take it.
        """
        # A second to load, which a driver on this machine has no need of.
        from ray.job_submission import JobSubmissionClient

        address = config.cluster.ray.dashboard
        name = f"rubric-{uuid4().hex[:12]}"
        try:
            client = JobSubmissionClient(address)
            client.submit_job(
                entrypoint=entrypoint(config, file=file, failure=failure, resume=resume),
                submission_id=name,
                # Ray would kill the driver after three seconds.
                runtime_env={"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(int(GRACE_S))}},
            )
        except _UNANSWERED as error:
            raise ClusterError(
                f"no job can be handed in at {address!r}: {_shown(error)}"
            ) from error
        _log.info("train.job.submitted", name=name, address=address)
        job = cls(client, name)
        try:
            yield job
        finally:
            job.end()
            job.keep_output(ClusterPaths(config.out).logs / "job.log")

    def status(self) -> int | None:
        """Exit status of the job, None while it runs or may run.

        Raises:
            ClusterError: the cluster has not answered for `patience_s`.
        """
        if self._status is None and time.monotonic() >= self._asked_s + _ASK_EVERY_S:
            self._status = self._ask()
            self._asked_s = time.monotonic()
        return self._status

    def end(self) -> None:
        """Stop the job if it runs, and wait until the cluster says that it has ended."""
        if self._status is not None:
            return
        _log.warning("train.stopping", longest_s=GRACE_S)
        gives_up_s = time.monotonic() + GRACE_S + 2 * _ASK_EVERY_S
        try:
            self.client.stop_job(self.name)
            while self.status() is None and time.monotonic() < gives_up_s:
                time.sleep(_ASK_EVERY_S)
        except (*_UNANSWERED, ClusterError) as error:
            _log.warning("train.job.not_stopped", name=self.name, error=_shown(error))

    def keep_output(self, path: Path) -> None:
        """Write down what the driver printed before it had a file for that."""
        with contextlib.suppress(*_UNANSWERED, DiskWriteError):
            write_text(path, self.client.get_job_logs(self.name))

    def _ask(self) -> int | None:
        try:
            status: Any = self.client.get_job_status(self.name)
        except _UNANSWERED as error:
            silent_s = time.monotonic() - self._answered_s
            if silent_s > self.patience_s:
                raise ClusterError(
                    f"the cluster has not answered for {silent_s:.0f} s ({_shown(error)}); the job "
                    f"{self.name!r} may go on there: see it, or stop it, with `ray job`"
                ) from error
            return None
        self._answered_s = time.monotonic()
        if not status.is_terminal():
            return None
        return 0 if status == _SUCCEEDED else 1


def entrypoint(config: TrainConfig, *, file: Path, failure: Path, resume: bool) -> str:
    """The job's command for a shell on the head node.

    It runs where this process does, if that folder is there, so that relative paths mean the same;
    with the Python of this path, or else the one that Ray's processes find. The variables go
    before the command: in Ray's environment of the job they would stand in the way of those that
    the driver gives its workers.
    """
    variables = [f"{key}={value}" for key, value in process_environment(config).items()]
    words = driver_words(file, failure=failure, resume=resume)
    python = f'"$(command -v {shlex.quote(sys.executable)} || command -v python)"'
    return (
        f"cd {shlex.quote(str(Path.cwd()))} 2>/dev/null; "
        f"exec env {shlex.join(variables)} {python} {shlex.join(words)}"
    )


def _shown(error: Exception) -> str:
    """One line of what Ray's client says; a server's error carries a traceback."""
    return " ".join(str(error).split())[:300]
