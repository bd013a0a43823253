"""Traces of items of OpenAI's Responses API, as NeMo Gym records them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rubric_core.errors import SchemaError, shortened
from rubric_core.schema.answer import Thoughts
from rubric_core.schema.trace import ToolCall, Trace, TraceStep
from rubric_core.traces.chat import arguments_text, reply_step, seen_text
from rubric_core.traces.messages import messages_in, readable, reply_text

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Types of calls that the client executes, with the field of what is passed."""
_RESULTS = ("function_call_output", "custom_tool_call_output")
_THOUGHTS = "reasoning"
_HOSTED = "mcp_call"
"""A call that the server executed: call and result are one item."""
_NO_RESULT = "[no result of its own]"
"""The result of a call that has none beside others of its turn that have one."""


class _Reply:
    """The items of one turn, which become one step."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.thoughts: list[object] = []
        self.calls: list[ToolCall] = []
        self.results: list[TraceStep] = []

    def __bool__(self) -> bool:
        return bool(self.texts or self.thoughts or self.calls)


def responses_trace(
    output: object,
    *,
    prompt: object = (),
    thoughts: Thoughts = "cut",
    opened: bool = False,
    cut: bool = False,
) -> Trace:
    """Read the items of a trajectory.

    A turn is a run of `reasoning`, `message` and `function_call` items up to the next result of a
    tool or message of a user, so that calls made at once are of one turn. Where an earlier turn has
    results of some of its calls alone, the others are said to have none of their own: NeMo Gym
    writes one screen of Harbor's Terminus for all commands of a step, as the first one's.

    Args:
        output: the items after the prompt: `response.output` of NeMo Gym's `/verify`.
        prompt: the items that were given, `responses_create_params.input`, or a text.
        thoughts: as for `answer_of`; `reasoning` items are thoughts too.
        opened: whether the template opens a thought before each turn.
        cut: whether the trajectory was ended from outside, so that its last calls have no results.

    Raises:
        SchemaError: something else than items, an item of a type that is not read, or as `Trace`.
    """
    before = (
        [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    )
    steps: list[TraceStep] = []
    for items, sampled in ((before, False), (output, True)):
        reply = _Reply()
        name = "output" if sampled else "input"
        for place, item in enumerate(messages_in(items, role=name)):
            if _added(reply, item):
                continue
            steps += _ended(reply, thoughts, opened=opened, sampled=sampled)
            reply = _Reply()
            steps.append(_other(item, where=f"{name}.{place}"))
        steps += _ended(reply, thoughts, opened=opened, sampled=sampled)
    return Trace(steps=tuple(_answered(steps)), cut=cut)


def _answered(steps: Sequence[TraceStep]) -> Iterator[TraceStep]:
    """Yield the steps, with a result for calls that have none beside others that have one."""
    later = Counter(step.call_id for step in steps if step.role == "tool")
    missing: list[TraceStep] = []
    for step in steps:
        if step.role != "tool":
            yield from missing
            missing = []
        if step.calls and any(later[call.id] for call in step.calls):
            missing = [
                TraceStep(role="tool", text=_NO_RESULT, call_id=call.id)
                for call in step.calls
                if call.id and not later[call.id]
            ]
        if step.role == "tool":
            later[step.call_id] -= 1
        yield step


def _added(reply: _Reply, item: Mapping[str, object]) -> bool:
    """Add an item to the turn that it is of; return whether it is one of an assistant."""
    kind = item.get("type")
    if kind == _THOUGHTS:
        reply.thoughts.append(item)
    elif isinstance(kind, str) and kind in _CALLS:
        arguments = item.get(_CALLS[kind])
        reply.calls.append(_call(item, str(item.get("call_id") or ""), arguments))
    elif kind == _HOSTED:
        call_id = str(item.get("id") or f"{_HOSTED}_{len(reply.calls)}")
        reply.calls.append(_call(item, call_id, item.get("arguments")))
        texts = (item.get(name) for name in ("output", "error"))
        text = next((text for text in texts if text not in (None, "")), None)
        reply.results.append(
            TraceStep(role="tool", text=arguments_text(text), call_id=call_id)
        )
    elif item.get("role") == "assistant":
        if item.get("tool_calls"):
            raise SchemaError(
                "an item of the assistant has `tool_calls`, as chat messages do, beside items of "
                "the Responses API: write each call as an item `function_call`",
                field="tool_calls",
            )
        reply.texts.append(reply_text(item))
    else:
        return False
    return True


def _call(item: Mapping[str, object], call_id: str, arguments: object) -> ToolCall:
    return ToolCall(
        id=call_id,
        name=readable(str(item.get("name") or "")),
        arguments=arguments_text(arguments),
    )


def _ended(
    reply: _Reply, thoughts: Thoughts, *, opened: bool, sampled: bool
) -> list[TraceStep]:
    """Return the step of a turn, with the results of the calls that the server executed."""
    if not reply:
        return []
    message: dict[str, object] = {"content": "\n\n".join(filter(None, reply.texts))}
    if reply.thoughts:
        message["reasoning"] = json.loads(json.dumps(reply.thoughts, default=str))
    step = reply_step(
        message, reply.calls, thoughts=thoughts, opened=opened, sampled=sampled
    )
    return [step, *reply.results]


def _other(item: Mapping[str, object], *, where: str) -> TraceStep:
    kind = item.get("type")
    if kind in _RESULTS:
        call_id = str(item.get("call_id") or "")
        if not call_id:
            raise SchemaError(
                f"{where} is the result of a tool and names no call: give it the `call_id`",
                field=where,
            )
        return TraceStep(role="tool", text=seen_text(item, "output"), call_id=call_id)
    role = item.get("role")
    if role == "user":
        return TraceStep(role="user", text=seen_text(item))
    if role in ("system", "developer"):
        return TraceStep(role="system", text=seen_text(item))
    raise SchemaError(
        f"{where} is an item of the type {shortened(str(kind), 40)!r}, which is not read: "
        "`reasoning`, `message`, `function_call`, `custom_tool_call`, `mcp_call` and "
        "the outputs of calls are",
        field=where,
    )
