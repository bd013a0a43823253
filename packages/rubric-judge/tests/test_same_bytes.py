"""The bytes of a server of one's own and their outcome: strict when called directly.

Through litellm the outcome is the same but for `THROUGH_LITELLM`: what it returns there does not
tell what was answered.
"""

import asyncio
import gc
import gzip
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from rubric_core import JudgeResult, JudgeView, Outcome, Reason
from rubric_judge import JudgeConfig, JudgeSetupError, LLMJudge
from rubric_judge.models.settings import proxy_for
from rubric_judge.testing import FakeEndpoint

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio

WAYS: dict[str, dict[str, object]] = {
    "openai": {"model": "openai/fake", "transport": "litellm"},
    "hosted_vllm": {"model": "hosted_vllm/fake", "transport": "litellm"},
    "left out": {"model": "openai/fake"},
    "direct": {"model": "fake", "transport": "direct"},
}
DIRECT = ("left out", "direct")
every_way = pytest.mark.parametrize("way", WAYS)
directly = pytest.mark.parametrize("way", DIRECT)

TEXT = json.dumps(
    {"scores": {"names the loss": 2, "gives_limit": 0}, "total": 2, "max_total": 3}
)
SCORED = (Outcome.SCORED, None)
NOT_JSON = (Outcome.INVALID, Reason.NOT_JSON)
TRUNCATED = (Outcome.INVALID, Reason.TRUNCATED)
REFUSED = (Outcome.INVALID, Reason.REFUSED)
EMPTY = (Outcome.INVALID, Reason.EMPTY)
FULL = (Outcome.INVALID, Reason.CONTEXT_FULL)
JUDGE_ERROR = (Outcome.UNAVAILABLE, Reason.JUDGE_ERROR)
OUT_OF_CREDIT = (Outcome.UNAVAILABLE, Reason.OUT_OF_CREDIT)
SERVER_ERROR = (Outcome.UNAVAILABLE, Reason.SERVER_ERROR)
CONNECTION = (Outcome.UNAVAILABLE, Reason.CONNECTION)
BAD_REQUEST = (Outcome.UNAVAILABLE, Reason.BAD_REQUEST)
RATE_LIMITED = (Outcome.UNAVAILABLE, Reason.RATE_LIMITED)


def _http(
    body: bytes,
    status: str = "200 OK",
    kind: str | None = "application/json",
    *headers: str,
) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    lines += [f"Content-Type: {kind}"] if kind else []
    return "\r\n".join([*lines, "", ""]).encode() + body


def _choice(
    content: object = TEXT, finish: object = "stop", **message: object
) -> dict[str, Any]:
    said = {"role": "assistant", "content": content, **message}
    return {"index": 0, "finish_reason": finish, "message": said}


def _body(*choices: object, **fields: object) -> bytes:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    completion = {"id": "x", "object": "chat.completion", "created": 1, "model": "fake"}
    return json.dumps(
        {**completion, "choices": choices, "usage": usage, **fields}
    ).encode()


def _error(message: str, **fields: object) -> bytes:
    return json.dumps({"error": {"message": message, **fields}}).encode()


GOOD = _body(_choice())
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

