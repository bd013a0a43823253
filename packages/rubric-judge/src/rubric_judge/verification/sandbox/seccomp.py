"""A filter of system calls: no network, process, signal or written file, no way around a limit.

The kernel checks it; it cannot be taken off again. A list of what is refused, not of what is
allowed: Python needs too many calls that differ by machine. Calls newer than this list are refused.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import NamedTuple

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_SET_MODE_FILTER = 1
_NEW_LISTENER = 8

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ASK = 0x7FC00000
_REFUSE = 0x00050000 | errno.EPERM
_ABSENT = 0x00050000 | errno.ENOSYS

_LOAD_WORD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_AT_LEAST = 0x35
_JUMP_ANY_BIT = 0x45
_RETURN = 0x06

_CLONE_THREAD = 0x00010000
_OPENS_FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_NEWEST = 450
"""set_mempolicy_home_node (Linux 5.17); glibc does without every later call."""

_COMMON = {
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_open": 434,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "process_mrelease": 448,
}

# Network but for `socketpair`, which joins a process with itself and which asyncio needs; other
# processes; signals; limits and priorities; mounts, namespaces, keys, kernel interfaces; every
# change to a file or a folder.
_X86_64 = _COMMON | {
    "socket": 41,
    "connect": 42,
    "accept": 43,
    "bind": 49,
    "listen": 50,
    "accept4": 288,
    "fork": 57,
    "vfork": 58,
    "execve": 59,
    "execveat": 322,
    "kill": 62,
    "tkill": 200,
    "tgkill": 234,
    "rt_sigqueueinfo": 129,
    "rt_tgsigqueueinfo": 297,
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "setpgid": 109,
    "setsid": 112,
    "prctl": 157,
    "seccomp": 317,
    "setrlimit": 160,
    "prlimit64": 302,
    "setpriority": 141,
    "sched_setparam": 142,
    "sched_setscheduler": 144,
    "sched_setaffinity": 203,
    "sched_setattr": 314,
    "ioprio_set": 251,
    "migrate_pages": 256,
    "move_pages": 279,
    "chroot": 161,
    "pivot_root": 155,
    "mount": 165,
    "umount2": 166,
    "unshare": 272,
    "setns": 308,
    "memfd_create": 319,
    "shmget": 29,
    "msgget": 68,
    "semget": 64,
    "mq_open": 240,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "bpf": 321,
    "userfaultfd": 323,
    "perf_event_open": 298,
    "open_by_handle_at": 304,
    "creat": 85,
    "unlink": 87,
    "unlinkat": 263,
    "rename": 82,
    "renameat": 264,
    "renameat2": 316,
    "mkdir": 83,
    "mkdirat": 258,
    "rmdir": 84,
    "truncate": 76,
    "link": 86,
    "linkat": 265,
    "symlink": 88,
    "symlinkat": 266,
    "mknod": 133,
    "mknodat": 259,
    "chmod": 90,
    "fchmod": 91,
    "fchmodat": 268,
    "chown": 92,
    "fchown": 93,
    "lchown": 94,
    "fchownat": 260,
    "utime": 132,
    "utimes": 235,
    "futimesat": 261,
    "utimensat": 280,
    "setxattr": 188,
    "lsetxattr": 189,
    "fsetxattr": 190,
    "removexattr": 197,
    "lremovexattr": 198,
    "fremovexattr": 199,
}
_AARCH64 = _COMMON | {
    "socket": 198,
    "connect": 203,
    "accept": 202,
    "bind": 200,
    "listen": 201,
    "accept4": 242,
    "execve": 221,
    "execveat": 281,
    "kill": 129,
    "tkill": 130,
    "tgkill": 131,
    "rt_sigqueueinfo": 138,
    "rt_tgsigqueueinfo": 240,
    "ptrace": 117,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "kcmp": 272,
    "setpgid": 154,
    "setsid": 157,
    "prctl": 167,
    "seccomp": 277,
    "setrlimit": 164,
    "prlimit64": 261,
    "setpriority": 140,
    "sched_setparam": 118,
    "sched_setscheduler": 119,
    "sched_setaffinity": 122,
    "sched_setattr": 274,
    "ioprio_set": 30,
    "migrate_pages": 238,
    "move_pages": 239,
    "chroot": 51,
    "pivot_root": 41,
    "mount": 40,
    "umount2": 39,
    "unshare": 97,
    "setns": 268,
    "memfd_create": 279,
    "shmget": 194,
    "msgget": 186,
    "semget": 190,
    "mq_open": 180,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "bpf": 280,
    "userfaultfd": 282,
    "perf_event_open": 241,
    "open_by_handle_at": 265,
    "unlinkat": 35,
    "renameat": 38,
    "renameat2": 276,
    "mkdirat": 34,
    "truncate": 45,
    "linkat": 37,
    "symlinkat": 36,
    "mknodat": 33,
    "fchmod": 52,
    "fchmodat": 53,
    "fchown": 55,
    "fchownat": 54,
    "utimensat": 88,
    "setxattr": 5,
    "lsetxattr": 6,
    "fsetxattr": 7,
    "removexattr": 14,
    "lremovexattr": 15,
    "fremovexattr": 16,
}


class _Machine(NamedTuple):
    audit_id: int
    """Identifies the set of numbers in the kernel."""
    refused: dict[str, int]
    clone: int
    opening: dict[int, int]
    """Calls that open a file, and which of their arguments holds the flags."""


_MACHINES = {
    "x86_64": _Machine(0xC000003E, _X86_64, clone=56, opening={2: 1, 257: 2}),
    "aarch64": _Machine(0xC00000B7, _AARCH64, clone=220, opening={56: 2}),
}
# Their arguments lie in memory, where no filter can read them; glibc and Python do without.
_UNREADABLE = {"clone3": 435, "openat2": 437}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def is_supported() -> bool:
    """Return whether the numbers of this machine's system calls are known here."""
    return platform.system() == "Linux" and platform.machine() in _MACHINES


