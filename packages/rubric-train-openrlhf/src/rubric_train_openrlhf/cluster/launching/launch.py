"""Starting the driver of a run, wherever it runs, and showing its phases to its end."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import structlog

from rubric_core import ConfigError, FolderLockError, MissingExtraError, RubricError
from rubric_core.errors import shortened
from rubric_core.locks import refuse_locked
from rubric_judge.ui.console.command import sigterm_raised
from rubric_judge.ui.console.progress import Progress, Steps
from rubric_train_openrlhf.cluster import orphans, settings
from rubric_train_openrlhf.cluster.failure import read_failure
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.config.train import TrainConfig, dump_config
from rubric_train_openrlhf.errors import ClusterError, DiskWriteError, ResumeError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import RunSummary
from rubric_train_openrlhf.run.writing import write_text


class FollowedPhases(Steps):
    """Shows here the phases that the processes of a run tell in summary.json."""

    def __init__(self, out: Path, progress: Progress) -> None:
        """Note what an earlier start has left there."""
        super().__init__(progress)
        self._folder = RunFolder(out)
        self._left = self._signed(self._folder.told)

    def __enter__(self) -> Self:
        """Say that the driver is being started, which takes seconds before it can say so itself."""
        self.to("starting the driver")
        return super().__enter__()

    def poll(self) -> None:
        """Show what is being done now."""
        summary = self._folder.told
        if summary is None or self._signed(summary) == self._left:
            return
        # Steps that were finished since the last look, when their phase may have ended too.
        if self._phase is not None and self._phase.total is not None:
            finished = min(summary.steps, self._phase.total)
            self._phase.done = max(self._phase.done, finished)
        if summary.phase is None:
            return
        total = summary.phase_total
        done = summary.phase_done
        unit = "" if total is None else "steps"
        phase = self.to(summary.phase, total=total, unit=unit, done=done)
        phase.done = done
        phase.note = summary.note or ""

    @staticmethod
    def _signed(summary: RunSummary | None) -> tuple[object, ...] | None:
        return (
            None if summary is None else (summary.updated_at, summary.pid, summary.host)
        )


_DRIVER = "rubric_train_openrlhf.cluster.launching.driver"
_log = structlog.get_logger()

GRACE_S = 60.0
"""For a driver to end its cluster, before it is killed."""


def driver_words(file: Path, *, failure: Path, resume: bool) -> list[str]:
    """Arguments for Python that run the driver."""
    return [
        "-m",
        _DRIVER,
        str(file),
        "--failure",
        str(failure),
        *(["--resume"] if resume else []),
    ]


@contextlib.contextmanager
def driver_here(
    config: TrainConfig, words: Sequence[str]
) -> Generator[Callable[[], int | None]]:
    """Start a child process, which starts a cluster on this machine or joins the one it is part of.

    On leaving, it is ended with all that it left running.

    Args:
        config: of the run.
        words: as `driver_words` gives them.

    Returns:
        What tells its exit status: negative for a signal, None while it runs.
    """
    command = [sys.executable, *words, "--parent", str(os.getpid())]
    environment = {**settings.inherited(), **settings.local_environment(config)}
    # In a session of its own: Ctrl-C reaches this process alone, which then ends that one.
    process = subprocess.Popen(command, env=environment, start_new_session=True)  # noqa: S603
    try:
        yield process.poll
    finally:
        if process.poll() is None:
            _log.warning("train.stopping", longest_s=GRACE_S)
        orphans.end_session(process, by=signal.SIGTERM, within_s=GRACE_S)


PATIENCE_S = 600.0
"""How long a cluster that does not answer is asked again: the run needs nobody to follow it."""
_ASK_EVERY_S = 1.0
_SUCCEEDED = "SUCCEEDED"
"""As Ray names it."""
_UNANSWERED = (OSError, RuntimeError)
"""Errors that Ray's client raises when the network fails, or the server does."""


@dataclass
class DriverJob:
    """A job of Ray's that was handed in as `ray job submit` does, and is asked how it stands."""

    client: Any
    """Client of the cluster's dashboard; any object with the used methods of Ray's client."""
    name: str
    patience_s: float = PATIENCE_S
    _status: int | None = field(default=None, init=False)
    _asked_s: float = field(default=float("-inf"), init=False)
    _answered_s: float = field(default_factory=time.monotonic, init=False)

    @classmethod
    @contextlib.contextmanager
    def started(
        cls, config: TrainConfig, words: Sequence[str]
    ) -> Generator[Callable[[], int | None]]:
        """Hand the job in; on leaving, stop it if it still runs.

        Args:
            config: of the run.
            words: as `driver_words` gives them.

        Returns:
            What tells its exit status, as `status` does.

        Raises:
            ClusterError: the cluster does not take it.
        """
        # A second to load, which a driver on this machine has no need of.
        from ray.job_submission import JobSubmissionClient

        address = config.cluster.ray.dashboard
        name = f"rubric-{uuid4().hex[:12]}"
        command = entrypoint(config, words)
        # Ray would kill the driver after three seconds.
        variables = {"RAY_JOB_STOP_WAIT_TIME_S": str(int(GRACE_S))}
        try:
            client = JobSubmissionClient(address)
            client.submit_job(
                entrypoint=command,
                submission_id=name,
                runtime_env={"env_vars": variables},
            )
        except _UNANSWERED as error:
            message = f"no job can be handed in at {address!r}: {_shown(error)}"
            raise ClusterError(message) from error
        _log.info("train.job.submitted", name=name, address=address)
        job = cls(client, name)
        try:
            yield job.status
        finally:
            job.end()
            # What the driver printed before it had a file for that.
            with contextlib.suppress(*_UNANSWERED, DiskWriteError):
                write_text(
                    ClusterPaths(config.out).logs / "job.log", client.get_job_logs(name)
                )

    def status(self) -> int | None:
        """Exit status of the job, None while it runs or may run.

        Raises:
            ClusterError: the cluster has not answered for `patience_s`.
        """
        if self._status is not None or time.monotonic() < self._asked_s + _ASK_EVERY_S:
            return self._status
        try:
            reported: Any = self.client.get_job_status(self.name)
        except _UNANSWERED as error:
            silent_s = time.monotonic() - self._answered_s
            if silent_s > self.patience_s:
                raise ClusterError(
                    f"the cluster has not answered for {silent_s:.0f} s ({_shown(error)}); "
                    f"the job {self.name!r} may go on there: see it, or stop it, with `ray "
                    "job`"
                ) from error
        else:
            self._answered_s = time.monotonic()
            self._status = (
                int(reported != _SUCCEEDED) if reported.is_terminal() else None
            )
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


