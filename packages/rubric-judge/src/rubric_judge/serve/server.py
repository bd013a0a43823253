"""The process: uvicorn, with an end that loses no answer."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from types import FrameType

import structlog
import uvicorn

from rubric_judge.errors import JudgeSetupError
from rubric_judge.serve.app import build_app
from rubric_judge.serve.service import JudgeService

__all__ = ["serve"]

_LAST_BYTES_S = 5
"""Longest wait for answers that are on their way out."""

_BACKLOG = 2048
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
        patience_s = 0 if self._service.admission.draining else self._service.config.drain_s
        self._service.admission.draining = True
        self._drain_until_s = time.monotonic() + patience_s

    async def on_tick(self, counter: int) -> bool:
        """End when nothing waits, or when it has waited long enough."""
        if self._drain_until_s is not None and not self.should_exit:
            queued = self._service.admission.queued
            if queued == 0 or time.monotonic() > self._drain_until_s:
                self.unanswered = queued
                self._service.abandon()
                self.should_exit = True
        return await super().on_tick(counter)


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
    config = uvicorn.Config(
        build_app(service),
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
    with socket.create_server((bounds.host, bounds.port), family=family, backlog=_BACKLOG) as bound:
        host, port = bound.getsockname()[:2]
        on_start(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
        await server.serve(sockets=[bound])
    if server.unanswered:
        _log.error("serve.drain.unanswered", responses=server.unanswered)
    return server.unanswered
