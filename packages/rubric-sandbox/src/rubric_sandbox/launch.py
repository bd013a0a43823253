"""Run unit tests against code in two confined processes, from the judge's side."""

import json
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from rubric_core import ConfigError
from rubric_judge import SandboxConfig, SandboxError, Tally
from rubric_judge.checks.processes import converse, end, start
from rubric_sandbox import confine, seccomp

_GRACE_S = 2.0
"""Time beyond the configured one, to start both processes and to report."""
_LONGEST_REPORT = 65_536
"""Bytes."""


class LinuxSandbox:
    """Two processes of this machine that its kernel confines: tests in one, code in the other.

    The sandbox `linux` of `rubric.sandboxes`.
    """

    def __init__(self, config: SandboxConfig) -> None:
        """Keep the settings; nothing is started.

        Args:
            config: limits and isolation.

        Raises:
            ConfigError: it has options, of which there are none.
        """
        if config.options:
            raise ConfigError(
                f"the sandbox 'linux' has no options, and {len(config.options)} are given; "
                "its settings stand beside `name`",
                location="sandbox.options",
            )
        self._config = config

    def check_isolation(self) -> None:
        """See that this machine can confine code as asked, by doing it.

        Raises:
            SandboxError: it cannot; says what is missing and what to set.
        """
        isolation = self._config.isolation
        if isolation != "none" and not seccomp.is_supported():
            raise SandboxError(
                "python_tests needs Linux on x86-64 or ARM64 to keep code off the network; run "
                "the judge there, or set `sandbox.isolation: none` on a machine that you can do "
                "without"
            )
        if isolation == "full" and not confine.has_landlock():
            raise SandboxError(
                "python_tests needs Landlock (Linux 5.13 or newer) to keep code from reading "
                "files; set `sandbox.isolation: files_readable` to accept that it reads what "
                "this user can"
            )
        self.run_tests("pass", "assert True", check=lambda: None)

    def run_tests(self, code: str, tests: str, *, check: Callable[[], object]) -> Tally:
        """Run tests against code; blocks for at most the configured time and two seconds.

        Args:
            code: the response's code: untrusted.
            tests: the source of the tests.
            check: called ten times a second; what it raises ends the run and is raised.

        Returns:
            The number of tests that passed; none for code that runs past a limit.

        Raises:
            SandboxError: the processes could not be started or confined.
        """
        nonce = secrets.token_hex(16)
        order = json.dumps({"code": code, "tests": tests, "nonce": nonce})
        settings = self._config.model_dump(
            include={"isolation", "timeout_s", "cpu_s", "memory_mb"}
        )
        process = start(
            "rubric_sandbox.tester",
            settings,
            folder=Path(__file__).parent,
            flags=("-I", "-S", "-B"),
            environment={},
            purpose="python_tests",
        )
        deadline_s = time.monotonic() + self._config.timeout_s + _GRACE_S
        try:
            report = converse(
                process,
                f"{order}\n".encode(),
                is_over=lambda report: (
                    len(report) >= _LONGEST_REPORT or time.monotonic() >= deadline_s
                ),
                check=check,
            )
        finally:
            status = end(process)
        return _read_report(
            report, nonce=nonce, status=status, timeout_s=self._config.timeout_s
        )


def _read_report(report: bytes, *, nonce: str, status: int, timeout_s: float) -> Tally:
    """Return what the tester reports.

    Only lines with the nonce count, which the response's code does not know; of each key the first
    value does, so that no later line can change what was said.
    """
    merged: dict[str, Any] = {}
    for line in report.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if (
            isinstance(message, dict)
            and cast("dict[str, Any]", message).get("nonce") == nonce
        ):
            merged = cast("dict[str, Any]", message) | merged
    match merged:
        case {"refused": why}:
            raise SandboxError(
                f"python_tests cannot confine code here ({why}); see `sandbox.isolation` for "
                "what to give up"
            )
        case {"ready": _, "passed": passed, "note": note}:
            return Tally(passed=int(passed), note=str(note))
        case {"ready": _} if status in {-signal.SIGALRM, -signal.SIGKILL}:
            return Tally(0, f"its code ran past {timeout_s:g} s")
        case {"ready": _}:
            return Tally(0, f"its tests ended with status {status}")
        case _:
            raise SandboxError(
                f"python_tests: the tester did not start (status {status})"
            )
