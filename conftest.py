"""What every test of the workspace shares: network, garbage and hypothesis profiles."""

from __future__ import annotations

import gc
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Under `uv run`, Ray would copy this folder, and start every worker by `uv run` in the copy.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # noqa: TID251  # read when Ray is imported

# A deadline measures the machine, not the code; shared machines are slow at random moments.
settings.register_profile(
    "dev", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, max_examples=100)
settings.load_profile("dev")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file that holds nothing of what `-m` asks for: all of them take half a minute."""
    asked: str = config.option.markexpr
    wanted = asked.partition(" ")[0]
    marks = {line.partition(":")[0] for line in config.getini("markers")}
    if wanted not in marks or " or " in asked or collection_path.suffix != ".py":
        return None
    return f"mark.{wanted}" not in collection_path.read_text("utf-8") or None


def pytest_collection_finish() -> None:
    """Leave what all tests import and collect out of every search for garbage.

    These are millions of objects, and looking through them took longer than many a test.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown() -> None:
    """Forget where a command of the test logged to: its standard error is closed by now."""
    if "structlog" in sys.modules:
        sys.modules["structlog"].reset_defaults()


def _is_loopback(host: str) -> bool:
    if host in {"", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse_unless_loopback(address: object) -> None:
    if isinstance(address, tuple) and address and not _is_loopback(str(address[0])):
        message = f"tests may connect to this machine only, not to {address!r}"
        raise PermissionError(message)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Let tests send SIGINT, which a shell's background job ignores, and its children with it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def loopback_only() -> Iterator[None]:
    """Let sockets connect to the loopback interface only."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded_connect(self: socket.socket, address: Any) -> None:  # noqa: ANN401 - as in socket
        _refuse_unless_loopback(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:  # noqa: ANN401 - as in socket
        _refuse_unless_loopback(address)
        return connect_ex(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        yield
