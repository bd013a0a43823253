"""litellm's calls of a server of one's own, made over connections of ours.

litellm's own clients follow redirects, read answers of any size, and send what the environment
keeps for OpenAI. litellm takes a client for a call; one over `OwnServer` makes a single exchange
with a single address, and keeps what was answered, as it was before litellm reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from rubric_core import Reason
from rubric_judge.errors import JudgeTransportError
from rubric_judge.provider.chat import Answer, ChatReply
from rubric_judge.provider.exchange import Connections
from rubric_judge.provider.settings import NO_KEY

if TYPE_CHECKING:
    import httpx


_OWN_ROUTES = ("openai", "hosted_vllm")
_FOREVER_S = 1e9
_BAD_GATEWAY = 502
# The connections', or OpenAI's.
_NOT_SENT = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "host",
        "openai-organization",
        "openai-project",
    }
)
_OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class Taken:
    """What an `OwnServer` answers to the call that is made within this context."""

    def __init__(self) -> None:
        """Begin without an answer."""
        self.outcome: Answer | JudgeTransportError | None = None

    def __enter__(self) -> Self:
        self._token = _taken.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _taken.reset(self._token)

    def chat_reply(self) -> ChatReply | None:
        """Read the answer; None where the server was not called.

        Raises:
            JudgeTransportError: see `Answer.chat_reply`; or no answer came.
        """
        if isinstance(self.outcome, JudgeTransportError):
            raise self.outcome
        return None if self.outcome is None else self.outcome.chat_reply()


_taken: ContextVar[Taken | None] = ContextVar("_taken", default=None)


class OwnServer:
    """A transport of httpx's to one server; closed by whoever made it, and not by a client."""

    def __init__(self, address: str, *, timed: bool) -> None:
        """Look for a proxy; nothing is connected.

        Args:
            address: the server's.
            timed: whether a router of litellm's asks: it keeps time and reads the answers.
                Otherwise whoever asks does both.

        Raises:
            JudgeSetupError: the environment names a proxy that cannot be used.
        """
        self.address = address
        self._connections = Connections(address)
        self._timed = timed

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Make one exchange."""
        import httpx

        headers = {name: text for name, text in request.headers.items() if name not in _NOT_SENT}
        timeouts: dict[str, float | None] = request.extensions.get("timeout") or {}
        taken, is_chat = _taken.get(), request.url.path.endswith("/chat/completions")
        if taken is None or not is_chat:
            taken = Taken()  # nobody asks, or litellm speaks another protocol and reads it
        try:
            answer = await self._connections.post(
                str(request.url),
                body=await request.aread(),
                headers=headers,
                silence_s=timeouts.get("read") if self._timed else None,
            )
        except JudgeTransportError as error:
            taken.outcome = error
            # No `ConnectError`, after which litellm would ask once more by itself.
            kind = httpx.ReadTimeout if error.reason is Reason.TIMEOUT else httpx.ReadError
            raise kind(error.detail, request=request) from error
        taken.outcome = answer
        if self._timed and is_chat and answer.is_success and not _is_completion(answer):
            # litellm would read something into it; its router asks another deployment instead.
            return httpx.Response(_BAD_GATEWAY, request=request)
        return httpx.Response(
            answer.status,
            headers=[line for line in answer.headers if line[0].lower() not in _OF_THE_BODY],
            content=answer.body or b"",
            request=request,
        )

    async def aclose(self) -> None:
        """Leave the connections open: litellm closes clients that it did not make."""

    async def close_connections(self) -> None:
        """Close this event loop's connections, and those of loops that are no more."""
        await self._connections.aclose()


def _is_completion(answer: Answer) -> bool:
    try:
        answer.chat_reply()
    except JudgeTransportError:
        return False
    return answer.body is not None


MakeClient = Callable[[str, OwnServer, str], object]
"""Makes what litellm calls a server through: of a route, the server and a key."""


def own_route(model: str) -> str:
    """Return the prefix of a model that litellm calls through a client it is given, or ""."""
    route = model.partition("/")[0]
    return route if route in _OWN_ROUTES else ""


def servers_of_router(router: Any, make_client: MakeClient) -> Iterator[OwnServer]:
    """Have a router of litellm's call one's own servers over connections of ours.

    Args:
        router: with its deployments.
        make_client: makes a client of litellm's.

    Yields:
        Each server, to be closed in the end.
    """
    for entry in router.model_list:
        given = entry["litellm_params"]
        route, address = own_route(given["model"]), given.get("api_base")
        if route and address:
            server = OwnServer(address, timed=True)
            client = make_client(route, server, given.get("api_key") or NO_KEY)
            # Where a router looks for the client of a deployment.
            where = f"{entry['model_info']['id']}_async_client"
            router.cache.set_cache(where, client, local_only=True, ttl=_FOREVER_S)
            yield server
