"""Trajectories as files and requests hold them: the format is told by its fields."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, cast

from rubric_core.errors import SchemaError, shortened
from rubric_core.schema.answer import Thoughts
from rubric_core.schema.trace import Trace
from rubric_core.traces.atif import ATIF_VERSION, atif_trace
from rubric_core.traces.chat import chat_trace
from rubric_core.traces.messages import listed
from rubric_core.traces.responses import responses_trace
from rubric_core.traces.verifiers import verifiers_trace

TraceFormat = Literal["verifiers", "responses", "atif", "messages"]
"""A format that is read: a trace of verifiers, items of OpenAI's Responses API as NeMo Gym has
them, ATIF, or OpenAI's chat messages."""
_ITEMS = ("function_call", "custom_tool_call", "mcp_call", "reasoning", "message")
"""Types of items of the Responses API; results end with `_output`."""
_CREATED = "responses_create_params"
"""NeMo Gym's key of what its model was asked."""
_SHAPES = (
    "messages of OpenAI with `role`, items or a `response` of its Responses API with `output`, a "
    "trace of verifiers with `nodes`, or a document of ATIF with `schema_version` and `steps`"
)
_AUTHORS = ("system", "developer", "user", "assistant", "tool", "function")
_SAID = ("content", "tool_calls", "function_call", "refusal")
"""Fields of which a chat message has one beside `role`."""
_PYTHON = re.compile(r"(?:array\()?\[\s*\{'(?:role|content)': ")
_PYTHON_END = re.compile(r"\}\s*\](?:,\s*dtype=object\s*\))?\s*\Z")
"""The beginning and the end of messages as Python writes them, and with it pandas in CSV."""
_TOLD_BY = {
    "message": "content",
    "function_call": "arguments",
    "custom_tool_call": "input",
    "mcp_call": "arguments",
    "reasoning": "summary",
}
"""A field that an item of the Responses API has beside its type; results have a `call_id`."""


class RecordedTrace(NamedTuple):
    """A trajectory that was read, and the format that it was read as."""

    trace: Trace
    format: TraceFormat


def format_of(trajectory: object) -> TraceFormat | None:
    """Return the format that a trajectory has by its fields; None if it has none of them."""
    value = listed(trajectory)
    if isinstance(value, Mapping):
        return _format_of_fields(cast("Mapping[str, object]", value))
    items = _mappings(value)
    are_messages = bool(items) and all("role" in item for item in items)
    # Some stacks give each message the type `message`, which is one of items too.
    if any(map(_is_item, items)) and not (are_messages and any(map(_calls, items))):
        return "responses"
    return "messages" if are_messages else None


def is_written_out(text: str) -> bool:
    """Return whether a text is surely a trajectory that was written as one text.

    It is JSON of a trajectory, or Python's own writing of messages: of a list, each with a known
    `role` and something said, one of them the assistant's; of another format, with the fields that
    only that format has: nodes with messages, and not those of a graph. Any other JSON may be an
    answer.
    """
    start = text.lstrip()
    if _PYTHON.match(start) and _PYTHON_END.search(start, max(0, len(start) - 100)):
        return "'assistant'" in start
    value = json_in(text)
    if not isinstance(value, Mapping):
        items = _mappings(value)
        is_list_of_items = any(map(_is_sure_item, items)) and all(
            "type" in item for item in items
        )
        return _are_sure_messages(items) or is_list_of_items
    return _is_sure_document(cast("Mapping[str, object]", value))


def _is_sure_document(fields: Mapping[str, object]) -> bool:
    match _format_of_fields(fields):
        case "messages":
            return _are_sure_messages(_mappings(fields["messages"]))
        case "responses":
            answer, asked = _answered(fields)
            items = _mappings(answer.get("output"))
            return bool(asked) or any(map(_is_sure_item, items))
        case "verifiers":
            traces = _mappings(fields["traces"]) if _is_episode(fields) else [fields]
            return any(map(_has_message_nodes, traces))
        case "atif":
            return str(fields["schema_version"]).startswith(ATIF_VERSION)
        case None:
            return False


def _has_message_nodes(fields: Mapping[str, object]) -> bool:
    nodes = _mappings(fields.get("nodes"))
    messages = [node.get("message") for node in nodes]
    return bool(messages) and all(
        isinstance(message, Mapping) and "role" in message for message in messages
    )


def _is_sure_item(fields: Mapping[str, object]) -> bool:
    return _is_item(fields) and _TOLD_BY.get(str(fields["type"]), "call_id") in fields


def _are_sure_messages(items: Sequence[Mapping[str, object]]) -> bool:
    return any(item.get("role") == "assistant" for item in items) and all(
        item.get("role") in _AUTHORS and any(name in item for name in _SAID)
        for item in items
    )


