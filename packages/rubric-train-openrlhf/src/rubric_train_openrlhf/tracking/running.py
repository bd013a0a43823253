"""The processes of a run's trackers, from the run's side: they are started, and ended in time."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from threading import Thread

import structlog

from rubric_core import MissingExtraError
from rubric_core.errors import install_command
from rubric_core.files import open_to_append
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.writing import disk_errors
from rubric_train_openrlhf.tracking.process import END_S

_MODULE = "rubric_train_openrlhf.tracking.process"
_PACKAGE = "rubric-train-openrlhf"
_KEPT = "all figures are in the run folder, and --resume shows the rest"

_log = structlog.get_logger()


def check_installed(config: TrainConfig) -> None:
    """Make sure that the libraries of a run's trackers are there; none is imported.

    Raises:
        MissingExtraError: one is not; names the extra that brings it.
    """
    for place, tracker in enumerate(config.trackers):
        if find_spec(tracker.type) is None:
            raise MissingExtraError(
                f"trackers.{place}.type={tracker.type!r} needs the package "
                f"{tracker.type!r}, which is not installed: "
                f"{install_command(_PACKAGE, tracker.type)}, or leave the tracker out"
            )


def missing_lines(config: TrainConfig) -> Iterator[str]:
    """Say for a plan which libraries of trackers are not installed here."""
    try:
        check_installed(config)
    except MissingExtraError as error:
        yield str(error)


class _Process:
    """The process of one tracker, and the thread that waits for its line."""

    def __init__(
        self, folder: RunFolder, kind: str, tell: Callable[[str], None]
    ) -> None:
        self._kind = kind
        self._tell = tell
        with disk_errors(folder.trackers):
            folder.trackers.mkdir(exist_ok=True)
            log = open_to_append(folder.trackers / f"{kind}.log")
        with log:
            self._child = subprocess.Popen(  # noqa: S603  # our own module
                [sys.executable, "-m", _MODULE, str(folder.path), kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # A signal to the run's process group is not for it.
                start_new_session=True,
            )
        self._is_late = False
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def let_end(self) -> None:
        """Let it know that the run has ended."""
        assert self._child.stdin is not None  # noqa: S101  # a pipe was asked for
        # It may have ended already.
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.close()

    def end(self, *, within_s: float) -> None:
        """Give it time to end, then kill it and what its library started."""
        try:
            self._child.wait(within_s)
        except subprocess.TimeoutExpired:
            self._is_late = True
        # What its library left running.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._listener.join()

    def _listen(self) -> None:
        """Wait for the line of a tracker that failed, and pass it on."""
        assert self._child.stdout is not None  # noqa: S101  # a pipe was asked for
        with self._child.stdout as output:
            # One line, not to the end of the file: what its library left may hold it open.
            line = output.readline()
        status = self._child.wait()
        if line:
            error = json.loads(line)["error"]
        elif self._is_late:
            error = (
                f"did not take the last rows within {END_S} s: it is slow or not there"
            )
        elif status:
            error = f"its process ended by status {status}"
        else:
            return
        _log.warning(
            "train.tracker.stopped", tracker=self._kind, error=error, todo=_KEPT
        )
        self._tell(
            f"tracker {self._kind} has stopped: {error}; nothing more is logged to it; "
            f"{_KEPT}"
        )


@dataclass
class Trackers:
    """The trackers of a run."""

    config: TrainConfig
    tell: Callable[[str], None]
    """Told of each tracker that has stopped, in one line."""
    progress: Progress
    """Shows the wait for the trackers' end."""
    _processes: list[_Process] = field(default_factory=list[_Process], init=False)

    def start(self) -> None:
        """Start their processes. The run folder has its configuration by now.

        Raises:
            DiskWriteError: there is no room for their logs.
        """
        folder = RunFolder(self.config.out)
        for tracker in self.config.trackers:
            self._processes.append(_Process(folder, tracker.type, self.tell))

    def close(self) -> None:
        """Let them show the rest within `END_S`, and end them."""
        if not self._processes:
            return
        with self.progress.phase("showing the rest to trackers"):
            for process in self._processes:
                process.let_end()
            gives_up_s = time.monotonic() + END_S
            for process in self._processes:
                process.end(within_s=max(0.0, gives_up_s - time.monotonic()))


@contextlib.contextmanager
def tracked(
    config: TrainConfig,
    *,
    progress: Progress,
    tell: Callable[[str], None] | None = None,
) -> Generator[Trackers]:
    """Keep the trackers of a run, once they are started, until the run has ended in any way.

    Args:
        config: of the run.
        progress: shows the wait for their end.
        tell: told of each tracker that has stopped, in one line; the log is too.

    Raises:
        MissingExtraError: the library of one is not installed.
    """
    check_installed(config)
    trackers = Trackers(config, tell or (lambda _: None), progress)
    try:
        yield trackers
    finally:
        trackers.close()
