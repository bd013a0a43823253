"""An OpenAI-compatible server on 127.0.0.1 that answers and fails as a test tells it to."""

import asyncio
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self, cast

from aiohttp import web

from rubric_judge.testing import replies
from rubric_judge.testing.calls import Award, CallRecord, FakeCall, Keep
from rubric_judge.testing.faults import Drawn, Fault, Faults, Latency, drawn_faults
from rubric_judge.testing.replies import ServedModel, completion

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
# Thousands of clients may connect in the same moment.
_BACKLOG = 8192
# Turns of the loop from an accepted socket to a connection that waits for a request, and one more.
_TURNS_TO_SERVE = 4
# Longest wait for calls that are being answered; 0 would be no limit.
_SHUTDOWN_S = 0.1


@dataclass(eq=False)
class FakeEndpoint:
    """Serves `POST /v1/chat/completions` and `GET /v1/models`; a context manager.

    >>> with FakeEndpoint(0.5, faults=[Fault.RATE_LIMIT]) as endpoint:
    ...     config = JudgeConfig(model="openai/fake", api_base=endpoint.url)

    It runs in a thread of its own with its own event loop, so that it serves synchronous and
    asynchronous clients alike, and ends with the `with` block or with the process.
    `FakeEndpointProcess` is the same in a process of its own.
    """

    award: Award | float = 1.0
    """Scores that valid replies award."""
    _: KW_ONLY
    faults: Faults = ()
    """The fault of each call in turn, none after the last; or the probability of each fault, drawn
    with `seed`."""
    latency: Latency | float = 0.0
    """Seconds before every answer, or a distribution of them."""
    retry_after_s: float = 0.0
    """The header's value for `Fault.RATE_LIMIT_RETRY_AFTER`."""
    seed: int = 0
    """Seed of faults and latencies."""
    keep: Keep = "calls"
    """How much to store of the calls; for many thousands `records`, or only `counts`."""
    served: ServedModel | None = None
    """The model that answers requests without a schema; left out, `award` does."""
    logprobs: Callable[[FakeCall], object] | None = None
    """The `logprobs` of the answer to a request that asks for them; left out, `award` is the
    probability of a yes, where it is a share."""
    port: int = 0
    """Where it listens; 0 for any port that is free."""
    calls: list[FakeCall] = field(default_factory=list[FakeCall], init=False)
    """Requests in the order of arrival; read it when the calls are done."""
    records: list[CallRecord] = field(default_factory=list[CallRecord], init=False)
    """Record of each call, in the order of the answers."""
    counts: Counter[Fault | None] = field(
        default_factory=Counter[Fault | None], init=False
    )
    """Calls by fault."""
    url: str = field(default="", init=False)
    """Base address, set while the server runs."""

    def __post_init__(self) -> None:
        self._generator = random.Random(self.seed)
        self._faults = drawn_faults(self.faults, self._generator)
        self._ready: Future[str] = Future()
        self._thread = threading.Thread(
            target=self._run, name="fake-endpoint", daemon=True
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = self._ready.result()
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._ready.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = web.Server(
            self._answer,
            request_factory=_request,
            handler_cancellation=True,  # a call whose client has gone is over
            access_log=None,
        )
        listener = socket.create_server(("127.0.0.1", self.port), backlog=_BACKLOG)
        runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_S)
        await runner.setup()
        try:
            await web.SockSite(runner, listener, backlog=_BACKLOG).start()
            port = cast("tuple[str, int]", listener.getsockname())[1]
            self._ready.set_result(f"http://127.0.0.1:{port}/v1")
            await self._stopping.wait()
        finally:
            # asyncio and aiohttp leave a connection open that was accepted but is not yet served
            # when its server closes: none is accepted any more, and all begin to be served.
            self._loop.remove_reader(listener)
            for _ in range(_TURNS_TO_SERVE):
                await asyncio.sleep(0)
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        served = self.served or ServedModel()
        match request.method, request.path:
            case "POST", "/v1/chat/completions":
                return await self._completion(request)
            case "GET", "/v1/models":
                return web.json_response(served.models())
            case "POST", "/v1/completions":
                scored = served.scored(json.loads(await request.read()))
                return (
                    web.Response(status=404)
                    if scored is None
                    else web.json_response(scored)
                )
            case "POST", "/tokenize":
                return web.json_response(served.count(json.loads(await request.read())))
            case _:
                return web.Response(status=404)

    async def _completion(self, request: web.BaseRequest) -> web.StreamResponse:
        arrived_s = time.monotonic()
        body = cast("dict[str, object]", json.loads(await request.read()))
        drawn = next(self._faults)
        headers = {name.lower(): value for name, value in request.headers.items()}
        weights = replies.weights_asked_for(body)
        responses = replies.responses_asked_for(body)
        number = self.counts.total()
        call = FakeCall(
            number, arrived_s, body, headers, weights, drawn.fault, responses
        )
        self.counts[call.fault] += 1
        if self.keep == "calls":
            self.calls.append(call)
        latency = self.latency
        delay_s = latency(self._generator) if callable(latency) else latency
        if delay_s:
            await asyncio.sleep(delay_s)
        served = None if "response_format" in body else self.served
        refusal = call.fault if call.fault in _STATUS else None
        if refusal is None and served is not None and not served.fits(body):
            refusal = Fault.BAD_REQUEST
        if refusal is not None:
            self._note(call, drawn, {})
            return self._refusal_to_serve(refusal)
        if body.get("logprobs") and (served is None or self.logprobs is not None):
            answer = self._verdict(call, drawn)
        elif served is not None:
            answer = self._plain(call, drawn, served)
        else:
            answer = self._judgement(call, drawn)
        return await self._send(request, call.fault, answer)

    def _judgement(self, call: FakeCall, drawn: Drawn) -> bytes:
        weights = call.weights
        fault = call.fault
        alone = [call.of(name) for name in call.responses] or [call]
        awards = [self._awarded(fake_call) for fake_call in alone]
        for fake_call, award in zip(alone, awards, strict=True):
            self._note(fake_call, drawn, award)
        text = next((award for award in awards if isinstance(award, str)), None)
        is_given = text is not None
        scores = cast("list[Mapping[str, float]]", awards)
        if text is None and call.responses:
            by_name = dict(zip(call.responses, scores, strict=True))
            text = replies.group_reply_text(by_name, weights, fault)
        elif text is None:
            text = replies.reply_text(scores[0], weights, fault)
        if drawn.text is not None and (not is_given or drawn.text.place == "body"):
            text = replies.hostile_text(text, drawn.text)
        return _body(
            call,
            text,
            fault,
            prompt_tokens=_prompt_tokens(call),
            written_tokens=len(text) // 4,
        )

    def _verdict(self, call: FakeCall, drawn: Drawn) -> bytes:
        award = self.award(call) if callable(self.award) else self.award
        share = award if isinstance(award, int | float) else None
        text = "Yes" if share is not None and share >= replies.HALF else "No"
        logprobs: object = None
        if self.logprobs is not None:
            logprobs = self.logprobs(call)
        elif share is not None:
            logprobs = replies.verdict_logprobs(share)
        self._note(call, drawn, {} if share is None else {"yes": share})
        return _body(
            call,
            _hostile_or(text, drawn),
            call.fault,
            logprobs=logprobs,
            prompt_tokens=_prompt_tokens(call),
            written_tokens=1,
        )

    def _awarded(self, call: FakeCall) -> Mapping[str, float] | str:
        award = self.award(call) if callable(self.award) else self.award
        if isinstance(award, str | Mapping):
            return award
        return {name: weight * award for name, weight in call.weights.items()}

    def _plain(self, call: FakeCall, drawn: Drawn, served: ServedModel) -> bytes:
        plain = served.plain(call)
        self._note(call, drawn, plain.text)
        fault = Fault.TRUNCATED if plain.is_cut and call.fault is None else call.fault
        return _body(
            call,
            _hostile_or(replies.plain_text(plain.text, call.fault), drawn),
            fault,
            prompt_tokens=served.prompt_tokens(call.body),
            written_tokens=plain.tokens,
        )

    def _note(
        self, call: FakeCall, drawn: Drawn, award: Mapping[str, float] | str
    ) -> None:
        if self.keep == "counts":
            return
        awarded = None if isinstance(award, str) else award
        if call.fault not in replies.HARMLESS:
            awarded = dict[str, float]()
        view = mark.view if (mark := call.mark) else None
        hostile = drawn.text.name if drawn.text else None
        self.records.append(
            CallRecord(call.number, call.at_s, view, call.fault, hostile, awarded)
        )

    def _refusal_to_serve(self, fault: Fault) -> web.Response:
        status = _STATUS[fault]
        waits = {"Retry-After": f"{self.retry_after_s:g}"}
        headers = waits if fault is Fault.RATE_LIMIT_RETRY_AFTER else None
        message = f"fake {fault}"
        if fault is Fault.CONTENT_POLICY:
            # Clients know this refusal by its words.
            message = "Your request was rejected as a result of the safety system."
        error = {"message": message, "type": str(fault), "code": str(status)}
        return web.json_response({"error": error}, status=status, headers=headers)

    async def _send(
        self, request: web.BaseRequest, fault: Fault | None, body: bytes
    ) -> web.StreamResponse:
        if fault is Fault.WRONG_CONTENT_TYPE:
            return web.Response(
                text="<html>Bad gateway</html>", content_type="text/html"
            )
        if fault in {Fault.HALF_RESPONSE, Fault.SLOW_DRIP}:
            stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            stream.content_length = len(body)
            with suppress(ConnectionResetError):  # the client may have gone
                await stream.prepare(request)
                if fault is Fault.SLOW_DRIP:
                    await self._drip(stream, body)
                else:
                    await stream.write(body[: len(body) // 2])
                    _reset(request)
            return stream
        if fault is Fault.HANG:
            await self._stopping.wait()
        elif fault is Fault.RESET:
            _reset(request)
        return web.Response(body=body, content_type="application/json")

    async def _drip(self, stream: web.StreamResponse, body: bytes) -> None:
        for byte in body:
            if self._stopping.is_set():
                return
            await stream.write(bytes([byte]))
            await asyncio.sleep(_DRIP_INTERVAL_S)


def _request(*parts: Any) -> web.BaseRequest:
    message, payload, protocol, writer, task = parts
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message,
        payload,
        protocol,
        writer,
        task,
        loop,
        client_max_size=_MAX_REQUEST_BYTES,
    )


def _prompt_tokens(call: FakeCall) -> int:
    return sum(len(message["content"]) for message in call.messages) // 4


def _hostile_or(text: str, drawn: Drawn) -> str:
    """Return the hostile text that was drawn, with the reply in it, or else the reply."""
    if drawn.text is None or drawn.text.place not in {"reply", "body"}:
        return text
    return replies.hostile_text(text, drawn.text)


def _body(
    call: FakeCall,
    text: str,
    fault: Fault | None,
    *,
    logprobs: object = None,
    **usage: int,
) -> bytes:
    if call.fault is Fault.HOSTILE_BODY:
        return text.encode(errors="surrogateescape")
    body = completion(text, call=call, fault=fault, **usage)
    if logprobs is not None:
        choices = cast("list[dict[str, object]]", body["choices"])
        choices[0] |= {"logprobs": logprobs, "finish_reason": "length"}
    return replies.encoded(body)


def _reset(request: web.BaseRequest) -> None:
    if request.transport is None:
        return
    connection = cast("socket.socket", request.transport.get_extra_info("socket"))
    # Linger 0 makes the close a reset instead of an orderly end.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()
