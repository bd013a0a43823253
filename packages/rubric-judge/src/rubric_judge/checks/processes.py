"""Processes of the judge's own, and what is said to them: an order in, an answer out."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from rubric_judge.errors import SandboxError

_WAKE_S = 0.1
_MOST_AT_ONCE = 65_536

# One module of a package: stand-ins for the packages above it, which need more than it does.
# Where this process finds its packages, another may not: Python is started without its environment.
_START = """
import json, sys, types
sys.path[:] = json.loads(sys.argv[2]).get("path", sys.path)
for name, folder in json.loads(sys.argv[1]).items():
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = [folder]
from {module} import main
main(json.loads(sys.argv[2]))
"""


def start(
    module: str,
    settings: Mapping[str, object],
    *,
    folder: Path,
    flags: tuple[str, ...],
    environment: Mapping[str, str],
    purpose: str,
) -> subprocess.Popen[bytes]:
    """Start Python with the `main` of a module, its standard streams pipes.

    Args:
        module: its dotted name; of the packages above it nothing is run.
        settings: what `main` is called with, as JSON; `path` is its `sys.path`.
        folder: of the outermost of these packages.
        flags: of Python.
        environment: the whole of it.
        purpose: whose process it is, for the error.

    Raises:
        SandboxError: it could not be started.
    """
    packages = json.dumps(_packages_above(module, folder))
    script = [_START.format(module=module), packages, json.dumps(settings)]
    try:
        return subprocess.Popen(  # noqa: S603  # our own
            [sys.executable, *flags, "-c", *script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(
            f"{purpose}: no process could be started ({error})"
        ) from None


def _packages_above(module: str, folder: Path) -> dict[str, str]:
    """Return the packages that a module is in, the outermost first, with their folders."""
    package, *inner = module.split(".")[:-1]
    folders = {package: str(folder)}
    for name in inner:
        package = f"{package}.{name}"
        folder /= name
        folders[package] = str(folder)
    return folders


def converse(
    process: subprocess.Popen[bytes],
    order: bytes,
    *,
    is_over: Callable[[bytes], bool],
    check: Callable[[], object],
) -> bytes:
    """Write an order to a process and read its answer, neither waiting for the other.

    Args:
        process: from `start`.
        order: what to write.
        is_over: whether enough was read; asked ten times a second.
        check: called as often; what it raises is raised.

    Returns:
        What was read until then, or until there is no more.
    """
    to_it = cast("Any", process.stdin).fileno()
    from_it = cast("Any", process.stdout).fileno()
    os.set_blocking(to_it, False)
    left = memoryview(order)
    answer = b""
    while not is_over(answer):
        check()
        readable, writable, _ = select.select(
            [from_it], [to_it] if left else [], [], _WAKE_S
        )
        if writable:
            try:
                left = left[os.write(to_it, left) :]
            except BrokenPipeError:
                left = left[:0]
        if readable:
            part = os.read(from_it, _MOST_AT_ONCE)
            if not part:
                break
            answer += part
    return answer


def end(process: subprocess.Popen[bytes]) -> int:
    """End a process, if it has not ended, and what it started; return how it ended."""
    if process.returncode is None:
        # Before the wait: until then the number of the group cannot be another's.
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout):
        cast("Any", pipe).close()
    return process.wait()
