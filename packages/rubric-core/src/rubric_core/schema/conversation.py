"""A conversation as one text, from which the messages come back as they were.

Most are written as a reader would write them, `user: …` and `assistant: …` with empty lines
between. Where that would come back as something else, as for a message that quotes a chat, each
turn is numbered: `[1/3] user: …`; and where a message quotes that, with one bracket more.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from rubric_core.schema.context import Section, as_message

_ROLES = ("assistant", "developer", "system", "user")
_TURN = re.compile(rf"(?:\A|\n\n)({'|'.join(_ROLES)}): ")
_FIRST = re.compile(r"\A(\[+)1/(\d{1,6})(\]+) ([^\s:]+): ")

Turn = tuple[str, str]
"""Role and content."""


def as_question(messages: Sequence[Turn]) -> str:
    """Return messages as one text.

    Args:
        messages: role and content of each, a role being one word; an empty role is a user's.

    Returns:
        The content of a single message of a user, or "role: content" of each with an empty line
        between; numbered, where `as_messages` would read something else from it.
    """
    turns = [(role or "user", content) for role, content in messages]
    forms = _forms(turns)
    return next(text for text in forms if as_turns(text) == turns)


def _forms(turns: list[Turn]) -> Iterator[str]:
    """Yield ways to write turns; each fails only on texts that hold its marks, so one works."""
    texts = [f"{role}: {content}" for role, content in turns]
    if len(turns) == 1:
        _, content = turns[0]
        yield content
    yield "\n\n".join(texts)
    depth = 0
    while True:
        depth += 1
        yield "\n\n".join(
            f"{_mark(depth, number, len(texts))} {text}"
            for number, text in enumerate(texts, start=1)
        )


def as_messages(question: str) -> list[dict[str, str]]:
    """Return a question as chat messages: several where it was written from several.

    A text is split if it begins with a role and holds at least two turns, or if its turns are
    numbered to the last.
    """
    turns = as_turns(question)
    return [{"role": role, "content": content} for role, content in turns]


def as_turns(question: str) -> list[Turn]:
    """Return role and content of each message that a question was written from."""
    turns = _numbered(question)
    if turns:
        return turns
    before, *parts = _TURN.split(question)
    if before or len(parts) < 4:  # noqa: PLR2004  # role and content twice
        return [("user", question)]
    return list(zip(parts[::2], parts[1::2], strict=True))


def _is_unset(is_conversation: bool) -> bool:  # noqa: FBT001  # a field
    return not is_conversation


IsConversation = Annotated[bool, Field(strict=True, repr=False, exclude_if=_is_unset)]
"""Type of a field that says whether a question is a conversation; left out where it is none."""


def messages_of(
    question: str, context: Sequence[Section] | None, *, is_conversation: bool
) -> list[dict[str, str]]:
    """Return a prompt as chat messages.

    Args:
        question: the question, or a conversation as `as_question` writes it.
        context: what may be looked up; it goes before the words of the last message.
        is_conversation: whether the question is one.
    """
    turns = as_turns(question) if is_conversation else [("user", question)]
    role, content = turns[-1]
    turns[-1] = (role, as_message(content, context))
    return [{"role": role, "content": content} for role, content in turns]


def _mark(depth: int, number: int, count: int) -> str:
    opening = "[" * depth
    closing = "]" * depth
    return f"{opening}{number}/{count}{closing}"


def _numbered(question: str) -> list[Turn]:
    """Return the turns of a text that numbers them, none where one is missing."""
    match = _FIRST.match(question)
    if match is None:
        return []
    opening, last, closing, role = match.groups()
    depth = len(opening)
    if depth != len(closing):
        return []
    count = int(last)
    rest = question[match.end() :]
    turns: list[Turn] = []
    for number in range(2, count + 1):
        mark = re.escape(_mark(depth, number, count))
        next_mark = re.search(rf"\n\n{mark} ([^\s:]+): ", rest)
        if next_mark is None:
            return []
        content = rest[: next_mark.start()]
        turns.append((role, content))
        role = next_mark[1]
        rest = rest[next_mark.end() :]
    turns.append((role, rest))
    return turns
