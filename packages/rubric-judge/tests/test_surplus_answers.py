"""An answer that nobody asked for is never taken for the answer to the next question."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from rubric_core import JudgeResult, JudgeView, Outcome, Reason
from rubric_judge import JudgeConfig, LLMJudge

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio

WAYS: dict[str, dict[str, object]] = {
    "openai": {"model": "openai/fake"},
    "hosted_vllm": {"model": "hosted_vllm/fake"},
    "direct": {"model": "fake", "transport": "direct"},
}
every_way = pytest.mark.parametrize("way", WAYS)

Serve = Callable[[int, str, asyncio.StreamWriter], Awaitable[None]]
"""Answers a request: of its number on its connection, from 0, and its id."""


def _answer(share: int, *, request_id: str = "x", header: str = "") -> bytes:
    scores = {"names the loss": 2 * share, "gives_limit": share}
    text = json.dumps({"scores": scores, "total": 3 * share, "max_total": 3})
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    body = json.dumps({"id": f"chatcmpl-{request_id}", "choices": [choice]}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{header}\r\n".encode() + body


HONEST, SURPLUS = _answer(0), _answer(1)
NO_MODELS = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class _Server:
    """Counts connections and requests of answers, and says to nobody which models it has.

    A client asks once for its models, on a connection of its own, which is counted apart.
    """

    def __init__(self, serve: Serve) -> None:
        self.url = ""
        self.connections = 0
        self.requests = 0
        self.listings = 0
        self._serve = serve

    async def take(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        number = 0
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = head.partition("content-length:")[2].split("\r\n")[0]
                await reader.readexactly(int(length or "0"))
                if head.startswith("get /v1/models "):
                    self.connections -= 1
                    self.listings += 1
                    writer.write(NO_MODELS)
                    continue
                request_id = head.partition("x-request-id:")[2].split("\r\n")[0].strip()
                self.requests += 1
                await self._serve(number, request_id, writer)
                number += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has closed it
        finally:
            writer.close()


@asynccontextmanager
async def _serving(serve: Serve) -> AsyncGenerator[_Server]:
    served = _Server(serve)
    server = await asyncio.start_server(served.take, "127.0.0.1", 0)
    async with server:
        served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield served


def _judge(url: str, way: str, *, attempts: int = 1) -> LLMJudge:
    settings = {"api_base": url, "max_transport_attempts": attempts, "backoff_s": 0.01}
    return LLMJudge(JudgeConfig.model_validate({**settings, **WAYS[way]}))


def _total(result: JudgeResult) -> float | None:
    assert result.outcome is Outcome.SCORED, result
    return result.total


@every_way
async def test_connections_are_kept(make_view: ViewFactory, way: str) -> None:
    async def serve(number: int, request_id: str, writer: asyncio.StreamWriter) -> None:
        del number, request_id
        writer.write(HONEST)

    async with _serving(serve) as server, _judge(server.url, way) as judge:
        for _ in range(3):
            assert _total(await judge.judge(make_view())) == 0
        assert (server.connections, server.requests) == (1, 3)
        assert server.listings == (way != "hosted_vllm")


@every_way
@pytest.mark.parametrize(
    "cut", [0, 9, -40], ids=["whole", "in a header", "in the body"]
)
async def test_a_second_answer_right_behind_the_first_is_dropped(
    make_view: ViewFactory, way: str, cut: int
) -> None:
    async def serve(number: int, request_id: str, writer: asyncio.StreamWriter) -> None:
        del request_id
        writer.write(HONEST + (SURPLUS[: cut or None] if number == 0 else b""))

    async with _serving(serve) as server, _judge(server.url, way) as judge:
        totals = [_total(await judge.judge(make_view())) for _ in range(3)]
    assert totals == [0, 0, 0]


@every_way
@pytest.mark.parametrize("read_by_loop", [True, False])
async def test_a_second_answer_on_an_idle_connection_is_dropped(
    make_view: ViewFactory, way: str, *, read_by_loop: bool
) -> None:
    idle: list[asyncio.StreamWriter] = []

    async def serve(number: int, request_id: str, writer: asyncio.StreamWriter) -> None:
        del number, request_id
        writer.write(HONEST)
        idle[:] = [writer]

    async with _serving(serve) as server, _judge(server.url, way) as judge:
        for _ in range(3):
            assert _total(await judge.judge(make_view())) == 0
            # Into the socket's buffer at once: no turn of the event loop has read it yet.
            idle[0].write(SURPLUS)
            for _ in range(3 if read_by_loop else 0):
                await asyncio.sleep(0)
        assert server.connections == server.requests == 3


@every_way
@pytest.mark.parametrize("place", ["id", "header", "both"])
async def test_where_the_server_repeats_request_ids_a_late_answer_is_known(
    make_view: ViewFactory, way: str, place: str
) -> None:
    """The surplus arrives after the next request has gone out, so that no buffer shows it."""
    first: list[str] = []

    async def serve(number: int, request_id: str, writer: asyncio.StreamWriter) -> None:
        assert request_id
        first.append(request_id)

        def echoing(share: int, known_id: str) -> bytes:
            return _answer(
                share,
                request_id="x" if place == "header" else known_id,
                header="" if place == "id" else f"X-Request-Id: {known_id}\r\n",
            )

        if number == 1:
            writer.write(echoing(1, first[0]))
        writer.write(echoing(0, request_id))

    async with _serving(serve) as server, _judge(server.url, way) as judge:
        assert _total(await judge.judge(make_view())) == 0
        refused = await judge.judge(make_view())
        assert (refused.outcome, refused.reason) == (
            Outcome.UNAVAILABLE,
            Reason.SERVER_ERROR,
        )
        assert "another request" in refused.detail
        # The honest answer that is still on its way there is nobody's either.
        assert _total(await judge.judge(make_view())) == 0
        assert (server.connections, server.requests) == (2, 3)
    assert len(set(first)) == 3


@every_way
async def test_a_late_answer_is_asked_again_within_the_attempts(
    make_view: ViewFactory, way: str
) -> None:
    async def serve(number: int, request_id: str, writer: asyncio.StreamWriter) -> None:
        if number == 1:
            writer.write(_answer(1, request_id="another"))
        writer.write(_answer(0, request_id=request_id))

    async with (
        _serving(serve) as server,
        _judge(server.url, way, attempts=2) as judge,
    ):
        results = [await judge.judge(make_view()) for _ in range(2)]
    assert [(_total(result), result.attempts) for result in results] == [(0, 1), (0, 2)]
