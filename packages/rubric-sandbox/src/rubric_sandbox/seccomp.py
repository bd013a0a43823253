"""A filter of system calls: blocks network access, new processes, signals and file writing.

The kernel enforces it; it cannot be removed again. It lists what is refused (`system_calls.txt`),
not what is allowed: Python needs too many calls, which differ by machine. Calls newer than the list
are answered as if the kernel did not have them.

A machine has a few tens of thousands of thread and process ids, and using them all up needs almost
no memory: after that, nobody on the machine can start anything. So the kernel asks the tester
before the subject starts a thread or a process.
"""

import _socket
import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import struct
from typing import NamedTuple

MAX_PROCESSES = 1_000
"""Threads and processes that the response's code may start, ended ones included."""

PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
_NEW_LISTENER = 8

# Answers to a call.
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ASK = 0x7FC00000
_REFUSE = 0x00050000 | errno.EPERM
_ABSENT = 0x00050000 | errno.ENOSYS

# Instructions of the filter's program.
_LOAD_WORD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_AT_LEAST = 0x35
_JUMP_ANY_BIT = 0x45
_RETURN = 0x06

# Requests to a descriptor where questions arrive, and the size and the answer of one.
_RECEIVE = 0xC0502100
_SEND = 0xC0182101
_QUESTION_BYTES = 80
_CONTINUE = 1

_CLONE_THREAD = 0x00010000
_OPENS_FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_NEWEST = 450
"""set_mempolicy_home_node (Linux 5.17); glibc works without any later call."""

LIBC = ctypes.CDLL(None, use_errno=True)


class _Machine(NamedTuple):
    audit_id: int
    """Identifies the set of numbers in the kernel."""
    refused: dict[str, int]
    """Numbers of the calls that are refused, by name; seccomp's own is among them."""
    clone: int
    """Number of the call that starts a thread or a process."""
    opening: dict[int, int]
    """Calls that open a file, and which of their arguments holds the flags."""


def _numbers(column: int) -> dict[str, int]:
    """Read the numbers of one kind of machine, a column of system_calls.txt, by name."""
    # Plain `open`: in the sandbox, importing pathlib takes as long as everything else.
    with open(  # noqa: PTH123
        __file__.replace("seccomp.py", "system_calls.txt"), encoding="ascii"
    ) as file:
        rows = [
            line.split() for line in file if line.strip() and not line.startswith("#")
        ]
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


_MACHINES = {
    "x86_64": _Machine(0xC000003E, _numbers(1), clone=56, opening={2: 1, 257: 2}),
    "aarch64": _Machine(0xC00000B7, _numbers(2), clone=220, opening={56: 2}),
}
# Their arguments lie in memory, where no filter can read them; glibc and Python work without them.
_UNREADABLE = {"clone3": 435, "openat2": 437}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def is_supported() -> bool:
    """Return whether the numbers of this machine's system calls are known here."""
    return platform.system() == "Linux" and platform.machine() in _MACHINES


def refuse_system_calls() -> None:
    """Put the filter on this process and all that it starts, until they end.

    Raises:
        OSError: the kernel accepts no filter.
    """
    machine = _MACHINES[platform.machine()]
    steps = [
        # Includes the second set of numbers of x86-64, which begins at 2^30.
        _step(_JUMP_AT_LEAST, _NEWEST + 1, miss=1),
        _step(_RETURN, _ABSENT),
        *(_answer(number, _ABSENT) for number in _UNREADABLE.values()),
        _by_argument(machine.clone, 0, _CLONE_THREAD, any_bit=_ALLOW, no_bit=_REFUSE),
        *(
            _by_argument(
                number, argument, _OPENS_FOR_WRITING, any_bit=_REFUSE, no_bit=_ALLOW
            )
            for number, argument in machine.opening.items()
        ),
        *(_answer(number, _REFUSE) for number in sorted(machine.refused.values())),
    ]
    _install(machine, steps, flags=0)


