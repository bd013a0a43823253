"""What every test of the workspace shares: no network but this machine, and hypothesis profiles."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A deadline measures the machine, not the code; shared machines are slow at random moments.
settings.register_profile(
    "dev", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, max_examples=100)
settings.load_profile("dev")


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
