"""What a server says of a text: read as vLLM writes it, and nothing is made of anything else."""

import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rubric_judge import ModelConfig, ModelServer
from rubric_judge.models.served import ScoredText

pytestmark = pytest.mark.anyio


@contextmanager
def _answering(body: bytes, status: int = 200) -> Iterator[str]:
    """A server that says the same to everybody; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # http.server's name
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


async def _score(address: str) -> ScoredText | None:
    config = ModelConfig(model="served", api_base=address, transport="direct")
    async with ModelServer(config, address) as server:
        return await server.score("a b c")


def _said(*tokens: object) -> bytes:
    return json.dumps({"choices": [{"prompt_logprobs": tokens}]}).encode()


async def test_the_tokens_of_a_text_are_read_as_vllm_writes_them() -> None:
    told = _said(
        None,
        {
            "7": {"logprob": -1.5, "rank": 3, "decoded_token": "b"},
            "9": {"logprob": -0.5},
        },
        {"8": {"logprob": -0.25, "rank": 1, "decoded_token": "c"}},
    )
    with _answering(told) as address:
        assert await _score(address) == ScoredText((7, 8), (-1.5, -0.25))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"prompt_logprobs": null}]}',
        b'{"choices": [{"text": "a"}]}',
        _said(),
        _said(None),
        _said(None, None),
        _said(None, {}),
        _said(None, {"7": None}),
        _said(None, {"7": {}}),
        _said(None, {"seven": {"logprob": -1.0}}),
        _said(None, {"7": {"logprob": math.inf}}),
        _said(None, {"7": {"logprob": math.nan}}),
        _said(None, {"7": {"logprob": "likely"}}),
    ],
)
async def test_a_server_that_says_something_else_says_nothing(body: bytes) -> None:
    with _answering(body) as address:
        assert await _score(address) is None


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_a_refusal_is_no_failure(status: int) -> None:
    with _answering(_said(None, {"7": {"logprob": -1.0}}), status) as address:
        assert await _score(address) is None


async def test_nobody_there_is_no_failure() -> None:
    assert await _score("http://127.0.0.1:9/v1") is None
