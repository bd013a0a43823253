"""Run checks: where the caller is if that is quick, else in processes that can be ended.

They start with the first such check and end by themselves. A process of its own, and no thread:
what holds the interpreter's lock would hold the event loop too, and no thread can be ended.
"""

import atexit
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import RunVar

from rubric_judge.checks import deciding, directive, python_tests
from rubric_judge.checks.deciding import CheckResult, QuickCheck
from rubric_judge.checks.processes import converse, end, start
from rubric_judge.checks.sandboxes import Sandbox, make_sandbox, sandbox_identity
from rubric_judge.config import HybridConfig
from rubric_judge.errors import SandboxError

_LONGEST_CODE = 100_000
"""Characters of a response's code; more of it could keep the tester from starting at all."""


class Programs:
    """Runs checks, off the event loop where they may take long, and a few unit tests at a time."""

    def __init__(self, config: HybridConfig) -> None:
        """Make the limiter, and try the sandbox where it is switched on.

        Args:
            config: limits and isolation.

        Raises:
            SandboxError: unit tests are switched on and this machine cannot confine them.
            MissingExtraError, ConfigError, PluginError: they are switched on, and there is no
                sandbox, or it is not clear which.
        """
        self._config = config
        self._limiter = anyio.CapacityLimiter(config.sandbox.at_once)
        self.identity = ""
        """Which sandbox runs unit tests, for a fingerprint; empty where none does, or the usual."""
        if config.python_tests:
            self._sandbox.check_isolation()
            self.identity = sandbox_identity(config.sandbox)

    @cached_property
    def _sandbox(self) -> Sandbox:
        return make_sandbox(self._config.sandbox)

    async def run(self, check: directive.ProgramCheck, response: str) -> CheckResult:
        """Execute one check.

        Args:
            check: from `check_executable`.
            response: the policy's text.

        Returns:
            The verdict; a check that runs past its time, or fails on this text, gives no credit.

        Raises:
            SandboxError: a process could not be started: the machine's doing, not the response's.
        """
        if isinstance(check, python_tests.PythonTests):
            return await anyio.to_thread.run_sync(
                self._run_tests, check, response, limiter=self._limiter
            )
        return await run_check(
            check, response, regex_timeout_s=self._config.regex_timeout_s
        )

    def _run_tests(self, check: python_tests.PythonTests, response: str) -> CheckResult:
        code = python_tests.response_code(response)
        if code is None:
            return CheckResult(0.0, "the response has no block of Python")
        if len(code) > _LONGEST_CODE:
            return CheckResult(
                0.0, f"its code has more than {_LONGEST_CODE} characters"
            )
        tally = self._sandbox.run_tests(
            code, check.source, check=anyio.from_thread.check_cancelled
        )
        passed = min(tally.passed, check.n_tests)
        counted = f"{passed} of {check.n_tests} tests passed"
        note = f"{counted}; {tally.note}" if tally.note else counted
        return CheckResult(passed / check.n_tests, note)


_PACKAGE = Path(__file__).parents[1]
_AT_ONCE = min(4, os.cpu_count() or 1)
_MEMORY_BYTES = 2 << 30
_IDLE_S = 60.0
_CPU_S = 10.0
"""Processor time for one check beside its patterns: twenty times what its own bounds allow."""
_TRIES_OF_A_PATTERN = 8

_UP: dict[str, Any] | int = {}
"""Message of a process that has started."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("rubric_judge_workers")


async def run_check(
    check: QuickCheck, text: str, *, regex_timeout_s: float
) -> CheckResult:
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
    with contextlib.suppress(deciding.PastBoundError):
        return deciding.decide_shortly(check, text)
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(_AT_ONCE)
        _limiter.set(limiter)
    cpu_s = _CPU_S + _TRIES_OF_A_PATTERN * regex_timeout_s
    order = pickle.dumps((check, text, regex_timeout_s, cpu_s))
    return await anyio.to_thread.run_sync(
        _workers.decide, order, cpu_s, limiter=limiter
    )


class _Workers:
    """Processes that wait for a check."""

    def __init__(self) -> None:
        self._idle: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()

    def decide(self, order: bytes, cpu_s: float, *, again: bool = False) -> CheckResult:
        """Have a check decided; in a thread of anyio's, whose caller may be cancelled.

        Raises:
            SandboxError: there is no process, or one that cannot do its work.
        """
        process = self._take()
        greeting = _UP
        if process is None:
            process = _new_process()
            greeting = _ask(process, b"")
        answer = _ask(process, order) if greeting == _UP else greeting
        if isinstance(answer, int):
            if answer == -signal.SIGPROF:
                return CheckResult(
                    0.0, f"its check ran past {cpu_s:g} s of the processor"
                )
            # Perhaps by somebody else: the same text ends the next one too if it was the text.
            if not again:
                return self.decide(order, cpu_s, again=True)
            if greeting == _UP:
                return CheckResult(0.0, "its check ended its process, twice")
            raise SandboxError(
                f"a check: its process did not start (status {answer}); it needs what `import "
                "rubric_judge` needs, and 2 GiB of address space"
            )
        with self._lock:
            self._idle.append(process)
        if "broken" in answer:
            raise SandboxError(f"a check cannot run here: {answer['broken']}")
        return CheckResult(float(answer["share"]), str(answer["note"]))

    def _take(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.poll() is None:
                    return process
                end(process)
        return None

    def end(self) -> None:
        """End those that wait."""
        with self._lock:
            while self._idle:
                end(self._idle.pop())

    def forget(self) -> None:
        """Start anew in a forked process: the others are its parent's."""
        self._lock = threading.Lock()
        for process in self._idle:
            process.returncode = 0
        self.end()


def _new_process() -> subprocess.Popen[bytes]:
    return start(
        "rubric_judge.checks.worker",
        {"path": sys.path, "memory_bytes": _MEMORY_BYTES, "idle_s": _IDLE_S},
        folder=_PACKAGE,
        flags=("-I",),
        environment={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        purpose="a check",
    )


def _ask(process: subprocess.Popen[bytes], order: bytes) -> dict[str, Any] | int:
    """Send an order and read the line that answers it; ends the process where none comes.

    Returns:
        The answer, or how the process ended instead.
    """
    try:
        line = converse(
            process,
            order,
            is_over=lambda answer: answer.endswith(b"\n"),
            check=anyio.from_thread.check_cancelled,
        )
        if line.endswith(b"\n"):
            return cast("dict[str, Any]", json.loads(line))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
    except BaseException:
        end(process)
        raise
    return end(process)


_workers = _Workers()
atexit.register(_workers.end)
os.register_at_fork(after_in_child=_workers.forget)