def refuse_system_calls() -> None:
    """Put the filter on this process and all that it starts, for good.

    Raises:
        OSError: the kernel takes no filter.
    """
    code = b"".join(_instructions(_MACHINES[platform.machine()]))
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")


def report_births() -> int:
    """Have somebody asked for every thread and process that this process wants to start.

    For good, and for those that it starts. A limit on their number that the kernel has by itself
    counts all of a user's, and for root there is none.

    Returns:
        The descriptor where questions arrive. Until each is answered, its caller waits.

    Raises:
        OSError: the kernel has no such thing (before Linux 5.5), or does it for somebody else.
    """
    machine = _MACHINES[platform.machine()]
    births = [machine.clone, _UNREADABLE["clone3"]]
    births += [machine.refused[name] for name in ("fork", "vfork") if name in machine.refused]
    steps = [*_beginning(machine), *(one for call in births for one in _answer(call, _ASK))]
    code = b"".join([*steps, _step(_RETURN, _ALLOW)])
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    listener = libc.syscall(
        ctypes.c_long(machine.refused["seccomp"]),
        ctypes.c_long(_SET_MODE_FILTER),
        ctypes.c_long(_NEW_LISTENER),
        ctypes.byref(program),
    )
    if listener < 0:
        raise OSError(ctypes.get_errno(), "the kernel does not ask before a thread starts")
    return int(listener)


def _beginning(machine: _Machine) -> list[bytes]:
    return [
        _step(_LOAD_WORD, 4),  # the architecture, in which numbers have their meaning
        _step(_JUMP_EQUAL, machine.audit_id, hit=1),
        _step(_RETURN, _KILL),
        _step(_LOAD_WORD, 0),  # the number of the call
    ]


def _instructions(machine: _Machine) -> list[bytes]:
    return [
        *_beginning(machine),
        # Includes the second set of numbers of x86-64, which begins at 2^30.
        _step(_JUMP_AT_LEAST, _NEWEST + 1, miss=1),
        _step(_RETURN, _ABSENT),
        *(one for number in _UNREADABLE.values() for one in _answer(number, _ABSENT)),
        *_by_argument(machine.clone, 0, _CLONE_THREAD, any_bit=_ALLOW, no_bit=_REFUSE),
        *(
            one
            for number, argument in machine.opening.items()
            for one in _by_argument(
                number, argument, _OPENS_FOR_WRITING, any_bit=_REFUSE, no_bit=_ALLOW
            )
        ),
        *(one for number in sorted(machine.refused.values()) for one in _answer(number, _REFUSE)),
        _step(_RETURN, _ALLOW),
    ]


def _answer(number: int, answer: int) -> list[bytes]:
    return [_step(_JUMP_EQUAL, number, miss=1), _step(_RETURN, answer)]


def _by_argument(
    number: int, argument: int, bits: int, *, any_bit: int, no_bit: int
) -> list[bytes]:
    return [
        _step(_JUMP_EQUAL, number, miss=4),
        _step(_LOAD_WORD, 16 + 8 * argument),  # the lower half: both machines are little-endian
        _step(_JUMP_ANY_BIT, bits, miss=1),
        _step(_RETURN, any_bit),
        _step(_RETURN, no_bit),
    ]


def _step(code: int, k: int, *, hit: int = 0, miss: int = 0) -> bytes:
    return struct.pack("HBBI", code, hit, miss, k)
