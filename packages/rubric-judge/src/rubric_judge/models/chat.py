"""The interface between a judge and a model, and a strict reader of chat completions."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Literal, Protocol, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, JsonValue

from rubric_core import Answerer, Reason, Usage
from rubric_core.errors import NotJsonError
from rubric_core.files import toml_beside
from rubric_core.strict_json import decode
from rubric_judge.errors import JudgeTransportError
from rubric_judge.models.failures import (
    MOST_TOKENS,
    retry_after_s,
    status_error,
    transport_error,
)
from rubric_judge.models.model_config import ReplyForm
from rubric_judge.models.refusals import read_refusal, status_in_success

Finish = Literal["complete", "truncated", "refused", "oversized", "full", "unsaid"]
"""How an answer ended. `full`: prompt and answer do not fit into the model's context. `unsaid`:
the server gives no reason that is known, so the answer may be cut off."""
SCHEMA_FOLLOWS = (
    "The reply is one JSON object and nothing else. It fits this JSON schema:"
)
"""Sentence before the schema in a system message, for servers that do not get it separately."""
Beside = Literal["", "reasoning", "tools"]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The text of a model's answer, unread, and what the call took."""

    text: str
    finish: Finish
    usage: Usage | None = None
    """Tokens and cost of all attempts, where the server reports them."""
    attempts: int = 1
    latency_s: float | None = None
    """Seconds from the first attempt to the answer; None for a single attempt."""
    answered_by: Answerer | None = None
    """Who answered, as far as the transport knows."""
    beside: Beside = ""
    """Where the model wrote something else, if the text is empty."""
    has_thought: bool | None = None
    """Whether the server separated a thought from the text; None if it never separates any."""
    logprobs: object = None
    """The log-probabilities that came with the text, as they were decoded: `first_alternatives`
    reads them. None where there are none."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The content of one attempt."""

    user: str
    system: str | None = None
    """The system message; None for no such message."""
    reply: type[BaseModel] | None = None
    """The model whose JSON schema goes to the server; None for an answer in plain text."""
    asks_for: ReplyForm = "json_schema"
    """How the reply's form is requested: by its schema, as any JSON object, or by the prompt."""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Fields of this request; they override those of the configuration."""
    affinity: str = ""
    """Requests with the same word go to the same of several servers while it is up."""

    before: tuple[dict[str, str], ...] = ()
    """Messages of a conversation before the user's."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages, as they are sent."""
        user = {"role": "user", "content": self.user}
        if self.system is None:
            return [*self.before, user]
        return [{"role": "system", "content": self.system}, *self.before, user]

    @property
    def characters(self) -> int:
        """Number of characters of all messages."""
        return sum(len(message["content"]) for message in self.messages)


class ClosesItself(ABC):
    """A base class for what is closed at the end of an `async with`."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Transport(Protocol):
    """Carries one attempt; a custom client needs only an `ask`.

    Times, limits and further attempts are left to `RetryingClient`.
    """

    @property
    def most_calls(self) -> int:
        """Calls that one attempt may make of several deployments; each has its own time limit."""
        return 1

    async def prepare(self) -> None:
        """Load what the attempts need without blocking the event loop; repeated calls are quick.

        Raises:
            JudgeTransportError: no attempt is possible; `attempts` is 0.
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
        """Return the fields of a request that this transport would not send.

        Args:
            names: names of the fields.

        Returns:
            Names of those fields; none if each is sent as it is.

        Raises:
            JudgeTransportError: no attempt is possible; `attempts` is 0.
        """
        del names
        return ()

    async def aclose(self) -> None:
        """Close the connections."""


_LONGEST_NAME = 200


def answerer(model: object, *, deployment: str = "", fallback: str = "") -> Answerer:
    """Return the record of who answered.

    Args:
        model: the model's name in the server's answer, which may be any value; kept if a name.
        deployment: the deployment that answered.
        fallback: the group that answered in place of another.
    """
    is_name = (
        isinstance(model, str) and len(model) <= _LONGEST_NAME and model.isprintable()
    )
    return _answerer(str(model) if is_name else "", deployment, fallback)


