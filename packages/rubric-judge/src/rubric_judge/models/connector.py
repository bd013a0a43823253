"""A connector that reuses connections only while no unread bytes lie on them.

aiohttp keeps what arrives on an idle connection, and hands it out as the answer to the next
request. Importing this module imports aiohttp.
"""

from __future__ import annotations

import select
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakSet, ref

import aiohttp

if TYPE_CHECKING:
    from aiohttp import ClientRequest, ClientTimeout
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace


_latest: ContextVar[ref[ResponseHandler] | None] = ContextVar("_latest", default=None)
"""The connection of this task's latest request; weak, since a context may outlive it."""
_used: WeakSet[ResponseHandler] = WeakSet()
"""Connections that have carried a request."""


class CleanConnector(aiohttp.TCPConnector):
    """Closes an idle connection on which anything has arrived, instead of reusing it.

    What arrives after the next request has gone out cannot be told from its answer.
    """

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: ClientTimeout,  # noqa: ASYNC109  # aiohttp's signature
    ) -> Connection:
        """Return an idle connection without unread bytes, or a new one."""
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is None or protocol not in _used:  # new
                break
            if not (protocol.should_close or _holds_unread(protocol)):
                break
            connection.close()
        if protocol is not None:
            _used.add(protocol)
            _latest.set(ref(protocol))
        return connection


def drop_latest_connection() -> None:
    """Close the connection of this task's latest request, so that nobody uses it again."""
    latest = _latest.get()
    protocol = latest() if latest is not None else None
    if protocol is not None:
        protocol.force_close()


def _holds_unread(protocol: ResponseHandler) -> bool:
    """Whether the socket has bytes, or an end, that the event loop has not seen yet."""
    socket = protocol.transport and protocol.transport.get_extra_info("socket")
    if socket is None or socket.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
