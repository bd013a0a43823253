"""What a judge needs of a model, and the chat completion that a server answers, read strictly."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, Literal, Protocol, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, JsonValue

from rubric_core import Answerer, Reason, Usage
from rubric_core.errors import NotJsonError
from rubric_core.files import decode, toml_beside
from rubric_judge.errors import JudgeTransportError
from rubric_judge.provider.failures import (
    MOST_TOKENS,
    retry_after_s,
    status_error,
    transport_error,
)
from rubric_judge.provider.model_config import ReplyForm
from rubric_judge.provider.refusals import read_refusal, status_in_success

Finish = Literal["complete", "truncated", "refused", "oversized", "full", "unsaid"]
"""How an answer ended. `full`: prompt and answer do not fit into what the model can read. `unsaid`:
the server does not say in words that are known, so that it may be cut off."""
SCHEMA_FOLLOWS: Final = (
    "The reply is one JSON object and nothing else. It fits this JSON schema:"
)
"""What a system message says before the schema, where none goes along."""
Beside = Literal["", "reasoning", "tools"]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The text of a model's answer, unread, and what the call took."""

    text: str
    finish: Finish
    usage: Usage | None = None
    """Of all attempts, where the server says."""
    attempts: int = 1
    latency_s: float | None = None
    """Seconds from the first attempt to the answer; None for a single attempt."""
    answered_by: Answerer | None = None
    """Who answered, as far as the transport knows."""
    beside: Beside = ""
    """Where the model wrote something instead, if the text is empty."""
    has_thought: bool | None = None
    """Whether the server told a thought from the text; None where it tells none from any."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What one attempt sends."""

    user: str
    system: str | None = None
    """None for no such message."""
    reply: type[BaseModel] | None = None
    """Whose JSON schema goes to the server; None for an answer in plain text."""
    asks_for: ReplyForm = "json_schema"
    """How the reply's form is asked for: by its schema, as any JSON object, or by the prompt."""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Fields of this request, over those of the configuration."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages, as they are sent."""
        user = {"role": "user", "content": self.user}
        return (
            [user]
            if self.system is None
            else [{"role": "system", "content": self.system}, user]
        )


class ClosesItself(ABC):
    """Closed at the end of an `async with`."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Transport(Protocol):
    """Carries one attempt: a client of one's own needs an `ask`.

    Times, limits and further attempts are `RetryingClient`'s.
    """

    @property
    def most_calls(self) -> int:
        """Calls that one attempt may make, of several deployments; each has its own time."""
        return 1

    async def prepare(self) -> None:
        """Load what the attempts need, without holding up the event loop; quick when done before.

        Raises:
            JudgeTransportError: there can be no attempt; `attempts` is 0.
        """

    @abstractmethod
    async def ask(self, request: ChatRequest) -> ChatReply:
        """Ask once.

        Args:
            request: what is asked.

        Returns:
            The answer, valid or not: it is not checked against the schema here.

        Raises:
            JudgeTransportError: no answer came.
        """

    async def unsupported(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the fields of a request that whoever carries the call would not send.

        Args:
            names: the fields.

        Returns:
            None of them, where each is sent as it is.

        Raises:
            JudgeTransportError: there can be no attempt; `attempts` is 0.
        """
        del names
        return ()

    async def aclose(self) -> None:
        """Close the connections."""


_LONGEST_NAME = 200


def answerer(model: object, *, deployment: str = "", fallback: str = "") -> Answerer:
    """Return who answered.

    Args:
        model: what the server says of it, which may be anything; kept where it is a name.
        deployment: where it answered.
        fallback: the group that answered in place of another.
    """
    is_name = (
        isinstance(model, str) and len(model) <= _LONGEST_NAME and model.isprintable()
    )
    return _answerer(str(model) if is_name else "", deployment, fallback)


