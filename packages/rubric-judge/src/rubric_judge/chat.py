"""What a judge needs of a model, whoever carries the call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, JsonValue

from rubric_core import Answerer, Usage

Finish = Literal["complete", "truncated", "refused", "oversized"]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The text of a model's answer, unread, and what the call took."""

    text: str
    finish: Finish
    usage: Usage | None
    """Of all attempts, where the server says."""
    attempts: int
    latency_s: float | None = None
    """Seconds from the first attempt to the answer; None for a single attempt."""
    answered_by: Answerer | None = None
    """Who answered, as far as the transport knows."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What one attempt sends."""

    user: str
    system: str | None = None
    """None for no such message."""
    reply: type[BaseModel] | None = None
    """Whose JSON schema goes to the server; None for an answer in plain text."""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Fields of this request, over those of the configuration."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages, as they are sent."""
        user = {"role": "user", "content": self.user}
        return [user] if self.system is None else [{"role": "system", "content": self.system}, user]


class ChatClient(Protocol):
    """Carries one question to a model and its text back."""

    async def complete(self, *, system: str, user: str, reply: type[BaseModel]) -> ChatReply:
        """Ask once; ask again only while no answer comes.

        Args:
            system: the system message.
            user: the user message.
            reply: the model of the reply, whose JSON schema goes to the server. The answer is not
                checked against it here.

        Returns:
            The first answer that comes, valid or not.

        Raises:
            JudgeTransportError: no answer came within the attempts and the deadline.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@runtime_checkable
class Answering(Protocol):
    """A client that also asks without a schema."""

    async def answer(self, *, user: str, parameters: Mapping[str, JsonValue]) -> ChatReply:
        """Ask for an answer in plain text; otherwise as `ChatClient.complete`.

        Args:
            user: the only message.
            parameters: fields of this request, over those of the configuration.
        """
        ...


class Transport(Protocol):
    """Carries one attempt. Times, limits and further attempts are `RetryingClient`'s."""

    async def prepare(self) -> None:
        """Load what the attempts need, without holding up the event loop; quick when done before.

        Raises:
            JudgeTransportError: there can be no attempt; `attempts` is 0.
        """
        ...

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Ask once; see `ChatClient.complete`.

        Raises:
            JudgeTransportError: no answer came.
        """
        ...

    async def unsupported(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the fields of a request that whoever carries the call would not send.

        Raises:
            JudgeTransportError: there can be no attempt; `attempts` is 0.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...
