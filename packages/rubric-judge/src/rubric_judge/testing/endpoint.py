"""An OpenAI-compatible server on 127.0.0.1 that answers and fails as a test tells it to."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self, cast

from aiohttp import web

from rubric_judge.testing.faults import Fault, Latency
from rubric_judge.testing.replies import completion, reply_text, weights_asked_for

__all__ = ["Award", "FakeCall", "FakeEndpoint"]

_STATUS = {
    Fault.RATE_LIMIT: 429,
    Fault.RATE_LIMIT_RETRY_AFTER: 429,
    Fault.SERVER_ERROR: 500,
    Fault.OVERLOADED: 503,
    Fault.UNAUTHORIZED: 401,
    Fault.NOT_FOUND: 404,
    Fault.BAD_REQUEST: 400,
    Fault.CONTENT_POLICY: 400,
}
_DRIP_INTERVAL_S = 0.02
_MAX_REQUEST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class FakeCall:
    """One request that arrived."""

    number: int
    """0 for the first."""
    at_s: float
    """`time.monotonic()` at its arrival."""
    body: Mapping[str, object]
    headers: Mapping[str, str]
    weights: Mapping[str, float]
    """Weights by criterion id, read from the request's JSON schema."""
    fault: Fault | None

    @property
    def messages(self) -> list[dict[str, str]]:
        """The chat messages."""
        return cast("list[dict[str, str]]", self.body["messages"])


Award = Callable[[FakeCall], Mapping[str, float] | float | str]
"""Scores by criterion id, one share z of every weight, or the reply's text itself."""


class FakeEndpoint:
    """Serves `POST /v1/chat/completions`; a context manager.

    >>> with FakeEndpoint(0.5, faults=[Fault.RATE_LIMIT]) as endpoint:
    ...     config = JudgeConfig(model="openai/fake", api_base=endpoint.url)

    It runs in a thread of its own with its own event loop, so that it serves synchronous and
    asynchronous clients alike, and ends with the `with` block or with the process.
    """

    def __init__(
        self,
        award: Award | float = 1.0,
        *,
        faults: Iterable[Fault | None] | Mapping[Fault, float] = (),
        latency: Latency | float = 0.0,
        retry_after_s: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Set the behaviour.

        Args:
            award: what valid replies award.
            faults: the fault of each call in turn, none after the last; or the probability of each
                fault, drawn with `seed`.
            latency: seconds before every answer, or a distribution of them.
            retry_after_s: the header's value for `Fault.RATE_LIMIT_RETRY_AFTER`.
            seed: seed of faults and latencies.
        """
        self.calls: list[FakeCall] = []
        """Requests in the order of arrival; read it when the calls are done."""
        self.url = ""
        """Base address, set while the server runs."""
        self._award = award
        self._probabilities: dict[Fault, float] = {}
        self._script: Iterator[Fault | None] = iter(())
        if isinstance(faults, Mapping):
            self._probabilities = dict(cast("Mapping[Fault, float]", faults))
        else:
            self._script = iter(faults)
        self._latency = latency
        self._retry_after_s = retry_after_s
        self._generator = random.Random(seed)
        self._started = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._problem: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="fake-endpoint", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._problem is not None:
            raise self._problem
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._stopping is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._problem = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        app.router.add_post("/v1/chat/completions", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = cast("tuple[str, int]", runner.addresses[0])[1]
            self.url = f"http://127.0.0.1:{port}/v1"
            self._started.set()
            await self._stopping.wait()
        finally:
            await runner.cleanup()

    def _next_fault(self) -> Fault | None:
        draw = self._generator.random()
        for fault, probability in self._probabilities.items():
            draw -= probability
            if draw < 0:
                return fault
        return next(self._script, None)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        arrived_s = time.monotonic()
        body = cast("dict[str, object]", await request.json())
        call = FakeCall(
            number=len(self.calls),
            at_s=arrived_s,
            body=body,
            headers={name.lower(): value for name, value in request.headers.items()},
            weights=weights_asked_for(body),
            fault=self._next_fault(),
        )
        self.calls.append(call)
        latency = self._latency
        delay_s = latency(self._generator) if callable(latency) else latency
        if delay_s:
            await asyncio.sleep(delay_s)
        if call.fault is not None and call.fault in _STATUS:
            return self._refusal_to_serve(call.fault)
        payload = completion(
            self._text(call),
            number=call.number,
            model=str(body.get("model")),
            fault=call.fault,
            prompt_tokens=sum(len(message["content"]) for message in call.messages) // 4,
        )
        return await self._send(request, call.fault, web.json_response(payload))

    def _text(self, call: FakeCall) -> str:
        award = self._award(call) if callable(self._award) else self._award
        if isinstance(award, str):
            return award
        if not isinstance(award, Mapping):
            award = {name: weight * award for name, weight in call.weights.items()}
        return reply_text(award, call.weights, call.fault)

    def _refusal_to_serve(self, fault: Fault) -> web.Response:
        status = _STATUS[fault]
        headers: dict[str, str] = {}
        if fault is Fault.RATE_LIMIT_RETRY_AFTER:
            headers["Retry-After"] = f"{self._retry_after_s:g}"
        message = f"fake {fault}"
        if fault is Fault.CONTENT_POLICY:
            # Clients know this refusal by its words.
            message = "Your request was rejected as a result of the safety system."
        error = {"message": message, "type": str(fault), "code": str(status)}
        return web.json_response({"error": error}, status=status, headers=headers)

    async def _send(
        self, request: web.Request, fault: Fault | None, response: web.Response
    ) -> web.StreamResponse:
        body = cast("bytes", response.body)
        match fault:
            case Fault.HANG:
                await cast("asyncio.Event", self._stopping).wait()
                return response
            case Fault.RESET:
                _reset(request)
                return response
            case Fault.WRONG_CONTENT_TYPE:
                return web.Response(text="<html>Bad gateway</html>", content_type="text/html")
            case Fault.HALF_RESPONSE:
                stream = await _open_stream(request, len(body))
                await stream.write(body[: len(body) // 2])
                _reset(request)
                return stream
            case Fault.SLOW_DRIP:
                stream = await _open_stream(request, len(body))
                for byte in body:
                    if self._stopping is None or self._stopping.is_set():
                        break
                    await stream.write(bytes([byte]))
                    await asyncio.sleep(_DRIP_INTERVAL_S)
                return stream
            case _:
                return response


async def _open_stream(request: web.Request, length: int) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": "application/json"})
    stream.content_length = length
    await stream.prepare(request)
    return stream


def _reset(request: web.Request) -> None:
    if request.transport is None:
        return
    connection = cast("socket.socket", request.transport.get_extra_info("socket"))
    # Linger 0 makes the close a reset instead of an orderly end.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()
