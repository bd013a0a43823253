"""What the tester and the subject do to themselves before they read any code."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from typing import Literal

from rubric_judge.verification.sandbox import landlock, seccomp

Isolation = Literal["full", "files_readable", "none"]
"""`full`: no network, no process, no file but Python's own. `files_readable`: what this user may
read can be read, and nothing be written. `none`: limits only. No mode keeps a privilege."""

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522
_AF_INET = 2
_SOCK_STREAM = 1
_MOST_FILES = 64
_READABLE = ("/usr", "/lib", "/lib64", "/nix/store")


def set_limits(*, cpu_s: int, memory_bytes: int) -> None:
    """Bound this process: processor time, address space, open files, and no byte to any file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_FILES, _MOST_FILES))


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def hide_memory() -> None:
    """Keep every process without privilege from this one's memory, descriptors and environment."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel does not hide this process's memory")


def silence(*, keep: tuple[int, ...]) -> None:
    """Point the standard streams at nothing, and close every other descriptor but some."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        if stream not in keep:
            os.dup2(nothing, stream)
    first = 3
    for last in (*sorted(one for one in keep if one >= first), os.sysconf("SC_OPEN_MAX")):
        os.closerange(first, last)
        first = last + 1


def confine(isolation: Isolation) -> None:
    """Give up privileges, network, processes and files, and see that they are gone.

    Args:
        isolation: how much.

    Raises:
        OSError: the kernel does not do it.
    """
    _give_up_privileges()
    if isolation == "full":
        python = {os.path.realpath(path) for path in (sys.base_prefix, sys.base_exec_prefix)}
        landlock.allow_reading_only((*_READABLE, *python))
    elif isolation == "files_readable" and landlock.is_supported():
        landlock.allow_reading_only(("/",))  # of files: another process's memory is then none
    if isolation != "none":
        seccomp.refuse_system_calls()
        _expect_refusal()


def _give_up_privileges() -> None:
    """Drop all capabilities, with which root could read what `hide_memory` hides."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "the kernel does not take privileges back")


def _expect_refusal() -> None:
    if ctypes.CDLL(None, use_errno=True).socket(_AF_INET, _SOCK_STREAM, 0) >= 0:
        raise OSError("the filter of system calls lets a socket through")
    with contextlib.suppress(PermissionError):
        if os.fork() == 0:
            os._exit(0)
        raise OSError("the filter of system calls lets a process through")
