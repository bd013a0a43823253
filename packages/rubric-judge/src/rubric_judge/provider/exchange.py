"""One HTTP exchange with an OpenAI-compatible server, and the connections that it may use again.

Both transports to a server of one's own go through here, so that the same bytes are the same
outcome. Redirects are refused: what was sent was meant for one address. An answer is only ever
that to the request before it: a connection on which anything else has arrived is dropped, and where
a server repeats the id of a request, it is checked. aiohttp is imported at the first call.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from pydantic import SecretStr

from rubric_core import Reason
from rubric_judge.provider.chat import Answer, server_of
from rubric_judge.provider.failures import transport_error, why_unreachable
from rubric_judge.provider.settings import proxy_for

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientTimeout

_LARGEST_ANSWER_BYTES = 16 * 2**20
_LARGEST_REFUSAL_BYTES = 64 * 2**10
_CONNECT_S = 10.0
# Servers on uvicorn, vLLM's among them, drop an idle connection after 5 s; one kept for longer may
# be dropped just as a request goes out on it.
_KEEP_ALIVE_S = 4.0
_DNS_CACHE_S = 300
_REQUEST_ID = "X-Request-Id"


class Connections:
    """Connections to one server: a session for each event loop, without a bound on its size.

    What bounds the calls in flight is the limiter. A proxy that the environment names is used, but
    never for this machine.
    """

    def __init__(self, address: str, key: SecretStr | None) -> None:
        """Look for a proxy; nothing is connected.

        Args:
            address: the server's.
            key: goes with every request.
        """
        self._proxy = proxy_for(address)
        self._key = key
        self._sessions: dict[asyncio.AbstractEventLoop, ClientSession] = {}
        self._repeating: set[str] = set()
        """Where the server has repeated the id of a request in its answer."""

    async def post(
        self, url: str, body: bytes, *, silence_s: float | None = None
    ) -> Answer:
        """Send one request and take its answer.

        Args:
            url: where to.
            body: JSON.
            silence_s: longest time without a byte of the answer; the caller keeps time if left out.

        Returns:
            The answer, whatever its status.

        Raises:
            JudgeTransportError: there is none, or it is the answer to another request.
        """
        request_id = os.urandom(16).hex()
        headers = {"Content-Type": "application/json", _REQUEST_ID: request_id}
        answer = await self._exchanged(
            url, body=body, headers=headers, silence_s=silence_s
        )
        if answer.is_success and answer.body is not None:
            self._check_is_of(request_id, url, answer)
        return answer

    def _check_is_of(self, request_id: str, url: str, answer: Answer) -> None:
        # vLLM makes it the completion's id; other servers and proxies repeat the header.
        if request_id.encode() in (answer.body or b"") or any(
            request_id in text for _, text in answer.headers
        ):
            self._repeating.add(url)
        elif url in self._repeating:
            from rubric_judge.provider.connector import (
                drop_latest_connection,
            )  # aiohttp

            # The answer that is still to come there would be the next request's.
            drop_latest_connection()
            what = f"an answer to another request: its {_REQUEST_ID} is not this one's"
            raise transport_error(what)

    async def get(self, url: str, *, silence_s: float) -> Answer:
        """Ask for a page; otherwise as `post`."""
        return await self._exchanged(url, body=None, headers={}, silence_s=silence_s)

    async def _exchanged(
        self,
        url: str,
        *,
        body: bytes | None,
        headers: dict[str, str],
        silence_s: float | None,
    ) -> Answer:
        import aiohttp

        session = await self._session()
        headers["Accept"] = "application/json"
        if self._key is not None:  # in plain text for the call only
            headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        try:
            async with session.request(
                "GET" if body is None else "POST",
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
            raise transport_error(
                f"no answer within {silence_s:g} s", Reason.TIMEOUT
            ) from None
        except aiohttp.ClientResponseError as error:
            raise transport_error(f"{type(error).__name__}: no HTTP") from None
        except (aiohttp.ClientError, OSError) as error:
            why = why_unreachable(error, server_of(url))
            raise transport_error(why, Reason.CONNECTION) from None

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
            import aiohttp

            from rubric_judge.provider.connector import CleanConnector  # loads aiohttp

            clean = CleanConnector(
                limit=0, ttl_dns_cache=_DNS_CACHE_S, keepalive_timeout=_KEEP_ALIVE_S
            )
            session = aiohttp.ClientSession(
                connector=clean, cookie_jar=aiohttp.DummyCookieJar()
            )
            self._sessions[loop] = session
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
    import aiohttp

    return aiohttp.ClientTimeout(
        total=None, sock_connect=_CONNECT_S, sock_read=silence_s
    )


async def _read(response: ClientResponse) -> bytes | None:
    """Read the body; None if it exceeds the limit, whatever length it declares."""
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
