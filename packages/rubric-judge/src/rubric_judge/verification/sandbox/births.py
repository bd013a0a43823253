"""How many threads and processes the response's code may start.

Each costs a number of which a machine has some ten thousands, and code needs no memory to speak of
to take them all: after that, nobody on the machine can start anything.
"""

from __future__ import annotations

import _socket
import _thread
import contextlib
import errno
import fcntl
import os
import struct
from typing import Final

from rubric_judge.verification.sandbox.seccomp import report_births

MOST_BIRTHS: Final = 1_000
"""All in all, ended ones included."""

_RECEIVE = 0xC0502100
_SEND = 0xC0182101
_QUESTION_BYTES = 80
_CONTINUE = 1


def pass_births_on(passing: _socket.socket) -> None:
    """Have somebody else asked before this process starts a thread or a process.

    Args:
        passing: to whoever answers; closed. Nothing goes through it where the kernel cannot.
    """
    with contextlib.suppress(OSError):
        listener = report_births()
        try:
            number = struct.pack("i", listener)
            passing.sendmsg([b"!"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, number)])
        finally:
            os.close(listener)  # or this process could answer itself
    passing.close()


def receive_births(passed_on: _socket.socket) -> list[int]:
    """Receive the descriptor where questions arrive; none where the kernel cannot ask."""
    _, received, _, _ = passed_on.recvmsg(1, _socket.CMSG_SPACE(struct.calcsize("i")))
    passed_on.close()
    return [number for _, _, data in received for number in struct.unpack("i", data)]


def answer_births(listener: int) -> None:
    """Answer what `report_births` asks, in a thread of its own; the first 1,000 may go on.

    Args:
        listener: the descriptor.
    """
    _thread.start_new_thread(_answer, (listener,))


def _answer(listener: int) -> None:
    count = 0
    while True:
        question = bytearray(_QUESTION_BYTES)
        try:
            fcntl.ioctl(listener, _RECEIVE, question)
            (number,) = struct.unpack_from("=Q", question)
            count += 1
            allowed = count <= MOST_BIRTHS
            error, flags = (0, _CONTINUE) if allowed else (-errno.EAGAIN, 0)
            fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", number, 0, error, flags))
        except FileNotFoundError:  # whoever asked has ended meanwhile
            continue
        except OSError:
            return
