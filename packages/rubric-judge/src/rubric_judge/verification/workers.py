"""Checks that may take long, decided by processes that can be ended.

They start with the first such check and end by themselves. A process of its own, and no thread:
what holds the interpreter's lock would hold the event loop too, and no thread can be ended.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
from typing import Any, Final, cast

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import RunVar

from rubric_judge.errors import SandboxError
from rubric_judge.verification.deciding import (
    PastBoundError,
    QuickCheck,
    Verdict,
    decide_shortly,
)
from rubric_judge.verification.sandbox.script import SOURCES, script_of

_AT_ONCE: Final = min(4, os.cpu_count() or 1)
_MEMORY_BYTES: Final = 2 << 30
_IDLE_S: Final = 60.0
_CPU_S: Final = 10.0
"""Processor time for one check beside its patterns: twenty times what its own bounds allow."""
_TRIES_OF_A_PATTERN: Final = 8
_WAKE_S: Final = 0.1
_LONGEST_LINE: Final = 65_536
# Where this process finds its packages, another may not: Python is started without its environment.
_RUN = "import json, sys\nsys.path[:] = json.loads(sys.argv[2])['path']" + script_of(
    "rubric_judge.verification.worker"
)

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("rubric_judge_workers")


async def run_check(check: QuickCheck, text: str, *, regex_timeout_s: float) -> Verdict:
    """Decide a check: here where that is quick, else in another process.

    Args:
        check: what to look for.
        text: the response.
        regex_timeout_s: processor time for the search of a `regex:`.

    Returns:
        The verdict; no credit for a text on which the check goes past its bounds, or fails.

    Raises:
        SandboxError: there is no other process to be had: the machine's doing.
    """
    try:
        return decide_shortly(check, text)
    except PastBoundError:
        pass
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(_AT_ONCE)
        _limiter.set(limiter)
    cpu_s = _CPU_S + _TRIES_OF_A_PATTERN * regex_timeout_s
    order = pickle.dumps((check, text, regex_timeout_s, cpu_s))
    return await anyio.to_thread.run_sync(_workers.decide, order, cpu_s, limiter=limiter)


class _EndedError(Exception):
    """A process ended before it answered."""

    def __init__(self, status: int, *, started: bool) -> None:
        super().__init__(status)
        self.status = status
        self.started = started


class _Worker:
    """One process, with its pipes."""

    def __init__(self) -> None:
        settings = {"path": sys.path, "memory_bytes": _MEMORY_BYTES, "idle_s": _IDLE_S}
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own
                [sys.executable, "-I", "-c", _RUN, str(SOURCES), json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"a check: no process could be started ({error})") from None
        self._started = False

    def ask(self, order: bytes) -> dict[str, Any]:
        """Have a check decided.

        Raises:
            _EndedError: the process ended instead.
        """
        if not self._started:
            self._exchange(b"")
            self._started = True
        return self._exchange(struct.pack(">I", len(order)) + order)

    def _exchange(self, order: bytes) -> dict[str, Any]:
        """Send bytes and read a line; ends the process when the caller is cancelled."""
        to_it, from_it = cast("Any", self._process.stdin), cast("Any", self._process.stdout)
        os.set_blocking(to_it.fileno(), False)
        left, line = memoryview(order), b""
        while not line.endswith(b"\n"):
            anyio.from_thread.check_cancelled()
            writing = [to_it] if left else []
            readable, writable, _ = select.select([from_it], writing, [], _WAKE_S)
            if writable:
                try:
                    left = left[os.write(to_it.fileno(), left) :]
                except BrokenPipeError:
                    left = left[:0]
            if readable:
                part = os.read(from_it.fileno(), _LONGEST_LINE)
                if not part:
                    raise _EndedError(self._status(), started=self._started)
                line += part
        return cast("dict[str, Any]", json.loads(line))

    def _status(self) -> int:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        return self.end()

    def end(self) -> int:
        """End the process, if it has not ended, and return how it did."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._process.kill()
        return self._process.wait()

    def has_ended(self) -> bool:
        """Return whether the process is gone."""
        return self._process.poll() is not None

    def forget(self) -> None:
        """Let go of what belongs to the process that this one was forked from."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.returncode = 0


class _Workers:
    """Processes that wait for a check."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()

    def decide(self, order: bytes, cpu_s: float) -> Verdict:
        """Have a check decided; in a thread of anyio's, whose caller may be cancelled.

        Raises:
            SandboxError: there is no process, or one that cannot do its work.
        """
        for last in (False, True):
            try:
                answer = self._ask(order)
            except _EndedError as ended:
                if ended.status == -signal.SIGPROF:
                    return Verdict(0.0, f"its check ran past {cpu_s:g} s of the processor")
                # Perhaps by somebody else: the same text ends the next one too if it was the text.
                if last and not ended.started:
                    raise SandboxError(
                        f"a check: its process did not start (status {ended.status}); it needs "
                        "what `import rubric_judge` needs, and 2 GiB of address space"
                    ) from None
                if last:
                    return Verdict(0.0, "its check ended its process, twice")
            else:
                if "broken" in answer:
                    raise SandboxError(f"a check cannot run here: {answer['broken']}")
                return Verdict(float(answer["share"]), str(answer["note"]))
        raise AssertionError("unreachable")

    def _ask(self, order: bytes) -> dict[str, Any]:
        worker = self._take()
        try:
            answer = worker.ask(order)
        except BaseException:
            worker.end()
            raise
        with self._lock:
            self._idle.append(worker)
        return answer

    def _take(self) -> _Worker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if not worker.has_ended():
                    return worker
                worker.end()
        return _Worker()

    def end(self) -> None:
        """End those that wait."""
        with self._lock:
            while self._idle:
                self._idle.pop().end()

    def forget(self) -> None:
        """Start anew in a forked process: the others are its parent's."""
        self._lock = threading.Lock()
        while self._idle:
            self._idle.pop().forget()


_workers = _Workers()
atexit.register(_workers.end)
os.register_at_fork(after_in_child=_workers.forget)