@lru_cache(maxsize=256)
def _answerer(model: str, deployment: str, fallback: str) -> Answerer:
    # A few answerers serve all calls of a run, and validating one takes a twentieth of a call.
    return Answerer(model=model, deployment=deployment, fallback=fallback)


def server_of(address: object) -> str:
    """Return host and port of an address, or "" if it has none; never what may hold a key."""
    if not isinstance(address, str):
        return ""
    try:
        return urlsplit(address).netloc.rpartition("@")[2]
    except ValueError:
        return ""


_WORDS: dict[str, list[str]] = toml_beside(__file__, "finish.toml")
_ENDS: tuple[Finish, ...] = ("complete", "truncated", "refused")
_FINISH: dict[str, Finish] = {
    reason: finish for finish in _ENDS for reason in _WORDS[finish]
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's HTTP answer, not yet parsed."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    """The decompressed body; None if it is longer than the limit."""

    @property
    def is_success(self) -> bool:
        """Whether the status is a success."""
        return 200 <= self.status < 300  # noqa: PLR2004

    def decoded(self) -> dict[str, object]:
        """Parse the body of a success as a JSON object; every number becomes a float.

        Raises:
            JudgeTransportError: the status is no success, or the body no JSON object.
        """
        if not self.is_success:
            raise status_error(self.status)
        return _decoded(self.body or b"")

    def chat_reply(self, *, sent: Collection[str] = ()) -> ChatReply:
        """Read the answer.

        Args:
            sent: names of the request's fields.

        Returns:
            The model's text, or that it refuses to answer, or that the prompt is too long.

        Raises:
            JudgeTransportError: the answer is not a chat completion.
        """
        if not self.is_success:
            return self._refused(sent)
        if self.body is None:
            return ChatReply("", "oversized")
        return read_completion(_decoded(self.body))

    def _refused(self, sent: Collection[str]) -> ChatReply:
        """Return a refusal to answer the prompt; raise the error of any other status."""
        try:
            body = _decoded(self.body or b"")
        except JudgeTransportError:
            body = {}
        usage = _usage(body)
        refusal = read_refusal(body, status=self.status, sent=sent)
        if refusal.about == "policy":
            return ChatReply("", "refused", usage)
        if refusal.about == "context":
            return ChatReply("", "full", usage)
        retry_headers = [
            value for name, value in self.headers if name.lower() == "retry-after"
        ]
        wait_s = retry_after_s(*retry_headers)
        raise status_error(
            self.status, refusal=refusal, retry_after=wait_s, usage=usage
        )


def _decoded(body: bytes) -> dict[str, object]:
    try:
        # Decoded as replies are: half a surrogate pair stays in the text.
        decoded = decode(body.decode(errors="surrogatepass"), finite=True)
    except UnicodeDecodeError:
        decoded = None
    except NotJsonError as error:
        raise transport_error(
            f"a success that is no JSON object ({error}); check `api_base`"
        ) from None
    if not isinstance(decoded, dict):
        raise transport_error("a success that is no JSON object; check `api_base`")
    return cast("dict[str, object]", decoded)


def read_completion(
    completion: Mapping[str, object], *, cost_usd: object = None
) -> ChatReply:
    """Read a chat completion.

    Args:
        completion: the decoded JSON object.
        cost_usd: its cost in US dollars, computed by a caller who knows the price.

    Returns:
        The model's text, which may be cut off, or that it refuses to answer the prompt. An answer
        that calls a tool has the text that stands beside the call.

    Raises:
        JudgeTransportError: it is not a chat completion, or the server did not finish it; the error
            holds the usage.
    """
    usage = _usage(completion, cost_usd=cost_usd)
    choices = listing(completion.get("choices"))
    if len(choices) > 1:
        raise transport_error(
            f"{len(choices)} choices where one was asked for", usage=usage
        )
    choice = mapping(choices[0]) if choices else {}
    message = mapping(choice.get("message"))
    error = completion.get("error") or choice.get("error")
    if error:
        return _failed_success(error, usage)
    refusal = message.get("refusal")
    is_assistant = message.get("role", "assistant") == "assistant"
    if not (message and is_assistant and isinstance(refusal, str | None)):
        raise transport_error("a success without a chat completion", usage=usage)
    text = _text(message.get("content"), usage)
    beside: Beside = ""
    if message.get("tool_calls"):
        beside = "tools"
    elif any(message.get(name) for name in _WORDS["reasoning"]):
        beside = "reasoning"
    reply = partial(
        ChatReply,
        usage=usage,
        answered_by=answerer(completion.get("model")),
        beside="" if text else beside,
        has_thought=_has_thought(message),
        logprobs=choice.get("logprobs"),
    )
    if refusal:
        return reply(text, "refused")
    finish_reason = choice.get("finish_reason")
    if not isinstance(finish_reason, str):
        finish_reason = ""
    if finish_reason in _WORDS["failed"]:
        raise transport_error(
            f"the answer is not finished: its `finish_reason` is {finish_reason}",
            usage=usage,
        )
    return reply(text, _FINISH.get(finish_reason, "unsaid"))


def _failed_success(error: object, usage: Usage | None) -> ChatReply:
    """Read an error in the body of a success as if it came with its own status.

    Raises:
        JudgeTransportError: the error is no refusal to answer the prompt.
    """
    status = status_in_success(error)
    if status is None:
        raise transport_error("an error in the body of a success", usage=usage)
    metadata = mapping(mapping(error).get("metadata"))
    header_values = mapping(metadata.get("headers"))
    headers = tuple((name, str(value)) for name, value in header_values.items())
    usage_fields = None if usage is None else usage.model_dump()
    body = json.dumps({"error": error, "usage": usage_fields})
    return Answer(status, headers, body.encode()).chat_reply()


def _text(content: object, usage: Usage | None) -> str:
    """Return the text of a message's content, without the parts that are thoughts.

    Raises:
        JudgeTransportError: the content's form is not known; asking again would bring the same.
    """
    if isinstance(content, str):
        return content
    if not content:
        return ""
    parts = [mapping(part) for part in listing(content)]
    text_kinds = _WORDS["text_parts"]
    texts = [part.get("text") for part in parts if part.get("type") in text_kinds]
    known = {*text_kinds, *_WORDS["thought_parts"]}
    is_known = bool(parts) and all(part.get("type") in known for part in parts)
    if not is_known or not all(isinstance(text, str) for text in texts):
        raise transport_error(
            "an answer whose content is in a form that is not known",
            Reason.JUDGE_ERROR,
            usage=usage,
        )
    return "".join(str(text) for text in texts)


def _has_thought(message: Mapping[str, object]) -> bool | None:
    """Whether there is a thought beside or in the content; None where there could be none."""
    beside = [message.get(name) for name in _WORDS["reasoning"]]
    kinds = {mapping(part).get("type") for part in listing(message.get("content"))}
    if any(beside) or not kinds.isdisjoint(_WORDS["thought_parts"]):
        return True
    # An empty string means that a parser ran and separated no thought.
    return False if "" in beside else None


def _usage(
    completion: Mapping[str, object], *, cost_usd: object = None
) -> Usage | None:
    reported = mapping(completion.get("usage"))
    if not reported:
        return None
    prompt_tokens = _count(reported.get("prompt_tokens")) or 0
    completion_tokens = _count(reported.get("completion_tokens")) or 0
    # xAI and Gemini count thoughts apart from the answer; their total includes both.
    total = _count(reported.get("total_tokens"))
    if total is not None and prompt_tokens:
        completion_tokens = max(completion_tokens, total - prompt_tokens)
    cached = _count(mapping(reported.get("prompt_tokens_details")).get("cached_tokens"))
    if cached is not None:
        cached = min(cached, prompt_tokens)
    cost: float | None = None
    if isinstance(cost_usd, float) and 0 < cost_usd < math.inf:
        cost = cost_usd
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=cached,
        cost_usd=cost,
    )


def _count(value: object) -> int | None:
    # Answers that are read strictly hold only floats.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_TOKENS and value == int(value) else None


def mapping(value: object) -> dict[str, object]:
    """Return the value if it is a JSON object, else an empty one."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def listing(value: object) -> list[object]:
    """Return the value if it is a JSON array, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []
