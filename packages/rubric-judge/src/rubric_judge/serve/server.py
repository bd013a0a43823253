"""The process: uvicorn, with an end that loses no answer."""

import asyncio
import resource
import socket
import time
from collections.abc import Callable
from types import FrameType
from typing import cast

import structlog
import uvicorn

from rubric_judge.errors import JudgeSetupError
from rubric_judge.serve.app import build_app
from rubric_judge.serve.connections import OpenConnections
from rubric_judge.serve.service import JudgeService

_LAST_BYTES_S = 5
"""Longest wait for answers that are on their way out."""

_BACKLOG = 2048
"""Connections that may wait to be accepted."""
_ACCEPTED_AT_ONCE = 32
"""Most connections accepted in one turn of the event loop. The bounds are asked a few turns later,
and asyncio tries, and logs, as often when the process has no file left."""
_TICKS_OF_REPORT = 10
_FEW = 256
"""Connections below which it is said how many there may be, though nobody asked for more."""
_KEEP_ALIVE_S = 75
"""Longer than clients keep an idle connection, so that none is closed as they reuse it."""

_log = structlog.get_logger("rubric_judge.serve")


class _DrainingServer(uvicorn.Server):
    """On the first signal refuses new work and ends when the rest is answered; on the second, now.

    Uvicorn alone would close its socket at once, so that nobody who asks could be told why.
    """

    def __init__(self, config: uvicorn.Config, service: JudgeService) -> None:
        super().__init__(config)
        self.unanswered = 0
        self._service = service
        self._drain_until_s: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end, or end; called by the signal's handler."""
        del sig, frame
        patience_s = 0 if self._service.draining else self._service.config.drain_s
        self._service.draining = True
        self._drain_until_s = time.monotonic() + patience_s

    async def on_tick(self, counter: int) -> bool:
        """End when nothing waits, or when it has waited long enough."""
        if self._drain_until_s is not None and not self.should_exit:
            queued = self._service.queued
            if queued == 0 or time.monotonic() > self._drain_until_s:
                self.unanswered = queued
                self._service.abandon()
                self.should_exit = True
        if counter % _TICKS_OF_REPORT == 0:
            self._service.recurring.report()
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, with room for many who connect in the same moment."""
        await super().startup(sockets)
        for bound in sockets or ():
            bound.listen(_BACKLOG)


async def serve(service: JudgeService, *, on_start: Callable[[str], None]) -> int:
    """Serve until a signal, then answer what is waiting.

    Args:
        service: judges; its configuration says where to listen.
        on_start: called with the address when it listens.

    Returns:
        How many responses were left without an answer; 0 for an orderly end.

    Raises:
        OSError: the address is taken, or not this machine's.
        JudgeSetupError: a variable is named for the token and not set; or none is named, and other
            machines can reach the address.
    """
    bounds = service.config
    if bounds.token_env is None and not bounds.is_private:
        raise JudgeSetupError(
            f"host {bounds.host!r} can be reached from other machines: name an environment "
            "variable with a token in token_env, or listen on 127.0.0.1"
        )
    _may_open_files(2 * bounds.max_connections)
    connections = OpenConnections(bounds, service.recurring)
    wanted = (
        bounds.max_connections if "max_connections" in bounds.model_fields_set else _FEW
    )
    if connections.most < wanted:
        _log.warning(
            "serve.connections.fewer",
            wanted=wanted,
            most=connections.most,
            remedy="raise `ulimit -n` to twice as many as are wanted",
        )
    config = uvicorn.Config(
        build_app(service),
        # h11 bounds the size of headers; the other protocol of uvicorn's does not.
        http=cast("type[asyncio.Protocol]", connections.protocol),
        backlog=max(1, min(_ACCEPTED_AT_ONCE, connections.most // 16)),
        log_config=None,  # its lines are not ours
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_LAST_BYTES_S,
    )
    server = _DrainingServer(config, service)
    # Listening from here on; uvicorn would end the program where an address cannot be had.
    family = socket.AF_INET6 if ":" in bounds.host else socket.AF_INET
    with socket.create_server(
        (bounds.host, bounds.port), family=family, backlog=_BACKLOG
    ) as bound:
        host, port = bound.getsockname()[:2]
        on_start(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
        with service.recurring.over_libraries():
            await server.serve(sockets=[bound])
    if server.unanswered:
        _log.error("serve.drain.unanswered", responses=server.unanswered)
    return server.unanswered


def _may_open_files(wanted: int) -> None:
    """Raise the soft limit on open files, as far as the hard one lets it be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, possible), hard))
