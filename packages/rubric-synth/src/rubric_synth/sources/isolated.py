"""A process that reads files for this one: it may hang, crash, run out of memory or be killed."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rubric_synth.rejection import RejectionReason
from rubric_synth.sources.raw_text import NotTextError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_MAX_MEMORY_BYTES: Final = 2 << 30


class IsolatedReader:
    """The process of `converter`, started at the first job and again after each crash."""

    def __init__(self, timeout_s: int | None) -> None:
        """Start nothing yet.

        Args:
            timeout_s: For one answer; none if None.
        """
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._files: socket.socket | None = None

    def answer(self, job: dict[str, object], file: BinaryIO | None = None) -> dict[str, Any]:
        """Return the answer to a job.

        Args:
            job: What to do.
            file: The file to read, which the process gets open: by its name it might be another.

        Raises:
            NotTextError: The process refused the file, or came to its end over it.
        """
        self._send(job, file)
        return self._receive()

    def answers(
        self, job: dict[str, object], file: BinaryIO | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the answers to a job until there are no more, each within the time for one.

        Raises:
            NotTextError: As for `answer`.
        """
        self._send(job, file)
        is_done = False
        try:
            while not (answer := self._receive()).get("done"):
                yield answer
            is_done = True
        except NotTextError:
            is_done = True
            raise
        finally:
            if not is_done:  # what it has yet to say is no answer to the next job
                self.close()

    def _send(self, job: dict[str, object], file: BinaryIO | None) -> None:
        process, files = self._running()
        with contextlib.suppress(BrokenPipeError, ConnectionError):  # then there is no answer
            if file is not None:
                socket.send_fds(files, [b"f"], [file.fileno()])
            if process.stdin is not None:
                process.stdin.write(json.dumps({**job, "with_file": file is not None}).encode())
                process.stdin.write(b"\n")
                process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        process, _ = self._running()
        line = b"" if process.stdout is None else process.stdout.readline()
        if not line.endswith(b"\n"):
            raise NotTextError(RejectionReason.CONVERSION_FAILED, self._cause_of_death())
        answer: dict[str, Any] = json.loads(line)
        if "refused" in answer:
            raise NotTextError(RejectionReason(answer["refused"]), answer.get("detail", ""))
        return answer

    def _running(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        if self._process is None or self._files is None:
            script = Path(__file__).with_name("converter.py")
            self._files, theirs = socket.socketpair()
            with theirs:
                limits = map(str, (self._timeout_s or 0, _MAX_MEMORY_BYTES, theirs.fileno()))
                # -P: the script's folder is no place to import from. A session of its own: an
                # interrupt from the terminal is this process's to handle.
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
                    [sys.executable, "-P", str(script), *limits],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=[theirs.fileno()],
                )
            weakref.finalize(self, _killed, self._process)
        return self._process, self._files

    def _cause_of_death(self) -> str:
        code = self.close()
        if code == -signal.SIGALRM:
            return f"not read within the {self._timeout_s} s of collect.conversion_timeout_s"
        return f"the reader crashed, or needed more than {_MAX_MEMORY_BYTES >> 30} GiB of memory"

    def close(self) -> int:
        """End the process and return how it ended."""
        process, self._process = self._process, None
        if self._files is not None:
            self._files.close()
            self._files = None
        if process is None:
            return 0
        _close(process)
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _killed(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody asks any more."""
    _close(process)
    if process.poll() is None:
        process.kill()
        process.wait()


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
