"""Run unit tests against code in two confined processes, from the judge's side."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from rubric_judge.config import SandboxConfig
from rubric_judge.errors import SandboxError
from rubric_judge.verification.sandbox import landlock, seccomp
from rubric_judge.verification.sandbox.script import SOURCES, script_of

_GRACE_S = 2.0
_WAKE_S = 0.1
_LONGEST_REPORT = 65_536
_START = script_of("rubric_judge.verification.sandbox.tester")


@dataclass(frozen=True, slots=True)
class Tally:
    """How the tests of one response ended."""

    passed: int
    note: str = ""
    """Why not all passed; no text of the response or the tests."""


def check_isolation(config: SandboxConfig) -> None:
    """See that this machine can confine code as asked, by doing it.

    Args:
        config: limits and isolation.

    Raises:
        SandboxError: it cannot; says what is missing and what to set.
    """
    if config.isolation != "none" and not seccomp.is_supported():
        raise SandboxError(
            "python_tests needs Linux on x86-64 or ARM64 to keep code off the network; run the "
            "judge there, or set `sandbox.isolation: none` on a machine that you can do without"
        )
    if config.isolation == "full" and not landlock.is_supported():
        raise SandboxError(
            "python_tests needs Landlock (Linux 5.13 or newer) to keep code from reading files; "
            "set `sandbox.isolation: files_readable` to accept that it reads what this user can"
        )
    run_tests("pass", "assert True", config=config, check=lambda: None)


def run_tests(
    code: str, tests: str, *, config: SandboxConfig, check: Callable[[], object]
) -> Tally:
    """Run tests against code; blocks for at most the configured time and two seconds.

    Args:
        code: the response's code: untrusted.
        tests: the source of the tests.
        config: limits and isolation.
        check: called ten times a second; what it raises ends the run and is raised.

    Returns:
        The number of tests that passed; none for code that runs past a limit.

    Raises:
        SandboxError: the processes could not be started or confined.
    """
    nonce = secrets.token_hex(16)
    order = {"code": code, "tests": tests, "nonce": nonce}
    settings = {
        "isolation": config.isolation,
        "timeout_s": config.timeout_s,
        "cpu_s": config.cpu_s,
        "memory_bytes": config.memory_mb * 2**20,
    }
    try:
        process = subprocess.Popen(  # noqa: S603  # our own tester
            [sys.executable, "-I", "-S", "-B", "-c", _START, str(SOURCES), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"python_tests: no process could be started ({error})") from None
    try:
        report = _exchange(process, json.dumps(order).encode(), config.timeout_s + _GRACE_S, check)
    finally:
        # Before the wait: until then the number of the group cannot be another's.
        os.killpg(process.pid, signal.SIGKILL)
        ended = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    return _read_report(report, nonce=nonce, ended=ended, config=config)


def _exchange(
    process: subprocess.Popen[bytes], order: bytes, limit_s: float, check: Callable[[], object]
) -> bytes:
    """Send the order and read until the tester ends, at most `limit_s` and 64 kB."""
    if process.stdin is None or process.stdout is None:
        raise SandboxError("python_tests: the tester has no pipes")
    deadline_s = time.monotonic() + limit_s
    to_tester, from_tester = process.stdin.fileno(), process.stdout.fileno()
    os.set_blocking(to_tester, False)
    report, left, writing = b"", memoryview(order), [to_tester]
    while time.monotonic() < deadline_s and len(report) < _LONGEST_REPORT:
        check()
        readable, writable, _ = select.select([from_tester], writing, [], _WAKE_S)
        if writable:
            try:
                left = left[os.write(to_tester, left) :]
            except BrokenPipeError:
                left = left[:0]
            if not left:
                process.stdin.close()
                writing = []
        if readable:
            part = os.read(from_tester, _LONGEST_REPORT)
            if not part:
                break
            report += part
    return report


def _read_report(report: bytes, *, nonce: str, ended: int, config: SandboxConfig) -> Tally:
    messages: list[dict[str, Any]] = []
    for line in report.splitlines():
        try:
            message = cast("object", json.loads(line))
        except ValueError:
            continue
        if isinstance(message, dict) and cast("dict[str, Any]", message).get("nonce") == nonce:
            messages.append(cast("dict[str, Any]", message))
    for message in messages:
        if "refused" in message:
            raise SandboxError(
                f"python_tests cannot confine code here ({message['refused']}); "
                "see `sandbox.isolation` for what to give up"
            )
    if not any("ready" in message for message in messages):
        raise SandboxError(f"python_tests: the tester did not start (status {ended})")
    for message in messages:
        if "passed" in message:
            return Tally(passed=int(message["passed"]), note=str(message["note"]))
    if ended in {-signal.SIGALRM, -signal.SIGKILL}:
        return Tally(0, f"its code ran past {config.timeout_s:g} s")
    return Tally(0, f"its tests ended with status {ended}")
