"""What is said of a server that cannot be reached, or that does not have what is asked for."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rubric_core import Reason
from rubric_judge import ChatModel, JudgeSetupError, ModelConfig
from rubric_judge.errors import JudgeTransportError
from rubric_judge.models.failures import why_unreachable

pytestmark = pytest.mark.anyio

WAYS: dict[str, dict[str, str]] = {
    "direct": {"model": "m", "transport": "direct"},
    "openai": {"model": "openai/m"},
    "hosted_vllm": {"model": "hosted_vllm/m"},
    "ollama": {"model": "ollama_chat/m"},
    "anthropic": {"model": "anthropic/m", "api_key_env": "SOME_KEY"},
}
OWN = ("direct", "openai", "hosted_vllm")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "a-key")
    for name in (
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "AZURE_API_KEY",
        "AZURE_API_BASE",
    ):
        monkeypatch.delenv(name, raising=False)


async def _said(**options: Any) -> str:
    config = ModelConfig.model_validate(
        {"max_transport_attempts": 1, "timeout_s": 20, **options}
    )
    async with ChatModel(config, role="judge") as model:
        with pytest.raises(JudgeSetupError) as caught:
            await model.check()
    return str(caught.value)


@asynccontextmanager
async def _answering(status: str, body: object) -> AsyncGenerator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(
            int(head.partition("content-length:")[2].split("\r\n")[0] or "0")
        )
        text = json.dumps(body)
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.fixture
def dead() -> str:
    """Return host and port where nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


@pytest.mark.parametrize("way", WAYS)
async def test_a_refused_connection_is_called_that(way: str, dead: str) -> None:
    said = await _said(api_base=f"http://{dead}/v1", **WAYS[way])
    assert f"connection refused at {dead}: " in said
    assert "check `api_base` and that the server runs" in said
    assert "500" not in said.replace(dead, "")


async def test_a_refused_connection_of_a_router_is_called_that(
    dead: str, tmp_path: Path
) -> None:
    given = {"model": "openai/m", "api_base": f"http://{dead}/v1", "api_key": "x"}
    file = tmp_path / "litellm.yaml"
    file.write_text(
        json.dumps({"model_list": [{"model_name": "g", "litellm_params": given}]})
    )
    said = await _said(model="g", litellm_config=str(file))
    assert f"connection refused at {dead}: " in said
    assert "HTTP 500" not in said


@pytest.mark.parametrize("way", OWN)
async def test_a_server_without_tls_is_called_that(way: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert f"no TLS at {place}: " in await _said(
            api_base=f"https://{place}/v1", **WAYS[way]
        )


def test_the_words_for_what_a_library_wraps() -> None:
    def wrapped(cause: BaseException) -> BaseException:
        error = RuntimeError("All connection attempts failed: SECRET")
        error.__cause__ = ExceptionGroup("several", [OSError(99, "SECRET"), cause])  # type: ignore[list-item]
        return error

    for cause, words in {
        ConnectionRefusedError(111, "SECRET"): "connection refused",
        socket.gaierror(-2, "SECRET"): "unknown host",
        ConnectionResetError(104, "SECRET"): "connection closed by the server",
        ssl.SSLCertVerificationError("SECRET"): "certificate not trusted",
        ssl.SSLError("SECRET"): "no TLS",
        TimeoutError("SECRET"): "no connection in time",
    }.items():
        assert why_unreachable(wrapped(cause), "h:1") == f"{words} at h:1"
    assert why_unreachable(OSError(101, "SECRET"), "") == "network is unreachable"
    assert why_unreachable(RuntimeError("SECRET"), "") == "RuntimeError"


@pytest.mark.parametrize("way", OWN)
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            {"detail": "Not Found"},
            "write into `api_base` what comes before /chat/completions",
        ),
        ({}, "write into `api_base` what comes before /chat/completions"),
        (
            {"error": {"message": "The model `m` does not exist.", "code": 404}},
            "no such model",
        ),
        (
            {"object": "error", "message": "The model `m` does not exist."},
            "no such model",
        ),
        ({"error": {"message": "x", "code": "model_not_found"}}, "no such model"),
    ],
)
async def test_a_404_says_what_is_not_there(way: str, body: object, says: str) -> None:
    async with _answering("404 Not Found", body) as url:
        said = await _said(api_base=url, **WAYS[way])
    assert "HTTP 404: " in said
    assert says in said
    assert "does not exist" not in said


@pytest.mark.parametrize("way", OWN)
async def test_a_key_that_is_refused_is_named_by_its_variable(way: str) -> None:
    async with _answering("401 Unauthorized", {}) as url:
        said = await _said(api_base=url, **WAYS[way])
        assert (
            "none was sent: name the environment variable that holds it in `api_key_env`"
            in said
        )
        said = await _said(api_base=url, api_key_env="SOME_KEY", **WAYS[way])
        assert (
            "HTTP 401: the key was refused: check the environment variable 'SOME_KEY'"
            in said
        )


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("openai/gpt-4.1-mini", "export OPENAI_API_KEY"),
        ("gpt-4.1-mini", "export OPENAI_API_KEY"),
        ("anthropic/m", "export ANTHROPIC_API_KEY"),
        ("azure/m", "not set: AZURE_API_BASE, AZURE_API_VERSION, AZURE_API_KEY"),
    ],
)
async def test_a_key_that_is_missing_is_named_by_its_variable(
    model: str, names: str
) -> None:
    assert names in await _said(model=model)


@pytest.mark.parametrize("way", OWN)
async def test_a_variable_that_is_not_set_is_named(way: str) -> None:
    with pytest.raises(JudgeSetupError, match="'NOT_SET_ANYWHERE', which is not set"):
        await _said(
            **{
                **WAYS[way],
                "api_base": "http://h/v1",
                "api_key_env": "NOT_SET_ANYWHERE",
            }
        )


@pytest.mark.parametrize("way", OWN)
async def test_calls_say_what_the_check_says(way: str, dead: str) -> None:
    config = ModelConfig.model_validate(
        {"api_base": f"http://{dead}/v1", "max_transport_attempts": 1, **WAYS[way]}
    )
    async with ChatModel(config) as model:
        with pytest.raises(JudgeTransportError) as caught:
            await model.answer("?", parameters={})
    assert caught.value.reason is Reason.CONNECTION
    assert caught.value.detail.startswith(f"connection refused at {dead}: ")
    assert len(caught.value.detail) <= 200