def forward_process_starts(tester: _socket.socket) -> None:
    """From now on, let another process approve each process that this one or its children start.

    The kernel's own limit on the number of processes counts all of a user's, and does not bind
    root. Until a question is answered, its caller waits.

    Args:
        tester: the socket to the process that answers; see `receive_process_starts`.
    """
    machine = _MACHINES[platform.machine()]
    calls = [machine.clone, _UNREADABLE["clone3"]]
    calls += [
        machine.refused[name] for name in ("fork", "vfork") if name in machine.refused
    ]
    listeners: list[int] = []
    with contextlib.suppress(OSError):
        steps = [_answer(number, _ASK) for number in calls]
        listeners.append(_install(machine, steps, flags=_NEW_LISTENER))
    numbers = struct.pack(f"{len(listeners)}i", *listeners)
    tester.sendmsg([b"!"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
    for listener in listeners:
        # Otherwise this process could answer its own questions.
        os.close(listener)


def receive_process_starts(subject: _socket.socket) -> list[int]:
    """Receive the descriptor where questions arrive.

    Empty where the kernel cannot ask (before Linux 5.5) or asks another process.
    """
    _, received, _, _ = subject.recvmsg(1, _socket.CMSG_SPACE(struct.calcsize("i")))
    return [number for _, _, data in received for number in struct.unpack("i", data)]


def approve_process_starts(listener: int) -> None:
    """Answer what arrives at a descriptor until the process ends; permit `MAX_PROCESSES` starts."""
    count = 0
    while True:
        question = bytearray(_QUESTION_BYTES)
        try:
            fcntl.ioctl(listener, _RECEIVE, question)
            (number,) = struct.unpack_from("=Q", question)
            count += 1
            error, flags = (
                (0, _CONTINUE) if count <= MAX_PROCESSES else (-errno.EAGAIN, 0)
            )
            fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", number, 0, error, flags))
        except FileNotFoundError:  # whoever asked has ended meanwhile
            continue
        except OSError:
            return


def _install(machine: _Machine, steps: list[bytes], *, flags: int) -> int:
    """Put a filter on this process that lets through what no step answers.

    Returns:
        The descriptor of `_NEW_LISTENER`; 0 without that flag.

    Raises:
        OSError: the kernel accepts no filter.
    """
    beginning = [
        _step(_LOAD_WORD, 4),  # the architecture, in which numbers have their meaning
        _step(_JUMP_EQUAL, machine.audit_id, hit=1),
        _step(_RETURN, _KILL),
        _step(_LOAD_WORD, 0),  # the number of the call
    ]
    code = b"".join([*beginning, *steps, _step(_RETURN, _ALLOW)])
    program = _Program(len(code) // 8, code)
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    numbers = (machine.refused["seccomp"], _SET_MODE_FILTER, flags)
    answer = LIBC.syscall(*map(ctypes.c_long, numbers), ctypes.byref(program))
    if answer < 0:
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")
    return int(answer)


def _answer(number: int, answer: int) -> bytes:
    """Return the steps that give a call, by its number, one answer."""
    return _step(_JUMP_EQUAL, number, miss=1) + _step(_RETURN, answer)


def _by_argument(
    number: int, argument: int, bits: int, *, any_bit: int, no_bit: int
) -> bytes:
    """Return the steps that answer a call by whether an argument has any of some bits."""
    return b"".join((
        _step(_JUMP_EQUAL, number, miss=4),
        _step(_LOAD_WORD, 16 + 8 * argument),  # the lower half: both machines are little-endian
        _step(_JUMP_ANY_BIT, bits, miss=1),
        _step(_RETURN, any_bit),
        _step(_RETURN, no_bit),
    ))  # fmt: skip


def _step(code: int, k: int, *, hit: int = 0, miss: int = 0) -> bytes:
    """Return one instruction.

    Args:
        code: what it does, such as `_LOAD_WORD`.
        k: its operand: a number, a place or an answer.
        hit: steps to skip where its comparison is true.
        miss: steps to skip where it is false.
    """
    return struct.pack("HBBI", code, hit, miss, k)
