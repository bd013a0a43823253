"""Whether two mathematical expressions are the same.

What is written alike, or is the same number, needs no algebra. The rest is math-verify's to decide,
in a process of its own: an expression comes from a model, and a tower of powers in it would hold up
or fill whoever evaluates it. That process has a time and a memory limit, and what passes them is
not the same.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import selectors
import subprocess
import sys
import threading
from decimal import Decimal, InvalidOperation
from typing import Final

from rubric_core import MissingExtraError

_TIME_LIMIT_S: Final = 20.0
_START_LIMIT_S: Final = 120.0
_LONGEST: Final = 2000
"""Characters of an expression that algebra is asked about; a longer one must be written alike."""

_REWRITINGS: Final = (
    (re.compile(r"\\(?:left|right|big|Big|bigg|Bigg|displaystyle)(?![a-zA-Z])"), ""),
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\(?:text|mathrm|textbf|mathbf|textit|mbox)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![a-zA-Z]))|°|\\degree(?![a-zA-Z])"), ""),
    (re.compile(r"(?<=\d)(?:\{,\}|\\[,!])(?=\d{3}(?!\d))"), ""),
    (re.compile(r"\\[,;:! ]|~|\\q?quad(?![a-zA-Z])"), ""),
    (re.compile(r"\\?[$]"), ""),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"(?<!\d)\s+|\s+(?!\d)"), ""),  # between digits it parts two numbers
)
_GROUPED: Final = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def is_equivalent(target: str, answer: str) -> bool:
    """Return whether an answer is the expression wanted.

    Args:
        target: LaTeX, without `$`.
        answer: LaTeX or plain text.

    Raises:
        MissingExtraError: math-verify is not installed, and algebra is needed.
    """
    wanted, given = _alike(target), _alike(answer)
    if not given:
        return False
    if wanted == given:
        return True
    numbers = _number(wanted), _number(given)
    if None not in numbers:
        return numbers[0] == numbers[1]
    if max(len(target), len(answer)) > _LONGEST:
        return False
    return _ALGEBRA.is_same(target, answer)


def _alike(text: str) -> str:
    for pattern, replacement in _REWRITINGS:
        text = pattern.sub(replacement, text)
    text = text.rstrip(".,;")
    return re.sub(r"\(([A-Za-z])\)", r"\1", text) if re.fullmatch(r"\([A-Za-z]\)", text) else text


def _number(text: str) -> Decimal | None:
    text = text.replace(",", "") if _GROUPED.fullmatch(text) else text
    if not re.fullmatch(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


class _Algebra:
    """math-verify in a process that is started when it is needed and again after it was ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def is_same(self, target: str, answer: str) -> bool:
        with self._lock:
            process = self._started()
            line = json.dumps([target, answer]).encode() + b"\n"
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
            [sys.executable, "-m", "rubric_eval.lm_tasks.answers.algebra"],
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
                "comparing mathematical answers needs math-verify: install rubric-eval[lm-eval]"
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