@lru_cache(maxsize=256)
def _answerer(model: str, deployment: str, fallback: str) -> Answerer:
    # A few answer all calls of a run, and to validate one takes a twentieth of a call.
    return Answerer(model=model, deployment=deployment, fallback=fallback)


def server_of(address: object) -> str:
    """Return host and port of an address, or "" for none: nothing that may hold a key."""
    if not isinstance(address, str):
        return ""
    try:
        return urlsplit(address).netloc.rpartition("@")[2]
    except ValueError:
        return ""


_SAID: Final[dict[str, list[str]]] = toml_beside(__file__, "finish.toml")
_ENDS: Final[tuple[Finish, ...]] = ("complete", "truncated", "refused")
_FINISH: Final[dict[str, Finish]] = {
    why: finish for finish in _ENDS for why in _SAID[finish]
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, unread."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    """Decompressed; None if it is longer than what is read of one."""

    @property
    def is_success(self) -> bool:
        """Whether the status says so."""
        return 200 <= self.status < 300  # noqa: PLR2004

    def decoded(self) -> dict[str, object]:
        """Read a success that is a JSON object; every number is a float.

        Raises:
            JudgeTransportError: it is none.
        """
        if not self.is_success:
            raise status_error(self.status)
        return _decoded(self.body or b"")

    def chat_reply(self, *, sent: Collection[str] = ()) -> ChatReply:
        """Read the answer.

        Args:
            sent: the fields of the request.

        Returns:
            The model's text, or that it refuses to answer the prompt, or cannot for its length.

        Raises:
            JudgeTransportError: it is no chat completion.
        """
        if not self.is_success:
            return self._refused(sent)
        if self.body is None:
            return ChatReply("", "oversized")
        return read_completion(_decoded(self.body))

    def _refused(self, sent: Collection[str]) -> ChatReply:
        """Return a refusal to answer the prompt; raise for any other status."""
        try:
            body = _decoded(self.body or b"")
        except JudgeTransportError:
            body = {}
        used = _usage(body)
        refusal = read_refusal(body, status=self.status, sent=sent)
        if refusal.about == "policy":
            return ChatReply("", "refused", used)
        if refusal.about == "context":
            return ChatReply("", "full", used)
        waits = (value for name, value in self.headers if name.lower() == "retry-after")
        wait_s = retry_after_s(*waits)
        raise status_error(self.status, refusal=refusal, retry_after=wait_s, usage=used)


def _decoded(body: bytes) -> dict[str, object]:
    try:
        # As a reply is read; half a surrogate pair is left in the text.
        decoded = decode(body.decode(errors="surrogatepass"), finite=True)
    except UnicodeDecodeError:
        decoded = None
    except NotJsonError as error:
        said = f"a success that is no JSON object ({error}); check `api_base`"
        raise transport_error(said) from None
    if not isinstance(decoded, dict):
        raise transport_error("a success that is no JSON object; check `api_base`")
    return cast("dict[str, object]", decoded)


def read_completion(
    completion: Mapping[str, object], *, cost_usd: object = None
) -> ChatReply:
    """Read a chat completion.

    Args:
        completion: as decoded.
        cost_usd: what it cost, as computed by whoever knows the price.

    Returns:
        The model's text, which may be cut off, or that it refuses to answer the prompt. An answer
        that calls a tool has the text that stands beside the call.

    Raises:
        JudgeTransportError: it is none, or the server did not finish it; with what it consumed.
    """
    used = _usage(completion, cost_usd=cost_usd)
    choices = listing(completion.get("choices"))
    if len(choices) > 1:
        raise transport_error(
            f"{len(choices)} choices where one was asked for", usage=used
        )
    choice = mapping(choices[0]) if choices else {}
    message = mapping(choice.get("message"))
    if failed := completion.get("error") or choice.get("error"):
        return _failed_success(failed, used)
    refusal = message.get("refusal")
    of_model = message.get("role", "assistant") == "assistant"
    if not (message and of_model and isinstance(refusal, str | None)):
        raise transport_error("a success without a chat completion", usage=used)
    text = _text(message.get("content"), used)
    beside: Beside = "reasoning" if any(map(message.get, _SAID["reasoning"])) else ""
    beside = "tools" if message.get("tool_calls") else beside
    reply = partial(
        ChatReply,
        usage=used,
        answered_by=answerer(completion.get("model")),
        beside="" if text else beside,
        has_thought=_has_thought(message),
    )
    if refusal:
        return reply(text, "refused")
    why = choice.get("finish_reason")
    why = why if isinstance(why, str) else None
    if why in _SAID["failed"]:
        raise transport_error(
            f"the answer is not finished: its `finish_reason` is {why}", usage=used
        )
    return reply(text, _FINISH.get(why or "", "unsaid"))


def _failed_success(error: object, used: Usage | None) -> ChatReply:
    """Read the error that a server writes into the body of a success, as of its own status.

    Raises:
        JudgeTransportError: it is no refusal to answer the prompt.
    """
    status = status_in_success(error)
    if status is None:
        raise transport_error("an error in the body of a success", usage=used)
    waits = mapping(mapping(mapping(error).get("metadata")).get("headers"))
    headers = tuple((name, str(value)) for name, value in waits.items())
    body = json.dumps({"error": error, "usage": used and used.model_dump()})
    return Answer(status, headers, body.encode()).chat_reply()


def _text(content: object, used: Usage | None) -> str:
    """Return the text of a message; of its parts, those that are no thoughts.

    Raises:
        JudgeTransportError: it is in a form that is not known; to ask again would bring the same.
    """
    if not content or isinstance(content, str):
        return content if isinstance(content, str) else ""
    parts = [mapping(part) for part in listing(content)]
    texts = [
        part.get("text") for part in parts if part.get("type") in _SAID["text_parts"]
    ]
    known = {*_SAID["text_parts"], *_SAID["thought_parts"]}
    is_known = bool(parts) and all(part.get("type") in known for part in parts)
    if not is_known or not all(isinstance(text, str) for text in texts):
        what = "an answer whose content is in a form that is not known"
        raise transport_error(what, Reason.JUDGE_ERROR, usage=used)
    return "".join(map(str, texts))


def _has_thought(message: Mapping[str, object]) -> bool | None:
    """Whether a thought stands beside the content, or as a part of it; None where none could."""
    beside = [message.get(name) for name in _SAID["reasoning"]]
    kinds = {mapping(part).get("type") for part in listing(message.get("content"))}
    if any(beside) or not kinds.isdisjoint(_SAID["thought_parts"]):
        return True
    # An empty thought is one that a parser found.
    return False if "" in beside else None


def _usage(
    completion: Mapping[str, object], *, cost_usd: object = None
) -> Usage | None:
    reported = mapping(completion.get("usage"))
    if not reported:
        return None
    prompt_tokens = _count(reported.get("prompt_tokens")) or 0
    completion_tokens = _count(reported.get("completion_tokens")) or 0
    # xAI and Gemini count thoughts apart from the answer; their total has both.
    if (total := _count(reported.get("total_tokens"))) is not None and prompt_tokens:
        completion_tokens = max(completion_tokens, total - prompt_tokens)
    cached = _count(mapping(reported.get("prompt_tokens_details")).get("cached_tokens"))
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=None if cached is None else min(cached, prompt_tokens),
        cost_usd=cost_usd
        if isinstance(cost_usd, float) and 0 < cost_usd < math.inf
        else None,
    )


def _count(value: object) -> int | None:
    # An answer that is read strictly has floats only.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_TOKENS and value == int(value) else None


def mapping(value: object) -> dict[str, object]:
    """Return a value that is a JSON object; for any other an empty one."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def listing(value: object) -> list[object]:
    """Return a value that is a JSON array; for any other an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []
