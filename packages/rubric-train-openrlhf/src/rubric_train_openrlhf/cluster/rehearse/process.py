"""Runs the rehearsal as the command would run it: another process, its log, and a deadline."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from rubric_core.files import read_file
from rubric_train_openrlhf.config import dump_config
from rubric_train_openrlhf.run.writing import write_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_train_openrlhf.config import TrainConfig

_POLL_S: Final = 0.2
_LOOK_EVERY: Final = 5
"""Polls between two looks at the arguments of the run's processes."""
_CLEAN_UP_S: Final = 60.0
_CAUSE: Final = re.compile(r"^(?:.*?: )?([A-Za-z_.]+(?:Error|Exception|Interrupt|Exit)): (.*)$")
_TAIL_LINES: Final = 400
_LONGEST_CAUSE: Final = 500


@dataclass(frozen=True)
class Ended:
    """How the process ended."""

    status: int | None
    """Exit status; None where the deadline came first."""
    wall_s: float
    log: Path
    arguments: frozenset[bytes]
    """Arguments and variables that its processes were seen with; one may be a key."""

    @property
    def cause(self) -> str:
        """The last line of the log that names an error, or its last line."""
        text = read_file(self.log).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines()[-_TAIL_LINES:] if line.strip()]
        causes = [line for line in lines if _CAUSE.match(line)]
        return (causes or lines or ["it said nothing"])[-1][:_LONGEST_CAUSE]


def run_process(
    config: TrainConfig,
    *,
    folder: Path,
    deadline_s: float,
    on_poll: Callable[[], None] | None = None,
) -> Ended:
    """Run `rubric-train run` and wait for it.

    Args:
        config: the rehearsal's.
        folder: for its configuration and its log.
        deadline_s: when to end it.
        on_poll: called a few times a second, for a progress display.

    Returns:
        How it ended. All of its processes have ended too: it is asked to stop as Ctrl-C would ask,
        and killed with its group if it has not cleaned up a minute later.
    """
    path, log = folder / "rehearsal.yaml", folder / "run.log"
    write_text(path, dump_config(config))
    command = [sys.executable, "-m", "rubric_train_openrlhf.cli", "run", str(path), "--verbose"]
    started_s = time.monotonic()
    arguments: set[bytes] = set()
    polls = 0
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603  # our own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while process.poll() is None and time.monotonic() - started_s < deadline_s:
                if on_poll is not None:
                    on_poll()
                if polls % _LOOK_EVERY == 0:
                    arguments |= _arguments_below(process.pid)
                polls += 1
                time.sleep(_POLL_S)
        finally:
            status = process.poll()
            _end(process)
    return Ended(status, time.monotonic() - started_s, log, frozenset(arguments))


def _arguments_below(pid: int) -> set[bytes]:
    """Arguments and variables of a process and of all that it has started."""
    seen: set[bytes] = set()
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in [root := psutil.Process(pid), *root.children(recursive=True)]:
            for name in ("cmdline", "environ"):
                # A system that does not show them, or a process that has ended.
                with contextlib.suppress(OSError):
                    seen.update(read_file(Path(f"/proc/{one.pid}/{name}")).split(b"\0"))
    return seen


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_CLEAN_UP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
