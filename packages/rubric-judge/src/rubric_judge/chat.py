"""What a judge needs of a model, whoever carries the call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import BaseModel

from rubric_core import Usage

__all__ = ["ChatClient", "ChatReply", "Finish", "Transport"]

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


class Transport(Protocol):
    """Carries one attempt. Times, limits and further attempts are `RetryingClient`'s."""

    async def prepare(self) -> None:
        """Load what the attempts need, without holding up the event loop; quick when done before.

        Raises:
            JudgeTransportError: there can be no attempt; `attempts` is 0.
        """
        ...

    async def ask(self, *, system: str, user: str, reply: type[BaseModel]) -> ChatReply:
        """Ask once; see `ChatClient.complete`.

        Raises:
            JudgeTransportError: no answer came.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...
