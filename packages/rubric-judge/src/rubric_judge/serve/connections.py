"""Connections to the service: how many, from where, and how long one may take to ask.

The bounds hold before a request is read, so also for those who have no token. At a bound the
connection that has been without a whole request for the longest time makes room, so that unfinished
requests, however many, keep nobody else out.
"""

from __future__ import annotations

import asyncio
import http
import resource
from collections import Counter, OrderedDict
from ipaddress import IPv6Network
from typing import Any

import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from rubric_judge.serve import schemas, telemetry
from rubric_judge.serve.config import ServeConfig

_UNREAD_S = 30.0
"""Longest time for which an answer lies here and the client takes none of it."""
_SHARE = 2
"""One of so many of the files that the process may open is for connections, and one of so many of
these for an address. The others are for the judge's connections, the ledger and the libraries."""

_log = structlog.get_logger("rubric_judge.serve")


class OpenConnections:
    """Counts connections, and makes room for another where one asks for nothing."""

    def __init__(self, config: ServeConfig, recurring: telemetry.Recurring) -> None:
        """Start without a connection.

        Args:
            config: the bounds; fewer where the process may not open twice as many files.
            recurring: says which log lines are written.
        """
        self.config = config
        self.most = min(config.max_connections, _files() // _SHARE)
        wanted = config.max_connections_per_address
        if wanted is None:  # who can only be this machine needs no share
            wanted = self.most if config.is_private else max(1, self.most // _SHARE)
        self.most_per_address = min(wanted, self.most)
        self._recurring = recurring
        self._by_address: Counter[str] = Counter()
        self._idle: OrderedDict[BoundedProtocol, None] = OrderedDict()

    def protocol(self, **arguments: Any) -> BoundedProtocol:
        """Return the HTTP protocol of a new connection."""
        return BoundedProtocol(self, **arguments)

    def enter(self, connection: BoundedProtocol) -> bool:
        """Count a new connection; return False if there is no room for it and none can be made."""
        of_address = self._by_address[connection.address] >= self.most_per_address
        if of_address or self._by_address.total() >= self.most:
            candidates = (
                idle for idle in self._idle if idle.address == connection.address
            )
            longest_idle = next(candidates if of_address else iter(self._idle), None)
            bound = {"bound": self.most}
            if of_address:
                bound = {"per_address": self.most_per_address}
            if longest_idle is None:
                self.warn("serve.connection.refused", **bound)
                return False
            self.warn("serve.connection.given_up", **bound)
            longest_idle.give_up()
        self._by_address[connection.address] += 1
        self._idle[connection] = None
        return True

    def asks(self, connection: BoundedProtocol) -> None:
        """Note that a whole request has arrived."""
        self._idle.pop(connection, None)

    def rests(self, connection: BoundedProtocol) -> None:
        """Note that the latest request has been answered."""
        self._idle[connection] = None

    def leave(self, connection: BoundedProtocol) -> None:
        """Forget a connection."""
        self._idle.pop(connection, None)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]

    def warn(self, event: str, **fields: object) -> None:
        """Log an event, unless it was logged a moment ago."""
        if self._recurring.passes(event):
            _log.warning(event, connections=self._by_address.total(), **fields)


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, with a deadline for a request's headers and for reading an answer."""

    def __init__(self, connections: OpenConnections, **arguments: Any) -> None:
        """Join the service's connections; uvicorn passes the other arguments."""
        super().__init__(**arguments)
        self.address = ""
        self._connections = connections
        self._is_counted = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """Timers of awaited `headers` and of an unread `answer`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, or say that there is no room."""
        self.address = _address(transport)
        self._is_counted = self._connections.enter(self)
        if not self._is_counted:
            self.transport = transport
            busy = "too many connections: close some, or ask again after Retry-After seconds"
            self._refuse(schemas.RefusedError("busy", busy, retry_after_s=1))
            return
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop("headers")
        self._stop("answer")
        if self._is_counted:
            self._is_counted = False
            self._connections.leave(self)
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; the time for headers runs from their first byte to their last."""
        if not self._is_counted or self.transport.is_closing():
            return
        super().data_received(data)
        if self._is_asked:
            self._stop("headers")
            if not self.cycle.more_body:
                self._connections.asks(self)
        elif "headers" not in self._timers and not self.transport.is_closing():
            self._expect_headers()

    def on_response_complete(self) -> None:
        """Rest, once the client has taken the answer."""
        super().on_response_complete()
        if not self._is_asked and self._is_counted:
            self._connections.rests(self)
        self._expect_taken()

    def pause_writing(self) -> None:
        """Wait for the client to take what was written."""
        super().pause_writing()
        self._expect_taken()

    def resume_writing(self) -> None:
        """Go on: the client has taken it."""
        super().resume_writing()
        self._stop("answer")

    def give_up(self) -> None:
        """Close the connection at once."""
        self.transport.abort()
        self.connection_lost(None)

    @property
    def _is_asked(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    def _expect_headers(self) -> None:
        wait_s = self._connections.config.headers_s
        self._timers["headers"] = self.loop.call_later(
            wait_s, self._headers_too_slow, wait_s
        )

    def _stop(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()

    def _headers_too_slow(self, wait_s: float) -> None:
        self._stop("headers")
        self._connections.warn("serve.connection.too_slow", headers_s=wait_s)
        late = f"the headers did not arrive within {wait_s:g} s: send them faster"
        self._refuse(schemas.RefusedError("too_slow", late))

    def _refuse(self, refused: schemas.RefusedError) -> None:
        answer = schemas.refusal(refused, headers={"Connection": "close"})
        status = http.HTTPStatus(answer.status_code)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
        lines += [name + b": " + value for name, value in answer.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()
        self._expect_taken()

    def _expect_taken(self) -> None:
        """Begin to wait for the client to take what lies here."""
        self._stop("answer")
        if left := self.transport.get_write_buffer_size():
            self._timers["answer"] = self.loop.call_later(
                _UNREAD_S, self._check_taken, left
            )

    def _check_taken(self, left: int) -> None:
        if self.transport.get_write_buffer_size() < left:
            self._expect_taken()
        else:
            self._connections.warn("serve.connection.unread", bytes=left)
            self.transport.abort()


def _address(transport: asyncio.Transport) -> str:
    """Return who is at the other end: of IPv6 the network, for a host has as many as it likes."""
    peer = transport.get_extra_info("peername")
    address = str(peer[0]) if peer else ""
    return str(IPv6Network((address, 64), strict=False)) if ":" in address else address


def _files() -> int:
    """How many files the process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if soft == resource.RLIM_INFINITY else soft
