"""One HTTP exchange with an OpenAI-compatible server: what is sent, and what is read of an answer.

Both transports to a server of one's own go through here, so that the same bytes are the same
outcome. Redirects are refused: what was sent was meant for one address. aiohttp is imported at the
first call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, cast

from pydantic_core import from_json

from rubric_core import Reason, Usage
from rubric_judge.chat import ChatReply, Finish
from rubric_judge.errors import JudgeTransportError
from rubric_judge.failures import reason_of_status, retry_after_s, transport_error, usage
from rubric_judge.settings import proxy_for

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientTimeout

__all__ = ["Answer", "Connections"]

_LARGEST_ANSWER_BYTES = 16 * 2**20
_LARGEST_REFUSAL_BYTES = 64 * 2**10
_CONNECT_S = 10.0
# Servers on uvicorn, vLLM's among them, drop an idle connection after 5 s; one kept for longer may
# be dropped just as a request goes out on it.
_KEEP_ALIVE_S = 4.0
_DNS_CACHE_S = 300
_TRUNCATED = ("length", "max_tokens")
_POLICY_CODES = frozenset({"content_filter", "content_policy_violation"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, unread."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    """Decompressed; None if it is longer than what is read of one."""

    def decoded(self) -> dict[str, object]:
        """Read a success that is a JSON object.

        Raises:
            JudgeTransportError: it is none.
        """
        if not 200 <= self.status < 300:  # noqa: PLR2004
            raise transport_error(reason_of_status(self.status), f"HTTP {self.status}")
        return _decoded(self.body or b"")

    def chat_reply(self) -> ChatReply:
        """Read the answer.

        Returns:
            The model's text, or that it refuses to answer the prompt.

        Raises:
            JudgeTransportError: it is no chat completion.
        """
        if not 200 <= self.status < 300:  # noqa: PLR2004
            return self._refused()
        if self.body is None:
            return ChatReply(text="", finish="oversized", usage=None, attempts=1)
        return _chat_reply(_decoded(self.body))

    def _refused(self) -> ChatReply:
        """Return a refusal to answer the prompt; raise for any other status."""
        try:
            refusal = _decoded(self.body or b"")
        except JudgeTransportError:
            refusal = {}
        used = _usage(refusal)
        if self.status == 400 and _is_content_policy(_mapping(refusal.get("error"))):  # noqa: PLR2004
            return ChatReply(text="", finish="refused", usage=used, attempts=1)
        waits = (value for name, value in self.headers if name.lower() == "retry-after")
        raise transport_error(
            reason_of_status(self.status),
            f"HTTP {self.status}",
            retry_after=retry_after_s(*waits),
            usage=used,
        )


class Connections:
    """Connections to one server: a session for each event loop, without a bound on its size.

    What bounds the calls in flight is the limiter. A proxy that the environment names is used, but
    never for this machine.
    """

    def __init__(self, address: str) -> None:
        """Look for a proxy; nothing is connected.

        Args:
            address: the server's.
        """
        self._proxy = proxy_for(address)
        self._sessions: dict[asyncio.AbstractEventLoop, ClientSession] = {}

    async def post(
        self,
        url: str,
        *,
        body: bytes,
        headers: Mapping[str, str],
        silence_s: float | None = None,
    ) -> Answer:
        """Send one request and take its answer.

        Args:
            url: where to.
            body: JSON.
            headers: with the key, if any.
            silence_s: longest time without a byte of the answer; left out, whoever asks keeps time.

        Returns:
            The answer, whatever its status.

        Raises:
            JudgeTransportError: there is none.
        """
        return await self._exchanged("POST", url, body=body, headers=headers, silence_s=silence_s)

    async def get(self, url: str, *, headers: Mapping[str, str], silence_s: float) -> Answer:
        """Ask for a page; otherwise as `post`."""
        return await self._exchanged("GET", url, body=None, headers=headers, silence_s=silence_s)

    async def _exchanged(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        silence_s: float | None,
    ) -> Answer:
        import aiohttp  # noqa: PLC0415

        session = await self._session()
        try:
            async with session.request(
                method,
                url,
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=self._proxy,
                timeout=_timeout(silence_s),
            ) as response:
                headers_read = tuple(response.headers.items())
                return Answer(response.status, headers_read, await _read(response))
        except aiohttp.SocketTimeoutError:
            raise transport_error(Reason.TIMEOUT, f"no answer within {silence_s:g} s") from None
        except aiohttp.ClientResponseError as error:
            raise transport_error(Reason.SERVER_ERROR, f"{type(error).__name__}: no HTTP") from None
        except (aiohttp.ClientError, OSError) as error:
            raise transport_error(Reason.CONNECTION, type(error).__name__) from None

    async def aclose(self) -> None:
        """Close this event loop's connections, and those of loops that are no more."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()
        await self._forget_dead_loops()

    async def _session(self) -> ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            session = self._sessions[loop] = _new_session()
            await self._forget_dead_loops()
        return session

    async def _forget_dead_loops(self) -> None:
        for loop in [loop for loop in self._sessions if loop.is_closed()]:
            session = self._sessions.pop(loop, None)
            if session is not None and session.connector is not None:
                # Its sockets go with the last reference: nothing can be done there any more, and
                # what was still going on there says so.
                with suppress(RuntimeError):
                    await session.connector.close()
                session.detach()


@cache
def _timeout(silence_s: float | None) -> ClientTimeout:
    import aiohttp  # noqa: PLC0415

    return aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silence_s)


def _new_session() -> ClientSession:
    import aiohttp  # noqa: PLC0415

    connector = aiohttp.TCPConnector(
        limit=0, ttl_dns_cache=_DNS_CACHE_S, keepalive_timeout=_KEEP_ALIVE_S
    )
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


async def _read(response: ClientResponse) -> bytes | None:
    """Read the body; None if it is longer than what is read of one, however it says its length."""
    most = _LARGEST_ANSWER_BYTES if response.ok else _LARGEST_REFUSAL_BYTES
    chunks: list[bytes] = []
    size = 0
    while not response.content.at_eof():
        chunk = await response.content.readany()
        size += len(chunk)
        if size > most:
            response.close()
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _decoded(body: bytes) -> dict[str, object]:
    try:
        decoded = cast("object", from_json(body))
    except ValueError:
        decoded = _leniently_decoded(body)
    if not isinstance(decoded, dict):
        raise transport_error(
            Reason.SERVER_ERROR, "a success that is no JSON object; check `api_base`"
        )
    return cast("dict[str, object]", decoded)


def _leniently_decoded(body: bytes) -> object:
    """Read what Python's own reads besides: half surrogate pairs, encodings, deep nesting."""
    try:
        return cast("object", json.loads(body))
    except (ValueError, RecursionError):
        return None


def _chat_reply(completion: dict[str, object]) -> ChatReply:
    used = _usage(completion)
    choice = _first(completion.get("choices"))
    message = _mapping(choice.get("message"))
    content = message.get("content")
    if not message or not isinstance(content, str | None):
        raise transport_error(
            Reason.SERVER_ERROR, "a success without a chat completion", usage=used
        )
    finish: Finish = "complete"
    if choice.get("finish_reason") in _TRUNCATED:
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


def _is_content_policy(error: dict[str, object]) -> bool:
    message = error.get("message")
    # Some providers say it in words only.
    worded = isinstance(message, str) and "rejected as a result of" in message
    return worded or not _POLICY_CODES.isdisjoint(
        code for code in (error.get("code"), error.get("type")) if isinstance(code, str)
    )


def _first(value: object) -> dict[str, object]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return _mapping(items[0]) if items else {}


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