CASES = {
    "thinking": (_http(_body(_choice("<think>x</think>" + TEXT))), NOT_JSON),
    "reasoning beside": (_http(_body(_choice(reasoning_content="x"))), SCORED),
    "reasoning only": (
        _http(_body(_choice(None, reasoning_content=TEXT))),
        EMPTY,
    ),
    "length": (_http(_body(_choice(finish="length"), usage=None)), TRUNCATED),
    "length early": (_http(_body(_choice(finish="length"))), FULL),
    "max_tokens": (_http(_body(_choice(finish="max_tokens"), usage=None)), TRUNCATED),
    "repetition": (_http(_body(_choice(finish="repetition"), usage=None)), TRUNCATED),
    "finish number": (_http(_body(_choice(finish=7))), SCORED),
    "finish null": (_http(_body(_choice(finish=None))), SCORED),
    "finish null, half": (_http(_body(_choice(TEXT[:40], finish=None))), SERVER_ERROR),
    "finish error": (_http(_body(_choice(finish="error"))), SERVER_ERROR),
    "finish abort": (_http(_body(_choice(finish="abort"))), SERVER_ERROR),
    "finish unknown": (_http(_body(_choice(finish="done"))), SCORED),
    "finish unknown, half": (
        _http(_body(_choice(TEXT[:40], finish="done"))),
        SERVER_ERROR,
    ),
    "tool call": (_http(_body(_choice(finish="tool_calls"))), SCORED),
    "function call": (_http(_body(_choice(None, finish="function_call"))), EMPTY),
    "filtered": (_http(_body(_choice(finish="content_filter"))), REFUSED),
    "refusal": (_http(_body(_choice(refusal="no"))), REFUSED),
    "refusal list": (_http(_body(_choice(refusal=["no"]))), SERVER_ERROR),
    "role": (_http(_body(_choice(role="user"))), SERVER_ERROR),
    "no role": (
        _http(_body({"finish_reason": "stop", "message": {"content": TEXT}})),
        SCORED,
    ),
    "two choices": (_http(_body(_choice(), _choice("no"))), SERVER_ERROR),
    "choices twice": (_http(GOOD[:-1] + b', "choices": []}'), SERVER_ERROR),
    "content twice": (
        _http(GOOD.replace(b'"content"', b'"content": "", "content"')),
        SERVER_ERROR,
    ),
    "more behind": (_http(GOOD + b" {}"), SERVER_ERROR),
    "parts": (_http(_body(_choice([{"type": "text", "text": TEXT}]))), SCORED),
    "thought part": (
        _http(
            _body(
                _choice(
                    [
                        {"type": "thinking", "thinking": "x"},
                        {"type": "text", "text": TEXT},
                    ]
                )
            )
        ),
        SCORED,
    ),
    "other parts": (
        _http(_body(_choice([{"type": "image", "text": TEXT}]))),
        JUDGE_ERROR,
    ),
    "mapping": (_http(_body(_choice(json.loads(TEXT)))), JUDGE_ERROR),
    "number": (_http(_body(_choice(5))), JUDGE_ERROR),
    "thought before": (_http(_body(_choice("So.\n</think>\n" + TEXT))), NOT_JSON),
    "limit within": (_http(b'{"error": {"message": "x", "code": 429}}'), RATE_LIMITED),
    "words within": (_http(_error("x", code="rate_limit_exceeded")), RATE_LIMITED),
    "quota": (_http(_error("x", code="insufficient_quota"), "429 X"), OUT_OF_CREDIT),
    "402": (_http(_error("Insufficient Balance"), "402 X"), OUT_OF_CREDIT),
    "context code": (_http(_error("x", code="context_length_exceeded"), "400 X"), FULL),
    "context words": (
        _http(b'{"object": "error", "message": "the context length"}', "400 X"),
        FULL,
    ),
    "413": (_http(b"<html>", "413 X", "text/html"), FULL),
    "no choices": (_http(_body()), SERVER_ERROR),
    "null choices": (_http(_body(choices=None)), SERVER_ERROR),
    "null message": (_http(_body({"index": 0, "message": None})), SERVER_ERROR),
    "array": (_http(b"[1]"), SERVER_ERROR),
    "usage floats": (
        _http(_body(_choice(), usage={"prompt_tokens": 1.5, "completion_tokens": 2.0})),
        SCORED,
    ),
    "usage texts": (_http(_body(_choice(), usage={"prompt_tokens": "a"})), SCORED),
    "usage list": (_http(_body(_choice(), usage=[1])), SCORED),
    "usage huge": (_http(_body(_choice(), usage={"prompt_tokens": 10**400})), SCORED),
    "created nan": (
        _http(GOOD.replace(b'"created": 1', b'"created": NaN')),
        SERVER_ERROR,
    ),
    "201": (_http(GOOD, "201 Created"), SCORED),
    "206": (_http(GOOD, "206 Partial Content"), SCORED),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", SERVER_ERROR),
    "plain text": (_http(GOOD, kind="text/plain"), SCORED),
    "no kind": (_http(GOOD, kind=None), SCORED),
    "page": (_http(b"<html>", kind="text/html"), SERVER_ERROR),
    "gzip": (
        _http(gzip.compress(GOOD), "200 OK", "a/json", "Content-Encoding: gzip"),
        SCORED,
    ),
    "gzip bomb": (
        _http(
            gzip.compress(b" " * 40_000_000 + GOOD, 9),
            "200 OK",
            "application/json",
            "Content-Encoding: gzip",
        ),
        NOT_JSON,
    ),
    "no gzip": (
        _http(b"plain", "200 OK", "a/json", "Content-Encoding: gzip"),
        CONNECTION,
    ),
    "garbage": (b"\x00\x01garbage\r\n\r\n", SERVER_ERROR),
    "bad chunk": (CHUNKED + b"zz\r\n{}", SERVER_ERROR),
    "cut chunk": (CHUNKED + b"5\r\nabc", CONNECTION),
    "cut body": (_http(GOOD)[:-40], CONNECTION),
    "closed": (b"", CONNECTION),
    "301": (_http(b"", "301 X", None, "Location: http://127.0.0.1:9/"), BAD_REQUEST),
    "302": (_http(b"", "302 X", None, "Location: http://127.0.0.1:9/"), BAD_REQUEST),
    "303": (_http(b"", "303 X", None, "Location: http://127.0.0.1:9/"), BAD_REQUEST),
    "307": (_http(b"", "307 X", None, "Location: http://127.0.0.1:9/"), BAD_REQUEST),
    "308": (_http(b"", "308 X", None, "Location: http://127.0.0.1:9/"), BAD_REQUEST),
    "504": (_http(b"{}", "504 X"), SERVER_ERROR),
    "policy code": (_http(_error("bad", code="content_filter"), "400 X"), REFUSED),
    "policy words": (
        _http(_error("was rejected as a result of our"), "400 X"),
        REFUSED,
    ),
    "400 of rates": (_http(_error("Rate limit reached 429"), "400 X"), BAD_REQUEST),
    "500 of rates": (_http(_error("429 Rate limit"), "500 X"), SERVER_ERROR),
    "code list": (_http(_error("bad", code=["content_filter"]), "400 X"), BAD_REQUEST),
    "odd retry-after": (
        _http(
            b"{}",
            "429 X",
            None,
            "Retry-After: Mon, 01 Jan 99999999999999999 00:00:00 GMT",
        ),
        RATE_LIMITED,
    ),
}

THROUGH_LITELLM = {
    # It takes the thoughts off the text, and keeps of the finish, equal keys and the size nothing
    # that tells them from an answer in order.
    "thinking": SCORED,
    "finish null, half": TRUNCATED,
    "content twice": SCORED,
    "gzip bomb": SCORED,
    # It raises for a usage that is none, and for what it has no type for.
    "usage floats": JUDGE_ERROR,
    "usage texts": JUDGE_ERROR,
    "usage list": SERVER_ERROR,
    "parts": JUDGE_ERROR,
    "thought part": JUDGE_ERROR,
    "words within": JUDGE_ERROR,
    # It follows redirects, here to a port where nobody listens.
    **dict.fromkeys(("301", "302", "303", "307", "308"), CONNECTION),
    # It goes by words of its own in an error.
    "policy code": BAD_REQUEST,
    "policy words": BAD_REQUEST,
    "400 of rates": RATE_LIMITED,
    "500 of rates": RATE_LIMITED,
}
RELEASE = tuple(map(int, version("litellm").split(".")[:2]))
BY_ROUTE = {
    ("no role", "hosted_vllm"): SCORED if RELEASE >= (1, 108) else SERVER_ERROR,
    ("no gzip", "hosted_vllm"): SERVER_ERROR,
    ("garbage", "openai"): CONNECTION,
    ("bad chunk", "openai"): CONNECTION,
}
"""Where litellm's two routes differ."""


def _expected(case: str, way: str) -> tuple[Outcome, Reason | None]:
    _, expected = CASES[case]
    if way in DIRECT:
        return expected
    return BY_ROUTE.get((case, way), THROUGH_LITELLM.get(case, expected))


@asynccontextmanager
async def _answering(answer: bytes) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """Serve these bytes to every request but for the list of models; also yields what was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET ") and b"/models " in head:
            writer.write(_http(b"{}", "404 X"))
            await writer.drain()
            writer.close()
            return
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
        asked.append(head + await reader.readexactly(int(length or b"0")))
        writer.write(answer)
        try:
            await writer.drain()
        except ConnectionError:
            pass  # a client may leave an answer unread
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", asked


async def _judge(url: str, view: JudgeView, way: str, **options: object) -> JudgeResult:
    settings = {"api_base": url, "max_transport_attempts": 1, **WAYS[way], **options}
    async with LLMJudge(JudgeConfig.model_validate(settings)) as judge:
        return await judge.judge(view)


@every_way
@pytest.mark.parametrize("case", CASES)
async def test_the_same_bytes_are_the_same_outcome(
    make_view: ViewFactory, case: str, way: str, capfd: pytest.CaptureFixture[str]
) -> None:
    answer, _ = CASES[case]
    async with _answering(answer) as (url, asked):
        result = await _judge(url, make_view(), way)
    assert (result.outcome, result.reason) == _expected(case, way)
    # Its route to vLLM asks once more where no connection comes about.
    assert len(asked) == 1 + (way == "hosted_vllm" and case.startswith("30"))
    output = capfd.readouterr()
    assert "names the loss" not in output.out + output.err


@directly
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_takes_nothing_to_another_server(
    make_view: ViewFactory, way: str, status: int
) -> None:
    async with _answering(_http(GOOD)) as (other, asked):
        location = f"Location: {other}/chat/completions"
        redirect = _http(b"", f"{status} X", None, location)
        async with _answering(redirect) as (url, _):
            result = await _judge(url, make_view(), way)
    assert (result.outcome, result.reason) == BAD_REQUEST
    assert asked == []


@every_way
async def test_the_longest_of_several_retry_afters_is_waited_for(
    make_view: ViewFactory, way: str
) -> None:
    answer = _http(b"{}", "429 X", None, "Retry-After: 0", "Retry-After: 3600")
    async with _answering(answer) as (url, asked):
        result = await _judge(url, make_view(), way, max_transport_attempts=3)
    assert (result.reason, len(asked)) == (Reason.RATE_LIMITED, 1)


@directly
async def test_what_the_environment_keeps_for_openai_stays_there(
    make_view: ViewFactory, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "ORG_ID", "ORGANIZATION", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", "Zyzzyva")
    async with _answering(_http(GOOD)) as (url, asked):
        result = await _judge(url, make_view(), way)
    assert result.outcome is Outcome.SCORED
    assert b"Zyzzyva" not in asked[0]


@every_way
@pytest.mark.parametrize("key", ["sk-a\nHost: b", "sk-ключ", "sk-\x7f"])
async def test_a_key_that_no_header_can_hold_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, way: str, key: str
) -> None:
    monkeypatch.setenv("ODD_KEY", key)
    with pytest.raises(
        JudgeSetupError, match="'ODD_KEY', which has a line break"
    ) as caught:
        LLMJudge(
            JudgeConfig.model_validate(
                {
                    **WAYS[way],
                    "api_base": "http://127.0.0.1:1/v1",
                    "api_key_env": "ODD_KEY",
                }
            )
        )
    assert "sk-" not in str(caught.value)


@every_way
async def test_a_proxy_of_the_environment_is_used_by_both(
    make_view: ViewFactory, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _answering(_http(GOOD)) as (proxy, asked):
        monkeypatch.setenv("http_proxy", proxy.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "other.invalid")
        result = await _judge("http://judge.invalid:8000/v1", make_view(), way)
        assert proxy_for("http://other.invalid/v1") is None
        for here in ("127.0.0.1", "localhost", "[::1]"):
            assert proxy_for(f"http://{here}:8000/v1") is None
    assert result.outcome is Outcome.SCORED
    assert asked[0].startswith(b"POST http://judge.invalid:8000/v1/chat/completions ")


async def test_a_proxy_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "socks5://Zyzzyva@127.0.0.1:1")
    with pytest.raises(
        JudgeSetupError, match=r"'socks5' proxy for 'judge\.invalid'"
    ) as caught:
        proxy_for("http://judge.invalid/v1")
    assert "Zyzzyva" not in str(caught.value)


@every_way
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning"
)  # of the event loop that nobody cleaned up
def test_no_connection_outlives_its_event_loop_and_the_judge(
    make_view: ViewFactory, way: str
) -> None:
    async def judge_once(*, close: bool) -> None:
        result = await judge.judge(make_view())
        assert result.outcome is Outcome.SCORED
        if close:
            await judge.aclose()

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def all_closed() -> bool:
        gc.collect()
        until_s = time.monotonic() + 3  # the server closes its end a moment later
        while open_files() > before and time.monotonic() < until_s:
            time.sleep(0.01)
        return open_files() <= before

    with FakeEndpoint(0.5) as endpoint:
        settings = {**WAYS[way], "api_base": endpoint.url}
        judge = LLMJudge(JudgeConfig.model_validate(settings))
        asyncio.run(judge_once(close=True))  # what is opened once
        gc.collect()
        gc.freeze()  # litellm need not be searched each time
        before = open_files()
        for close in (True, False, False, True):
            asyncio.run(judge_once(close=close))
        assert all_closed()
        asyncio.run(judge_once(close=False))
        asyncio.run(judge.aclose())
        assert all_closed()


@pytest.mark.parametrize("route", ["openai", "hosted_vllm"])
async def test_a_router_reads_the_answers_of_ones_own_server_as_litellm_tells_them(
    make_view: ViewFactory, tmp_path: Path, route: str
) -> None:
    file = tmp_path / "litellm.yaml"
    for case in (
        "max_tokens",
        "filtered",
        "finish error",
        "two choices",
        "no choices",
        "closed",
    ):
        answer, outcome = CASES[case]
        async with _answering(answer) as (url, _):
            deployment = {"model": f"{route}/fake", "api_base": url, "api_key": "k"}
            file.write_text(json.dumps({"model_list": [_named(deployment)]}))
            config = JudgeConfig(
                model="judge", litellm_config=file, max_transport_attempts=1
            )
            async with LLMJudge(config) as judge:
                result = await judge.judge(make_view())
        assert (result.outcome, result.reason) == outcome, case


def _named(deployment: dict[str, str]) -> dict[str, object]:
    return {"model_name": "judge", "litellm_params": deployment}
