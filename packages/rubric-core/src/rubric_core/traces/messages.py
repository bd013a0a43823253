"""The answer in a completion as a stack hands it over, by `rubric_core.answer_of`.

A text, a message whose thought stands in a field or a part of its own, or messages.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Literal, cast

from rubric_core.errors import SchemaError, shortened
from rubric_core.schema.answer import Answer, Thought, Thoughts, answer_of

_BESIDE = "reasoning_details"
_THOUGHT_FIELDS = (
    "reasoning_content",
    "reasoning",
    "thinking",  # of servers and of response templates
    _BESIDE,
    "thinking_blocks",  # of routers
)
"""Fields of a message that hold its thought, apart from the content."""
# Tuples, which a type can be looked up in that has no hash, as a damaged file may hold.
_THOUGHT_PARTS = (
    "thinking",
    "redacted_thinking",
    "reasoning",
    "reasoning_text",
    "reasoning_content",
    "summary_text",
)
"""Types of the parts of a content, or of the items of an output, that are no answer."""
_EMPTY_PARTS = (
    "text",
    "output_text",
    "tool_use",
    "tool_call",
    "function_call",
    "server_tool_use",
)
"""Types of the parts of a content that may be without a text: texts, and calls of tools."""
_TEXTS = ("text", "thinking", "reasoning", "content", "summary")


def answer_from(
    response: object, thoughts: Thoughts = "cut", *, opened: bool = False
) -> Answer:
    """Return the answer in a completion as a stack hands it over.

    Args:
        response: a text, a message or messages, of which the last of the assistant counts; or an
            answer, which is returned.
        thoughts: way to tell thoughts from answers.
        opened: whether the prompt opened a thought.

    Raises:
        SchemaError: neither text nor messages.
    """
    match response:
        case Answer():
            return response
        case str():
            return answer_of(readable(response), thoughts, opened=opened)
        case Mapping():
            return answer_in(
                cast("Mapping[str, object]", response), thoughts, opened=opened
            )
        case _:
            last = _last_reply(messages_in(response, role="assistant"))
            if last is None:
                return Answer("")
            return answer_in(last, thoughts, opened=opened)


def text_of(value: object, *, role: Literal["assistant", "user"]) -> str:
    """Return a text, or the text of a role's last message, without a thought kept apart.

    Args:
        value: a text, a message, or messages.
        role: the role whose message counts.

    Raises:
        SchemaError: neither text nor messages.
    """
    match value:
        case str():
            return readable(value)
        case Mapping():
            return message_text(cast("Mapping[str, object]", value))
        case _:
            replies = [
                message
                for message in messages_in(value, role=role)
                if message.get("role") == role
            ]
            return message_text(replies[-1]) if replies else ""


def readable(text: str) -> str:
    """Return a text that UTF-8 can hold, as in a judge's request and a ledger."""
    # UTF-8 has no half of a surrogate pair.
    return text.encode(errors="replace").decode()


def answer_in(
    message: Mapping[str, object], thoughts: Thoughts, *, opened: bool
) -> Answer:
    """Return the answer in one message of an assistant, without a thought kept apart.

    Raises:
        SchemaError: content that is no text.
    """
    text = reply_text(message)
    thought = _thought_apart(message)
    if thought is None:
        return answer_of(text, thoughts, opened=opened)
    if thoughts == "kept":
        return Answer("\n\n".join(part for part in (thought, text) if part))
    answer = answer_of(text, thoughts)  # the content may hold a second thought
    if answer.thought is not Thought.NONE:
        return answer
    # A message that was cut within its thought has no content; one that calls a tool may have none.
    ended = bool(text.strip() or message.get("tool_calls"))
    state = Thought.CLOSED if ended else Thought.UNCLOSED
    return Answer(text.strip(), state)


def _thought_apart(message: Mapping[str, object]) -> str | None:
    """Return the thought that stands beside a message's content, None where there is none."""
    thoughts = [message[name] for name in _THOUGHT_FIELDS if message.get(name)]
    thoughts += [part for part in parts_of(message) if _is_thought(part)]
    if not thoughts:
        return None
    texts = [_text_in(thought) for thought in thoughts]
    return readable("\n".join(text for text in texts if text))


def _text_in(thought: object) -> str:
    match thought:
        case str():
            return thought
        case Mapping():
            fields = cast("Mapping[str, object]", thought)
            texts = [_text_in(fields.get(name)) for name in _TEXTS]
            return "\n".join(text for text in texts if text)
        case Sequence():
            parts = cast("Sequence[object]", thought)
            texts = [_text_in(part) for part in parts]
            return "\n".join(text for text in texts if text)
        case _:
            return ""


def reply_text(message: Mapping[str, object]) -> str:
    """Return the text of an assistant's message.

    OpenAI keeps a refusal, and what was spoken, beside an empty content.

    Raises:
        SchemaError: content, or a part of it, that holds no text: read as nothing, it would be an
            empty answer.
    """
    content = listed(message.get("content"))
    if isinstance(content, str):
        text = readable(content)
    elif content is None:
        text = ""
    elif isinstance(content, Sequence):
        parts = cast("Sequence[object]", content)
        text = "".join(map(_reply_part, parts, range(len(parts))))
    else:
        raise _no_text(type(content).__name__, field="content")
    if text:
        return text
    spoken = message.get("audio")
    apart = [message.get("refusal")]
    if isinstance(spoken, Mapping):
        apart.append(cast("Mapping[str, object]", spoken).get("transcript"))
    return readable(next((part for part in apart if isinstance(part, str)), ""))


def _reply_part(part: object, place: int) -> str:
    """Return the text of one part of a content; a thought has none."""
    if isinstance(part, str):
        return readable(part)
    kind: object = type(part).__name__
    if isinstance(part, Mapping):
        fields = cast("Mapping[str, object]", part)
        if _is_thought(fields):
            return ""
        # `refusal` stands in the place of the text in a part of OpenAI's of that type.
        texts = (fields.get(name) for name in ("text", "refusal"))
        text = next((text for text in texts if isinstance(text, str)), None)
        kind = fields.get("type", "without a type")
        if text is not None or kind in _EMPTY_PARTS:
            return readable(text or "")
    raise _no_text(shortened(str(kind), 40), field=f"content.{place}")


def _no_text(kind: str, *, field: str) -> SchemaError:
    return SchemaError(
        f"an assistant's {field} is of the kind {kind!r}, in which no text is known, so that the "
        "answer would be read without it: write what it says as a part of the type `text`, or "
        "leave it out",
        field=field,
    )


def message_text(message: Mapping[str, object]) -> str:
    """Return a message's text; content in parts keeps its text parts."""
    content = message.get("content")
    if isinstance(content, str):
        return readable(content)
    texts = [part.get("text") for part in parts_of(message) if not _is_thought(part)]
    return readable("".join(text for text in texts if isinstance(text, str)))


def parts_of(message: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the parts of a message's content, none where it is a text."""
    content = listed(message.get("content"))
    # A message that only calls tools has no content at all.
    if isinstance(content, str) or not isinstance(content, Sequence):
        return []
    parts = cast("Sequence[object]", content)
    return [
        cast("Mapping[str, object]", part)
        for part in parts
        if isinstance(part, Mapping)
    ]


def listed(value: object) -> object:
    """Return a list from the array that pandas makes of one."""
    to_list = getattr(value, "tolist", None)
    return value if to_list is None else to_list()


def _is_thought(part: Mapping[str, object]) -> bool:
    return part.get("type") in _THOUGHT_PARTS or part.get("thought") is True


def messages_in(value: object, *, role: str) -> list[Mapping[str, object]]:
    """Return a list of messages, each a mapping.

    Args:
        value: the list, or an array of them.
        role: the name of the list in an error.

    Raises:
        SchemaError: it is something else.
    """
    several = listed(value)
    items = None
    if isinstance(several, Sequence) and not isinstance(several, str):
        items = cast("Sequence[object]", several)
    messages = [
        cast("Mapping[str, object]", message)
        for message in items or ()
        if isinstance(message, Mapping)
    ]
    if items is None or len(messages) < len(items):
        kind = type(value).__name__
        others = (each for each in items or () if not isinstance(each, Mapping))
        for other in islice(others, 1):
            kind = f"a list that holds a {type(other).__name__}"
        raise SchemaError(
            f"{role}: a text or a list of messages is needed, not {kind}", field=role
        )
    return messages


def _last_reply(items: Sequence[Mapping[str, object]]) -> Mapping[str, object] | None:
    """Return the last message of the assistant with its thought, None where there is neither.

    In an output of items, as of the Responses API, a thought is an item before its message.
    """
    reply = thought = None
    for item in items:
        if "role" not in item and item.get("type") in _THOUGHT_PARTS:
            reply = None
            thought = item
        elif item.get("role") == "assistant":
            reply = item if thought is None else {**item, _BESIDE: thought}
            thought = None
        else:
            thought = None
    return reply if thought is None else {_BESIDE: thought}
