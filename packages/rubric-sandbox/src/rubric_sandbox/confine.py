"""Confinement that the tester and the subject put on themselves before they read any code.

Files are closed by Landlock, Linux's since 5.13, which needs no privilege and works in containers.
"""

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterable
from typing import Literal

from rubric_sandbox.seccomp import (
    LIBC,
    PR_SET_NO_NEW_PRIVS,
    refuse_system_calls,
)

Isolation = Literal["full", "files_readable", "none"]
"""`full`: no network, no process, no file but Python's own and the system's libraries.
`files_readable`: what this user may read can be read, and nothing can be written. `none`: limits
only. No mode keeps a privilege."""

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_CAPABILITY_VERSION = 0x20080522
_AF_INET = 2
_SOCK_STREAM = 1
_MOST_FILES = 64
_READABLE = ("/usr", "/lib", "/lib64", "/nix/store")
"""Folders of the system, with the libraries that Python loads."""

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_EXECUTE = 1 << 0
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
# Number of rights that each version of the interface knows; all of them are taken away.
_RIGHTS_BY_VERSION = {1: 13, 2: 14, 3: 15, 4: 15}
_NEWEST_RIGHTS = 16


def set_limits(*, cpu_s: int, memory_bytes: int) -> None:
    """Bound this process: processor time, address space, open files, and no byte to any file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_FILES, _MOST_FILES))


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that ends."""
    LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def hide_memory() -> None:
    """Keep every process without privilege from this one's memory, descriptors and environment."""
    if LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(
            ctypes.get_errno(), "the kernel does not hide this process's memory"
        )


def silence(*, keep: tuple[int, ...]) -> None:
    """Point the standard streams at nothing, and close every other descriptor but some."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        if stream not in keep:
            os.dup2(nothing, stream)
    first = 3
    for last in (
        *sorted(descriptor for descriptor in keep if descriptor >= first),
        os.sysconf("SC_OPEN_MAX"),
    ):
        os.closerange(first, last)
        first = last + 1


def confine(isolation: Isolation) -> None:
    """Give up privileges, network, processes and files, and see that they are gone.

    Args:
        isolation: how much.

    Raises:
        OSError: the kernel does not do it.
    """
    # With capabilities, root could read what `hide_memory` hides.
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if LIBC.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "the kernel does not take privileges back")
    if isolation == "full":
        python = {
            os.path.realpath(path) for path in (sys.base_prefix, sys.base_exec_prefix)
        }
        _allow_reading_only((*_READABLE, *python))
    elif isolation == "files_readable" and has_landlock():
        _allow_reading_only(("/",))  # of files: another process's memory is then none
    if isolation != "none":
        refuse_system_calls()
        _expect_refusal()


def _expect_refusal() -> None:
    """Try a socket and a process, and raise OSError if the filter lets one through."""
    if LIBC.socket(_AF_INET, _SOCK_STREAM, 0) >= 0:
        raise OSError("the filter of system calls lets a socket through")
    with contextlib.suppress(PermissionError):
        if os.fork() == 0:
            os._exit(0)
        raise OSError("the filter of system calls lets a process through")


def has_landlock() -> bool:
    """Return whether this kernel has Landlock and has it switched on."""
    return _landlock_version() >= 1


def _allow_reading_only(paths: Iterable[str]) -> None:
    """Take away every access to files but reading beneath the folders that exist, for good.

    Raises:
        OSError: the kernel does not do it.
    """
    bits = _RIGHTS_BY_VERSION.get(_landlock_version(), _NEWEST_RIGHTS)
    rules = _landlock(_CREATE_RULESET, struct.pack("Q", (1 << bits) - 1), 8, 0)
    for path in paths:
        try:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rights = _EXECUTE | _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)  # noqa: PTH112
        _landlock(
            _ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, folder), 0
        )
        os.close(folder)
    _landlock(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _landlock_version() -> int:
    try:
        return _landlock(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def _landlock(number: int, *arguments: bytes | int | None) -> int:
    words = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument
        for argument in arguments
    ]
    answer = int(LIBC.syscall(ctypes.c_long(number), *words))
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock: {os.strerror(code)}")
    return answer