def json_in(value: object) -> object:
    """Return the list or the object that a text is JSON of; anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        document: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return document


def _format_of_fields(fields: Mapping[str, object]) -> TraceFormat | None:
    if _is_episode(fields) or isinstance(fields.get("nodes"), list):
        return "verifiers"
    if "schema_version" in fields and "steps" in fields:
        return "atif"
    if isinstance(fields.get("output"), list) or _CREATED in fields:
        return "responses"
    if isinstance(listed(fields.get("messages")), list):
        return "messages"
    return None


def _mappings(value: object) -> list[Mapping[str, object]]:
    """Return the items of a list, those that are no mappings as empty ones."""
    if not isinstance(value, list):
        return []
    items = cast("list[object]", value)
    return [
        cast("Mapping[str, object]", item if isinstance(item, Mapping) else {})
        for item in items
    ]


def recorded_trace(
    trajectory: object,
    *,
    prompt: object = (),
    thoughts: Thoughts = "cut",
    cut: bool = False,
) -> RecordedTrace:
    """Read a trajectory in whichever of the formats it is.

    Args:
        trajectory: messages; items of the Responses API, a response with them in `output`, or a row
            of NeMo Gym; a trace of verifiers, or an episode of one; a document of ATIF; or a
            mapping with `messages`.
        prompt: the messages or items before it, of the formats that hold none of their own.
        thoughts: as for `answer_of`.
        cut: whether its last calls may have no results, as those of rollouts that were stopped.

    Raises:
        SchemaError: none of the formats, or as the reader of the format.
    """
    kind = format_of(trajectory)
    if kind is None:
        raise SchemaError(
            f"{_shape(trajectory)} is no trajectory that is read: give {_SHAPES}",
            field="response",
        )
    fields: Mapping[str, object] = {}
    value = listed(trajectory)
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
    match kind:
        case "verifiers":
            whole = _one_trace(fields) if _is_episode(fields) else fields
            trace = verifiers_trace(whole, thoughts=thoughts, cut=cut or None)
        case "atif":
            trace = atif_trace(fields, thoughts=thoughts, cut=cut)
        case "responses":
            answer, asked = _answered(fields)
            output = answer.get("output") if fields else cast("object", value)
            trace = responses_trace(
                output, prompt=asked or prompt, thoughts=thoughts, cut=cut
            )
        case "messages":
            messages = fields.get("messages") if fields else cast("object", value)
            before = prompt or fields.get("prompt") or ()
            if isinstance(before, str):
                before = [{"role": "user", "content": before}]
            trace = chat_trace(messages, prompt=before, thoughts=thoughts, cut=cut)
    return RecordedTrace(trace, kind)


def _is_episode(fields: Mapping[str, object]) -> bool:
    return isinstance(fields.get("traces"), list) and "task" in fields


def _one_trace(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the one trace of an episode of verifiers.

    Raises:
        SchemaError: the episode has several traces, or none.
    """
    traces = _mappings(fields["traces"])
    if len(traces) != 1:
        raise SchemaError(
            f"the episode has {len(traces)} traces, and one response is judged at a time: give "
            "the trace of one agent in `response`",
            field="traces",
        )
    return traces[0]


def _answered(
    fields: Mapping[str, object],
) -> tuple[Mapping[str, object], object]:
    """Return the response of the Responses API with its `output`, and what was asked."""
    created = fields.get(_CREATED)
    asked: object = ()
    if isinstance(created, Mapping):
        asked = cast("Mapping[str, object]", created).get("input") or ()
    inner = fields.get("response")
    if not isinstance(fields.get("output"), list) and isinstance(inner, Mapping):
        return cast("Mapping[str, object]", inner), asked
    return fields, asked


def _is_item(fields: Mapping[str, object]) -> bool:
    kind = fields.get("type")
    return isinstance(kind, str) and (kind in _ITEMS or kind.endswith("_call_output"))


def _calls(message: Mapping[str, object]) -> bool:
    """Return whether a message calls a tool, or is its result, as only chat messages do."""
    return bool(message.get("tool_calls")) or message.get("role") == "tool"


def _shape(trajectory: object) -> str:
    """Say what something is, without a text of it."""
    if isinstance(trajectory, Mapping):
        fields = cast("Mapping[str, object]", trajectory)
        # Names of fields, and no text that somebody made a key.
        names = sorted(str(name) for name in fields if str(name).isidentifier())
        shown = ", ".join(shortened(name, 30) for name in names[:8])
        return f"an object with {shown or 'no field of these'}"
    if isinstance(trajectory, list):
        items = _mappings(cast("object", trajectory))
        if not items:
            return "an empty list"
        if all(items):
            return "a list of objects that do not all have a `role`"
        return "a list of something else than objects"
    return f"a value of the type {type(trajectory).__name__}"
