"""Traces of OpenAI's chat messages, as most trainers record them."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from rubric_core.errors import SchemaError
from rubric_core.schema.answer import Thoughts
from rubric_core.schema.trace import Role, ToolCall, Trace, TraceStep
from rubric_core.traces.messages import (
    answer_in,
    listed,
    message_text,
    messages_in,
    parts_of,
    readable,
)

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

_ARGUMENTS = ("arguments", "input", "args")
"""Fields of the arguments of OpenAI's functions, of its other tools, and of LangChain's calls."""
_OTHER_CALLS = ("tool_use", "tool_result")
"""Parts of Anthropic's messages, which hold calls and results in the content."""


def chat_trace(
    messages: object,
    *,
    prompt: object = (),
    thoughts: Thoughts = "cut",
    opened: bool = False,
    cut: bool = False,
) -> Trace:
    """Read the messages of a trajectory.

    Calls and results are matched by id; where a message has no ids, as in templates of
    transformers, by their order.

    Args:
        messages: what came after the prompt: the assistant's messages, in `tool_calls` what they
            call, and between them those of tools and users. An assistant's message among them
            is one that the policy wrote.
        prompt: the messages that were given; the assistant's among them are no turns.
        thoughts: as for `answer_of`; each turn's thought is left out.
        opened: whether the template opens a thought before each turn.
        cut: whether the trajectory was ended from outside, so that its last calls have no results.

    Raises:
        SchemaError: something else than messages, a role or a call that is not one of OpenAI's, or
            as `Trace`.
    """
    before = messages_in(prompt, role="prompt")
    sampled = messages_in(messages, role="messages")
    ids = _CallIds()
    steps: list[TraceStep] = []
    for place, message in enumerate([*before, *sampled]):
        is_sampled = place >= len(before)
        steps.append(
            _step(
                message, ids, place=place, thoughts=_of(thoughts, is_sampled),
                opened=opened, sampled=is_sampled,
            )
        )  # fmt: skip
        steps += _server_results(message)
    return Trace(steps=tuple(steps), cut=cut)


def reply_step(
    message: Mapping[str, object],
    calls: Sequence[ToolCall],
    *,
    thoughts: Thoughts,
    opened: bool,
    sampled: bool,
) -> TraceStep:
    """Return the step of an assistant's message; a message that is not the policy's is kept whole.

    Args:
        message: content, and thoughts in fields of their own.
        calls: the tools that it calls.
        thoughts: as for `answer_of`.
        opened: whether the template opened a thought.
        sampled: whether the policy wrote it.
    """
    if not sampled:
        return TraceStep(
            role="assistant", text=message_text(message), calls=tuple(calls)
        )
    has_calls: dict[str, object] = {"tool_calls": True} if calls else {}
    answer = answer_in({**message, **has_calls}, thoughts, opened=opened)
    return TraceStep(
        role="assistant",
        text=answer.text,
        thought=answer.thought,
        calls=tuple(calls),
        sampled=True,
    )


def seen_text(message: Mapping[str, object], field: str = "content") -> str:
    """Return the text of a user's or a tool's message; what is no text is named in brackets.

    What else JSON holds, such as the number that a tool returned, is its text there.
    """
    content = listed(message.get(field))
    if not isinstance(content, str) and isinstance(content, Sequence):
        parts = cast("Sequence[object]", content)
        return readable("\n".join(map(_seen_part, parts)))
    if content is None or isinstance(content, str):
        return readable(content or "")
    return readable(json.dumps(content, ensure_ascii=False, default=str))


def _seen_part(part: object) -> str:
    if isinstance(part, str):
        return part
    fields = cast("Mapping[str, object]", part if isinstance(part, Mapping) else {})
    text = fields.get("text")
    if isinstance(text, str):
        return text
    if "type" in fields:
        return f"[{str(fields['type'])[:40]}]"
    return json.dumps(part, ensure_ascii=False, default=str)  # what a tool returned


def _error_text(message: Mapping[str, object]) -> str:
    """Return what a tool said of its failure; inspect_ai keeps it beside an empty content."""
    error = message.get("error")
    if not isinstance(error, Mapping):
        return ""
    said = cast("Mapping[str, object]", error).get("message")
    return readable(said) if isinstance(said, str) else ""


def arguments_text(arguments: object) -> str:
    """Return the arguments of a call as the policy wrote them, or as JSON if they were parsed."""
    if isinstance(arguments, str):
        return readable(arguments)
    if arguments is None:
        return ""
    return readable(json.dumps(arguments, ensure_ascii=False, default=str))


class _CallIds:
    """Ids for calls that have none, and the calls that wait for a result that names none."""

    def __init__(self) -> None:
        self._made: set[str] = set()
        self._waiting: dict[str, str] = {}
        """Ids of the calls that wait, with the tool that each calls."""

    def new(self, tool: str) -> str:
        """Return an id for a call without one."""
        call_id = f"unnamed_{len(self._made) + 1}"
        self._made.add(call_id)
        self._waiting[call_id] = tool
        return call_id

    def wait(self, calls: Sequence[ToolCall]) -> None:
        """Note the calls of a turn, whose results may name none, as Ollama's name a tool alone."""
        unnamed = {
            name: tool for name, tool in self._waiting.items() if name in self._made
        }
        self._waiting = unnamed | {call.id: call.name for call in calls}

    def answered(self, call_id: str) -> None:
        """Note the result of a call that it names."""
        self._waiting.pop(call_id, None)

    def next(self, tool: object, *, place: int) -> str:
        """Return the id of the first call that waits.

        Args:
            tool: the tool that a result names, whose calls come first; None if it names none.
            place: place of the message, for the error.

        Raises:
            SchemaError: there is none.
        """
        if not self._waiting:
            raise SchemaError(
                f"messages.{place} is the result of a tool and names no call: give it the "
                "`tool_call_id` of the assistant's call",
                field=f"messages.{place}.tool_call_id",
            )
        own = (call for call, name in self._waiting.items() if name == tool)
        call_id = next(own, next(iter(self._waiting)))
        del self._waiting[call_id]
        return call_id


def _of(thoughts: Thoughts, is_sampled: bool) -> Thoughts:  # noqa: FBT001
    return thoughts if is_sampled else "kept"


def _step(
    message: Mapping[str, object],
    ids: _CallIds,
    *,
    place: int,
    thoughts: Thoughts,
    opened: bool,
    sampled: bool,
) -> TraceStep:
    named = message.get("role")
    role = _ROLES.get(named) if isinstance(named, str) else None
    if role is None:
        raise SchemaError(
            f"messages.{place} has no role of {', '.join(_ROLES)}: name who wrote it",
            field=f"messages.{place}.role",
        )
    apart = [part for part in parts_of(message) if not _is_server_call(part)]
    if any(part.get("type") in _OTHER_CALLS for part in apart):
        raise SchemaError(
            f"messages.{place} holds calls or results in its content, as Anthropic's messages do: "
            "write calls to `tool_calls`, and each result as a message of the role `tool`",
            field=f"messages.{place}.content",
        )
    if role == "assistant":
        calls = _calls(message, ids, place=place)
        ids.wait(calls)
        own = [*_server_calls(message), *calls]
        return reply_step(
            message, own, thoughts=thoughts, opened=opened, sampled=sampled
        )
    text = seen_text(message)
    if role != "tool":
        return TraceStep(role=role, text=text)
    text = "\n".join(filter(None, (text, _error_text(message))))
    call_id = message.get("tool_call_id")
    if isinstance(call_id, str) and call_id:
        ids.answered(call_id)
    else:
        named = message.get("name") or message.get("tool_name")
        call_id = ids.next(named, place=place)
    return TraceStep(role=role, text=text, call_id=call_id)


def _is_server_call(part: Mapping[str, object]) -> bool:
    """Whether a part is a call that the server executed: inspect_ai keeps its result there."""
    return part.get("type") == "tool_use" and isinstance(part.get("result"), str)


def _server_calls(message: Mapping[str, object]) -> list[ToolCall]:
    return [
        ToolCall(
            id=str(part.get("id") or ""),
            name=readable(str(part.get("name") or "")),
            arguments=arguments_text(part.get("arguments")),
        )
        for part in parts_of(message)
        if _is_server_call(part)
    ]


def _server_results(message: Mapping[str, object]) -> list[TraceStep]:
    return [
        TraceStep(
            role="tool",
            text=arguments_text(part.get("result") or part.get("error")),
            call_id=str(part.get("id") or ""),
        )
        for part in parts_of(message)
        if _is_server_call(part)
    ]


def _calls(
    message: Mapping[str, object], ids: _CallIds, *, place: int
) -> list[ToolCall]:
    """Return the calls in an assistant's message."""
    entries = listed(message.get("tool_calls"))
    if entries in (None, []) and message.get("function_call"):
        entries = [
            message["function_call"]
        ]  # as OpenAI wrote one before it had several
    if entries is None:
        return []
    calls: list[ToolCall] = []
    for number, item in enumerate(messages_in(entries, role="tool_calls")):
        # OpenAI keeps name and arguments in `function` or `custom`, other stacks beside the id.
        inner = item.get("function") or item.get("custom") or item
        fields = cast(
            "Mapping[str, object]", inner if isinstance(inner, Mapping) else item
        )
        # inspect_ai's `function` is the name.
        name = inner if isinstance(inner, str) else fields.get("name")
        if not isinstance(name, str):  # a policy may have left it empty
            where = f"messages.{place}.tool_calls.{number}"
            raise SchemaError(
                f"{where} names no tool: a call has `function` with `name` and `arguments`",
                field=where,
            )
        call_id = item.get("id")
        if not isinstance(call_id, str) or not call_id:
            call_id = ids.new(name)
        passed = (fields[key] for key in _ARGUMENTS if key in fields)
        arguments = next(passed, None)
        calls.append(
            ToolCall(
                id=call_id, name=readable(name), arguments=arguments_text(arguments)
            )
        )
    return calls
