"""Calls of OpenAI-compatible endpoints over one long-lived HTTP client: no SDK in between.

The same strict reading of an answer as through litellm, at a small part of the work. aiohttp is
imported at the first call.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

import anyio.to_thread
from pydantic import BaseModel

from rubric_core import Reason, Usage
from rubric_judge.chat import ChatReply, Finish
from rubric_judge.config import JudgeConfig
from rubric_judge.errors import JudgeTransportError
from rubric_judge.failures import reason_of_status, retry_after_s, transport_error, usage
from rubric_judge.settings import api_key

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

__all__ = ["DirectClient"]

_LARGEST_ANSWER_BYTES = 16 * 2**20
_LARGEST_REFUSAL_BYTES = 64 * 2**10
_CONNECT_S = 10.0
# Servers on uvicorn, vLLM's among them, drop an idle connection after 5 s; one kept for longer may
# be dropped just as a request goes out on it.
_KEEP_ALIVE_S = 4.0
_DNS_CACHE_S = 300
_OK = 200


class DirectClient:
    """A `Transport` to one OpenAI-compatible server.

    It keeps one session for each event loop that it is used in, without a bound on connections:
    what bounds the calls in flight is the limiter.
    """

    def __init__(self, config: JudgeConfig) -> None:
        """Read the key.

        Args:
            config: its `api_base` is one address.

        Raises:
            JudgeSetupError: the configuration names a variable for the key that is not set.
        """
        (address,) = config.addresses
        self._url = f"{(address or '').rstrip('/')}/chat/completions"
        self._key = api_key(config)
        self._sessions: dict[asyncio.AbstractEventLoop, ClientSession] = {}
        fields = {
            "model": config.model.removeprefix("hosted_vllm/"),
            "max_tokens": config.max_tokens,
            **({} if config.temperature is None else {"temperature": config.temperature}),
            **config.parameters,
        }
        # What no call changes is encoded once; `_body` puts the rest behind it.
        self._opening = json.dumps(fields).encode().removesuffix(b"}")

    async def prepare(self) -> None:
        """Import aiohttp, which takes a few tenths of a second, in a thread."""
        if "aiohttp" not in sys.modules:
            await anyio.to_thread.run_sync(import_module, "aiohttp")

    async def ask(self, *, system: str, user: str, reply: type[BaseModel]) -> ChatReply:
        """Send one request and read its answer; see `Transport.ask`."""
        import aiohttp  # noqa: PLC0415

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        try:
            async with self._session().post(
                self._url,
                data=self._body(system, user, reply),
                headers=headers,
                allow_redirects=False,
            ) as response:
                return await _answer(response)
        except aiohttp.ClientResponseError as error:
            raise transport_error(Reason.SERVER_ERROR, f"{type(error).__name__}: no HTTP") from None
        except (aiohttp.ClientError, OSError) as error:
            raise transport_error(Reason.CONNECTION, type(error).__name__) from None

    async def aclose(self) -> None:
        """Close this event loop's connections, and those of loops that are no more."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()
        self._forget_dead_loops()

    def _body(self, system: str, user: str, reply: type[BaseModel]) -> bytes:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        encoded = json.dumps(messages).encode()
        parts = (self._opening, b',"messages":', encoded, b',"response_format":')
        return b"".join((*parts, _response_format(reply), b"}"))

    def _session(self) -> ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            self._forget_dead_loops()
            session = self._sessions[loop] = _new_session()
        return session

    def _forget_dead_loops(self) -> None:
        for loop, session in list(self._sessions.items()):
            if loop.is_closed() and session.connector is not None:
                # Nothing can be awaited there any more; the connector then closes at once.
                session.connector.close()
                session.detach()
                del self._sessions[loop]


def _new_session() -> ClientSession:
    import aiohttp  # noqa: PLC0415

    connector = aiohttp.TCPConnector(
        limit=0, ttl_dns_cache=_DNS_CACHE_S, keepalive_timeout=_KEEP_ALIVE_S
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        # The whole attempt is timed by whoever asks, so that a slow drip ends as well.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
    )


@lru_cache(maxsize=1024)
def _response_format(reply: type[BaseModel]) -> bytes:
    schema = {"name": reply.__name__, "schema": reply.model_json_schema()}
    return json.dumps({"type": "json_schema", "json_schema": schema}).encode()


async def _answer(response: ClientResponse) -> ChatReply:
    if response.status != _OK:
        return _refused(response, await _read(response, most=_LARGEST_REFUSAL_BYTES))
    kind = response.content_type
    if kind != "application/json" and not kind.endswith("+json"):
        raise transport_error(Reason.SERVER_ERROR, "HTTP 200 that is no JSON; check `api_base`")
    body = await _read(response, most=_LARGEST_ANSWER_BYTES)
    if body is None:
        return ChatReply(text="", finish="oversized", usage=None, attempts=1)
    return _chat_reply(_decoded(body))


async def _read(response: ClientResponse, *, most: int) -> bytes | None:
    """Read the body; None if it is longer than `most` bytes, however it says its length."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > most:
            response.close()
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _decoded(body: bytes) -> dict[str, object]:
    try:
        decoded = cast("object", json.loads(body))
    except (ValueError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        raise transport_error(Reason.SERVER_ERROR, "HTTP 200 that is no JSON object")
    return cast("dict[str, object]", decoded)


def _chat_reply(completion: dict[str, object]) -> ChatReply:
    used = _usage(completion)
    choice = _first(completion.get("choices"))
    message = _mapping(choice.get("message"))
    content = message.get("content")
    if not message or not isinstance(content, str | None):
        raise transport_error(Reason.SERVER_ERROR, "HTTP 200 without a chat completion", usage=used)
    finish: Finish = "complete"
    if choice.get("finish_reason") == "length":
        finish = "truncated"
    elif choice.get("finish_reason") == "content_filter" or message.get("refusal"):
        finish = "refused"
    return ChatReply(text=content or "", finish=finish, usage=used, attempts=1)


def _usage(completion: dict[str, object]) -> Usage | None:
    reported = _mapping(completion.get("usage"))
    if not reported:
        return None
    cached_tokens = _mapping(reported.get("prompt_tokens_details")).get("cached_tokens")
    return usage(reported.get, cached_tokens=cached_tokens)


def _refused(response: ClientResponse, body: bytes | None) -> ChatReply:
    """Return a refusal to answer the prompt; raise for any other status but 200."""
    try:
        refusal = _decoded(body or b"")
    except JudgeTransportError:
        refusal = {}
    used = _usage(refusal)
    if response.status == 400 and _is_content_policy(_mapping(refusal.get("error"))):  # noqa: PLR2004
        return ChatReply(text="", finish="refused", usage=used, attempts=1)
    raise transport_error(
        reason_of_status(response.status),
        f"HTTP {response.status}",
        retry_after=retry_after_s(response.headers.get("Retry-After")),
        usage=used,
    )


def _is_content_policy(error: dict[str, object]) -> bool:
    codes = {"content_filter", "content_policy_violation"}
    message = error.get("message")
    # Some providers say it in words only.
    worded = isinstance(message, str) and "rejected as a result of" in message
    return worded or error.get("code") in codes or error.get("type") in codes


def _first(value: object) -> dict[str, object]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return _mapping(items[0]) if items else {}


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
