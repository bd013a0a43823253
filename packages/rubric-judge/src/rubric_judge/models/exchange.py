"""HTTP exchanges with OpenAI-compatible servers, over connections that are reused.

Both transports to self-hosted servers go through this module, so that the same bytes have the same
outcome. Redirects are refused: a request is meant for one address. An answer belongs to the request
before it: a connection on which anything else has arrived is dropped, and where a server repeats
the id of a request, the id is checked. aiohttp is imported at the first call.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from pydantic import SecretStr

from rubric_core import Reason
from rubric_judge.models.chat import Answer, server_of
from rubric_judge.models.failures import transport_error, why_unreachable
from rubric_judge.models.settings import proxy_for

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
    """Connections to one server: one session for each event loop, of unbounded size.

    The limiter bounds the calls in flight. A proxy that the environment names is used, but never
    for this machine.
    """

    def __init__(self, address: str, key: SecretStr | None) -> None:
        """Look for a proxy; nothing is connected.

        Args:
            address: the server's address.
            key: the key that goes with every request.
        """
        self._proxy = proxy_for(address)
        self._key = key
        self._sessions: dict[asyncio.AbstractEventLoop, ClientSession] = {}
        self._repeating: set[str] = set()
        """URLs whose server has repeated the id of a request in its answer."""

    async def post(
        self, url: str, body: bytes, *, silence_s: float | None = None
    ) -> Answer:
        """Send one request and return its answer.

        Args:
            url: where to send it.
            body: JSON.
            silence_s: longest time without a byte of the answer; None if the caller limits it.

        Returns:
            The answer, whatever its status.

        Raises:
            JudgeTransportError: no answer came, or the answer to another request.
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
        is_in_body = request_id.encode() in (answer.body or b"")
        if is_in_body or any(request_id in value for _, value in answer.headers):
            self._repeating.add(url)
        elif url in self._repeating:
            # Imported here, since it imports aiohttp.
            from rubric_judge.models.connector import drop_latest_connection

            # The answer that is still to come on it would be taken for the next request's.
            drop_latest_connection()
            raise transport_error(
                f"an answer to another request: its {_REQUEST_ID} is not this one's"
            )

    async def get(self, url: str, *, silence_s: float) -> Answer:
        """Request a page; otherwise as `post`."""
        return await self._exchanged(
            url,
            body=None,
            headers={},
            silence_s=silence_s,
        )

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
                response_headers = tuple(response.headers.items())
                return Answer(response.status, response_headers, await _read(response))
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
        """Close the connections of this event loop and of loops that have ended."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()
        await self._forget_dead_loops()

    async def _session(self) -> ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            import aiohttp

            # Imported here, since it imports aiohttp.
            from rubric_judge.models.connector import CleanConnector

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
                # Its sockets go with the last reference: nothing can be done on that loop any
                # more, and tasks that were still running there raise.
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
