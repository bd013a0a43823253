"""Prompts of several messages, as the text of a question and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_ROLES: Final = ("assistant", "developer", "system", "user")
_TURN: Final = re.compile(rf"(?:\A|\n\n)({'|'.join(_ROLES)}): ")


def as_question(messages: Sequence[tuple[str, str]]) -> str:
    """Return messages as one text.

    Args:
        messages: role and content of each; an empty role is a user's.

    Returns:
        The content of a single message, or "role: content" of each with an empty line between.
    """
    if len(messages) == 1:
        return messages[0][1]
    return "\n\n".join(f"{role or 'user'}: {content}" for role, content in messages)


def as_messages(question: str) -> list[dict[str, str]]:
    """Return a question as chat messages: several where it was written from several.

    Only a text that begins with a role and holds at least two turns is taken apart.
    """
    turns = _TURN.split(question)
    if turns[0] or len(turns) < 5:  # noqa: PLR2004  # the text before, then role and content twice
        return [{"role": "user", "content": question}]
    return [
        {"role": role, "content": content}
        for role, content in zip(turns[1::2], turns[2::2], strict=True)
    ]
