"""Starting the driver of a run, wherever it runs, and showing its phases to its end."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Generator
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from rubric_core import ConfigError, FolderLockError, MissingExtraError, RubricError
from rubric_core.locks import refuse_locked
from rubric_judge.console import Progress, Steps
from rubric_judge.console.command import sigterm_raised
from rubric_train_openrlhf.cluster.failure import read_failure
from rubric_train_openrlhf.cluster.launching.drivers import DriverHere, DriverJob
from rubric_train_openrlhf.cluster.orphans import (
    COMMAND,
    clear_abandoned,
    temporary_folder,
)
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.config import TrainConfig, dump_config
from rubric_train_openrlhf.errors import ClusterError, ResumeError
from rubric_train_openrlhf.run import RunFolder
from rubric_train_openrlhf.run.writing import write_text

if TYPE_CHECKING:
    from rubric_train_openrlhf.run.records import RunSummary


class FollowedPhases:
    """Shows here the phases that the processes of a run tell in summary.json."""

    def __init__(self, out: Path, progress: Progress) -> None:
        """Note what an earlier start has left there."""
        self._folder = RunFolder(out)
        self._left = self._signed(self._read())
        self._steps = Steps(progress)

    def __enter__(self) -> Self:
        """Say that the driver is being started, which takes seconds before it can say so itself."""
        self._steps.to("starting the driver")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Show nothing any more."""
        self._steps.__exit__(kind, error, trace)

    def poll(self) -> None:
        """Show what is being done now."""
        summary = self._read()
        if summary is None or summary.phase is None or self._signed(summary) == self._left:
            return
        total, done = summary.phase_total, summary.phase_done
        unit = "" if total is None else "steps"
        phase = self._steps.to(summary.phase, total=total, unit=unit, done=done)
        phase.done, phase.note = done, summary.note or ""

    def _read(self) -> RunSummary | None:
        try:
            return self._folder.read_summary()
        except ResumeError:
            return None

    @staticmethod
    def _signed(summary: RunSummary | None) -> tuple[object, ...] | None:
        return None if summary is None else (summary.updated_at, summary.pid, summary.host)


_LOOK_EVERY_S = 0.25
_STACK = ("ray", "openrlhf", "deepspeed", "vllm")


def launch(
    config: TrainConfig,
    *,
    resume: bool = False,
    progress: Progress | None = None,
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
    clear_abandoned()
    with _files(config) as (file, failure):
        write_text(file, dump_config(config))
        try:
            with (
                sigterm_raised(),
                FollowedPhases(config.out, progress or Progress.silent()) as phases,
                _started(config, file=file, failure=failure, resume=resume) as driver,
            ):
                while (status := driver.status()) is None:
                    phases.poll()
                    time.sleep(_LOOK_EVERY_S)
                phases.poll()
                if status:
                    # Within the phase: it was left, and is not called done.
                    raise _error(status, failure=failure, config=config)
        finally:
            # What a driver could not end that was killed.
            clear_abandoned()
    return RunFolder(config.out).read_summary()


def check_installed(config: TrainConfig) -> None:
    """Make sure that this machine has what it needs of the stack.

    Raises:
        MissingExtraError: it has not; names the extra that brings it.
    """
    # Whoever hands a run in needs Ray's client alone.
    needed = _STACK if config.cluster.ray.dashboard is None else ("ray",)
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        extra = "openrlhf-cpu" if config.cluster.device == "cpu" else "openrlhf"
        raise MissingExtraError(
            f"backend `openrlhf` needs {', '.join(missing)}: "
            f"run `uv sync --extra {extra}` in the checkout (CPython 3.11 on Linux)"
        )


def _started(
    config: TrainConfig, *, file: Path, failure: Path, resume: bool
) -> AbstractContextManager[DriverHere | DriverJob]:
    kind = DriverHere if config.cluster.ray.dashboard is None else DriverJob
    return kind.started(config, file=file, failure=failure, resume=resume)


@contextlib.contextmanager
def _files(config: TrainConfig) -> Generator[tuple[Path, Path]]:
    """Places for the driver's configuration and its last error, which it can reach."""
    if config.cluster.ray.dashboard is None:
        with temporary_folder(COMMAND) as folder:
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
    cause = read_failure(failure)
    if cause is not None:
        # What is wrong with the input is not in the logs, which an earlier start left.
        if logs.exists() and not isinstance(cause, ResumeError | FolderLockError | ConfigError):
            cause.add_note(f"logs: {logs}")
        return cause
    how = f"signal {-status}" if status < 0 else f"status {status}"
    if status == -signal.SIGKILL:
        how += ", as the system ends a process where memory runs out,"
    return ClusterError(
        f"the driver of the run ended by {how} and named no error; see {str(logs)!r}, and go on "
        "with --resume"
    )
