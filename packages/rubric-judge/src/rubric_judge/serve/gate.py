"""The gate before the application: token, size and pace of bodies, log line, error boundary."""

import asyncio
import secrets
import time
import traceback
from collections.abc import Mapping
from typing import cast

import anyio
import structlog
from pydantic import SecretStr
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rubric_judge.pool.calls import innermost
from rubric_judge.serve.schemas import RefusedError, refusal
from rubric_judge.serve.service import JudgeService

BROKEN = "the service failed; its log says where"
"""The message of every internal error."""
OPEN_PATHS = frozenset({"/healthz", "/healthz/live"})
"""Paths that are answered without a token, for monitoring."""
_LINGER_S = 5.0
"""Longest time to read on after a refusal, so that the client sees it instead of a reset."""

_log = structlog.get_logger("rubric_judge.serve")


class _Arriving:
    """A body on its way; once it is complete, the application receives it as one message."""

    def __init__(self, receive: Receive) -> None:
        self.ended = False
        self.whole: Message | None = None
        self._receive = receive

    async def __call__(self) -> Message:
        whole = self.whole
        if whole is not None:
            self.whole = None
            return whole
        message = await self._receive()
        is_last = not message.get("more_body", False)
        self.ended = message["type"] == "http.disconnect" or is_last
        return message

    async def rest(self) -> None:
        """Read on for a while, at most to the end of the body."""
        with anyio.move_on_after(_LINGER_S):
            while not self.ended:
                await self()


class Gate:
    """Passes a complete request on to the application, or answers it itself."""

    def __init__(
        self, app: ASGIApp, service: JudgeService, *, token: SecretStr | None
    ) -> None:
        """Put the gate before an application.

        Args:
            app: the application that answers requests.
            service: the service, with its limits and counts.
            token: the token that requests must bear.
        """
        self._app = app
        self._service = service
        self._token = token.get_secret_value().encode() if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; other protocols pass through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = time.perf_counter()
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        arriving = _Arriving(receive)
        try:
            await self._answer(scope, arriving, noting)
        except asyncio.CancelledError:
            # The server stops, and no longer waits for the rest of a body.
            if arriving.ended:
                raise
        # An internal error, of whatever type, costs only its own request. Its message may hold a
        # text, so only the type and place are logged.
        except Exception as error:  # noqa: BLE001
            if self._service.recurring.passes("serve.request.unexpected"):
                _log_unexpected(error)
            if not status:
                broken = RefusedError("internal", BROKEN)
                await refusal(broken)(scope, receive, noting)
        finally:
            self._note(scope, status, time.perf_counter() - started_s)

    async def _answer(self, scope: Scope, arriving: _Arriving, send: Send) -> None:
        try:
            body = await self._admitted_body(scope, arriving)
        except RefusedError as refused:
            await arriving.rest()
            answer = refusal(refused, headers={"Connection": "close"})
            await answer(scope, arriving, send)
        else:
            arriving.whole = {"type": "http.request", "body": body, "more_body": False}
            await self._app(scope, arriving, send)

    async def _admitted_body(self, scope: Scope, arriving: _Arriving) -> bytes:
        headers = dict(cast("list[tuple[bytes, bytes]]", scope["headers"]))
        if self._token is not None and scope["path"] not in OPEN_PATHS:
            self._check_token(headers)
        bound = self._service.config.max_body_bytes
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > bound:
            raise _too_large(bound)
        chunks: list[bytes] = []
        size = 0
        try:
            with anyio.fail_after(self._service.config.body_s):
                while not arriving.ended:
                    message = await arriving()
                    if message["type"] == "http.disconnect":
                        raise RefusedError(
                            "too_slow", "the client closed the connection"
                        )
                    chunks.append(message.get("body", b""))
                    size += len(chunks[-1])
                    if size > bound:
                        raise _too_large(bound)
        except TimeoutError:
            raise RefusedError(
                "too_slow",
                f"the body did not arrive within {self._service.config.body_s:g} s: "
                "send it faster",
            ) from None
        return b"".join(chunks)

    def _check_token(self, headers: Mapping[bytes, bytes]) -> None:
        scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
        # Takes as long for a wrong token as for the right one.
        right = secrets.compare_digest(credentials.strip(), self._token or b"")
        if scheme.lower() != b"bearer" or not right:
            raise RefusedError(
                "unauthorized",
                "send the header `Authorization: Bearer` with the service's token",
            )

    def _note(self, scope: Scope, status: int, latency_s: float) -> None:
        # The route, not the path: a path may be anything, and there is no limit to their number.
        path = getattr(scope.get("route"), "path", "other")
        self._service.metrics.answered(
            path=path,
            status=status,
            latency_s=latency_s,
        )
        _log.info(
            "serve.request.finished",
            method=scope["method"],
            path=path,
            status=status,
            latency_s=latency_s,
            queued=self._service.queued,
        )


def _too_large(bound: int) -> RefusedError:
    return RefusedError(
        "too_large", f"the body is above {bound} bytes: send several requests"
    )


def _log_unexpected(error: Exception) -> None:
    # A task group wraps the error that matters.
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    where = innermost(traceback.extract_tb(error.__traceback__))
    _log.error("serve.request.unexpected", error=type(error).__name__, where=where)
