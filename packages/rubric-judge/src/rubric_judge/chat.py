"""What a judge needs of a model, whoever carries the call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import BaseModel

from rubric_core import Usage

__all__ = ["ChatClient", "ChatReply", "Finish"]

Finish = Literal["complete", "truncated", "refused"]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The text of a model's answer, unread, and what the call took."""

    text: str
    finish: Finish
    usage: Usage | None
    attempts: int


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
