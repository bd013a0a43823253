"""Whether two mathematical expressions are the same.

What is written alike, or is the same number, needs no algebra. The rest is math-verify's to decide,
in a process of its own: an expression comes from a model, and a tower of powers in it would hold up
or fill whoever evaluates it. That process has a time and a memory limit, and what passes them is
not the same.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import selectors
import subprocess
import sys
import threading
from importlib import import_module
from typing import Any, Final

from rubric_core import MissingExtraError
from rubric_core.errors import install_command
from rubric_eval.lm_tasks.answers.notation import (
    alike,
    decided_by_form,
    same_brackets,
    unled,
)

_MEMORY_BYTES: Final = 4 * 2**30


def main() -> None:
    """Answer until the input ends."""
    _limit_memory()
    try:
        math_verify = import_module("math_verify")
    except ImportError:
        print("missing", flush=True)  # noqa: T201  # the protocol
        return
    logging.disable()
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        one, other = json.loads(line)
        is_same = _is_same(math_verify, one, other)
        print("1" if is_same else "0", flush=True)  # noqa: T201


def _is_same(math_verify: Any, one: str, other: str) -> bool:
    """Whoever asks limits the time: it can end this process, and a signal cannot end a power.

    math-verify takes an interval for an inequality and not the other way about: each is the target
    once.
    """
    parsed = _parse(math_verify, one), _parse(math_verify, other)
    try:
        return any(
            math_verify.verify(target, answer, timeout_seconds=None)
            for target, answer in (parsed, reversed(parsed))
        )
    except (ArithmeticError, TypeError, ValueError, AttributeError, RecursionError, MemoryError):
        return False


def _parse(math_verify: Any, text: str) -> Any:
    """Parse a whole expression, boxed so that nothing of it is passed over."""
    return math_verify.parse(f"$\\boxed{{{text}}}$", parsing_timeout=None)


def _limit_memory() -> None:
    try:
        resource = import_module("resource")
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    main()


_TIME_LIMIT_S: Final = 20.0
_START_LIMIT_S: Final = 120.0
_LONGEST: Final = 2000
"""Characters of an expression that algebra is asked about; a longer one must be written alike."""


def is_equivalent(one: str, other: str) -> bool:
    r"""Return whether two expressions are the same; which is the target makes no difference.

    A percent sign is a unit, as MATH's own grader has it: `50\%` is 50, and never 0.5. `x = 5` is
    5, and `x + y = 5` is an equation.

    Args:
        one: LaTeX or plain text.
        other: the same.

    Raises:
        MissingExtraError: math-verify is not installed, and algebra is needed.
    """
    one, other = unled(one, other)
    written = alike(one), alike(other)
    if not all(written):
        return False
    if written[0] == written[1]:
        return True
    decided = decided_by_form(one, other)
    if decided is not None:
        return decided
    if max(len(one), len(other)) > _LONGEST:
        return False
    return _ALGEBRA.is_same(*same_brackets(one, other))


class _Algebra:
    """math-verify in a process that is started when it is needed and again after it was ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def is_same(self, one: str, other: str) -> bool:
        with self._lock:
            process = self._started()
            line = json.dumps([one, other]).encode() + b"\n"
            try:
                reply = _ask(process, line, limit_s=_TIME_LIMIT_S)
            except (BrokenPipeError, EOFError):  # out of memory
                self._end()
                return False
            if reply is None:
                self._end()
                return False
            return reply == b"1"

    def _started(self) -> subprocess.Popen[bytes]:
        is_ours = self._pid == os.getpid()  # a fork must not read another's answers
        if is_ours and self._process is not None and self._process.poll() is None:
            return self._process
        self._pid = os.getpid()
        self._process = subprocess.Popen(  # this interpreter, our own module
            [sys.executable, "-m", "rubric_eval.lm_tasks.answers.equivalence"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        atexit.register(self._end)
        try:
            ready = _ask(self._process, b"", limit_s=_START_LIMIT_S)
        except EOFError:
            ready = None
        if ready != b"ready":
            self._end()
            raise MissingExtraError(
                "comparing mathematical answers needs math-verify: "
                f"{install_command('rubric-eval', 'lm-eval')}"
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._pid != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _ask(process: subprocess.Popen[bytes], line: bytes, *, limit_s: float) -> bytes | None:
    """Send a line and return the one that comes back, or None for too late."""
    if process.stdin is None or process.stdout is None:
        raise EOFError
    if line:
        process.stdin.write(line)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(limit_s):
            return None
    reply = process.stdout.readline()
    if not reply:
        raise EOFError
    return reply.strip()


_ALGEBRA: Final = _Algebra()