def entrypoint(config: TrainConfig, words: Sequence[str]) -> str:
    """The job's command for a shell on the head node.

    It runs where this process does, if that folder is there, so that relative paths mean the same;
    with the Python of this path, or else the one that Ray's processes find. The variables go
    before the command: in Ray's environment of the job they would stand in the way of those that
    the driver gives its workers.
    """
    variables = [
        f"{key}={value}" for key, value in settings.process_environment(config).items()
    ]
    python = f'"$(command -v {shlex.quote(sys.executable)} || command -v python)"'
    return (
        f"cd {shlex.quote(str(Path.cwd()))} 2>/dev/null; "
        f"exec env {shlex.join(variables)} {python} {shlex.join(words)}"
    )


def _shown(error: Exception) -> str:
    """One line of what Ray's client says; a server's error carries a traceback."""
    return shortened(" ".join(str(error).split()), 300)


_LOOK_EVERY_S = 0.25
_STACK = ("ray", "openrlhf", "deepspeed", "vllm")


def launch(
    config: TrainConfig, *, resume: bool = False, progress: Progress | None = None
) -> RunSummary:
    """Run OpenRLHF to its end in processes of its own; what ends this process ends them.

    Args:
        config: of the run.
        resume: go on from the last checkpoint in `config.out`.
        progress: told of every phase; nothing is shown if left out.

    Returns:
        How the run ended; the same as summary.json.

    Raises:
        RubricError: what ended the run, with its own type where it is one of ours.
        ResumeError: another run holds the folder; nothing was started.
        MissingExtraError: OpenRLHF is not installed.
        ClusterError: the driver ended without a word; says where its output is.
    """
    check_installed(config)
    refuse_locked(config.out)
    orphans.clear_abandoned()
    started = driver_here if config.cluster.ray.dashboard is None else DriverJob.started
    with _files(config) as (file, failure):
        write_text(file, dump_config(config))
        words = driver_words(file, failure=failure, resume=resume)
        try:
            with (
                sigterm_raised(),
                FollowedPhases(config.out, progress or Progress.silent()) as phases,
                started(config, words) as ask,
            ):
                while (status := ask()) is None:
                    phases.poll()
                    time.sleep(_LOOK_EVERY_S)
                phases.poll()
                if status:
                    # Within the phase: it was left, and is not called done.
                    raise _error(status, failure=failure, config=config)
        finally:
            # What a killed driver could not end.
            orphans.clear_abandoned()
    return RunFolder(config.out).read_summary()


def check_installed(config: TrainConfig) -> None:
    """Make sure that this machine has what it needs of the stack.

    Raises:
        MissingExtraError: it has not; names the extra that brings it.
    """
    # Whoever hands a run in needs Ray's client alone.
    needed = _STACK if config.cluster.ray.dashboard is None else ("ray",)
    if missing := [name for name in needed if find_spec(name) is None]:
        extra = "openrlhf-cpu" if config.cluster.device == "cpu" else "openrlhf"
        raise MissingExtraError(
            f"backend `openrlhf` needs {', '.join(missing)}: "
            f"run `uv sync --extra {extra}` in the checkout (CPython 3.11 on Linux)"
        )


@contextlib.contextmanager
def _files(config: TrainConfig) -> Generator[tuple[Path, Path]]:
    """Places for the driver's configuration and its last error, which it can reach."""
    if config.cluster.ray.dashboard is None:
        with orphans.temporary_folder(orphans.COMMAND) as folder:
            yield folder / "config.yaml", folder / "failure"
        return
    # The cluster's head node sees this folder, as all of its nodes do, and no other of ours. The
    # names are this command's own: another's run may be going on in the folder.
    folder = ClusterPaths(config.out.absolute()).folder
    name = uuid4().hex[:12]
    files = folder / f"driver.{name}.yaml", folder / f"driver.{name}.failure"
    try:
        yield files
    finally:
        for file in files:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
        # A run that was not taken leaves nothing.
        for empty in (folder, folder.parent):
            with contextlib.suppress(OSError):
                empty.rmdir()


def _error(status: int, *, failure: Path, config: TrainConfig) -> RubricError:
    logs = ClusterPaths(config.out).logs
    if (cause := read_failure(failure)) is not None:
        # What is wrong with the input is not in the logs, which an earlier start left.
        if logs.exists() and not isinstance(
            cause, ResumeError | FolderLockError | ConfigError
        ):
            cause.add_note(f"logs: {logs}")
        return cause
    how = f"signal {-status}" if status < 0 else f"status {status}"
    if status == -signal.SIGKILL:
        how += ", as the system ends a process where memory runs out,"
    return ClusterError(
        f"the driver of the run ended by {how} and named no error; see {str(logs)!r}, and go "
        "on with --resume"
    )
