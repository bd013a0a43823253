"""A wall around the file system: Python's own files may be read, nothing may be written.

Landlock is Linux's, since 5.13; it needs no privilege and works in containers.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE = 1 << 0
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
# Rights that each version of the interface knows; all of them are taken away.
_RIGHTS_BY_VERSION = {1: 13, 2: 14, 3: 15, 4: 15}
_NEWEST_RIGHTS = 16


def is_supported() -> bool:
    """Return whether this kernel has Landlock and has it switched on."""
    return _version() >= 1


def allow_reading_only(paths: Iterable[str]) -> None:
    """Take away every access to files but reading beneath some folders, for good.

    Args:
        paths: the folders; those that do not exist are left out.

    Raises:
        OSError: the kernel does not do it.
    """
    bits = _RIGHTS_BY_VERSION.get(_version(), _NEWEST_RIGHTS)
    rules = _call(_CREATE_RULESET, struct.pack("Q", (1 << bits) - 1), 8, 0)
    for path in paths:
        try:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rights = _EXECUTE | _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)  # noqa: PTH112
        _call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, folder), 0)
        os.close(folder)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _version() -> int:
    try:
        return _call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def _call(number: int, *arguments: bytes | int | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    answer = int(libc.syscall(ctypes.c_long(number), *words))
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock: {os.strerror(code)}")
    return answer
