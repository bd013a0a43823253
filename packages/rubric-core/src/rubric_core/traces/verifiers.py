"""Traces of verifiers: the final branch of its graph of messages, which it calls `full_trace`.

Source: verifiers 0.4, `verifiers.v1.trace` and `verifiers.v1.graph`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from rubric_core.errors import SchemaError
from rubric_core.schema.answer import Thoughts
from rubric_core.schema.trace import Trace, TraceStep
from rubric_core.traces.chat import chat_trace
from rubric_core.traces.messages import messages_in


def verifiers_trace(
    trace: Any, *, thoughts: Thoughts = "cut", cut: bool | None = None
) -> Trace:
    """Read a trace of verifiers.

    Args:
        trace: a `Trace` of verifiers, or its record as a mapping. Assistants' messages that are not
            `sampled` belong to the prompt. Of several branches, the final one counts.
        thoughts: as for `answer_of`; `reasoning_content` is a thought too.
        cut: whether the rollout was ended from outside; left out, what `is_truncated` says.

    Raises:
        SchemaError: something else than a trace, or as `Trace`.
    """
    nodes = _field(trace, "nodes")
    if not isinstance(nodes, Sequence) or not nodes:
        raise SchemaError(
            "a trace of verifiers has `nodes`, and here are none", field="nodes"
        )
    path = final_branch(cast("Sequence[object]", nodes))
    messages: list[Mapping[str, object]] = []
    sampled: list[bool] = []
    for number in path:
        node = cast("Sequence[object]", nodes)[number]
        messages.append(_mapping(_field(node, "message")))
        sampled.append(bool(_field(node, "sampled")))
    if cut is None:
        cut = _is_truncated(trace)
    if not any(sampled):
        raise SchemaError(
            f"the trace is empty: the model wrote none of its {len(messages)} messages",
            field="nodes",
        )
    # Messages before the first sampled one are the prompt; others that are not sampled stand
    # between turns, such as an assistant's that a harness made up.
    first = sampled.index(True)
    read = chat_trace(
        messages[first:], prompt=messages[:first], thoughts=thoughts, cut=cut
    )
    pairs = zip(messages[first:], sampled[first:], strict=True)
    turns = iter([own for each, own in pairs if each.get("role") == "assistant"])
    steps = [
        step if not step.sampled or next(turns) else _not_own(step)
        for step in read.steps
    ]
    return Trace(steps=tuple(steps), cut=cut)


def final_branch(nodes: Sequence[object]) -> list[int]:
    """Return the places of the nodes on the way from a root to the last leaf."""
    path: list[int] = []
    place: object = len(nodes) - 1
    while isinstance(place, int):
        if not 0 <= place < len(nodes) or len(path) > len(nodes):
            raise SchemaError(
                f"nodes.{place} is no node that a message can follow: the record is damaged",
                field="nodes",
            )
        path.append(place)
        place = _field(nodes[place], "parent")
    return path[::-1]


def _is_truncated(trace: Any) -> bool:
    if not isinstance(trace, Mapping):
        return bool(getattr(trace, "is_truncated", False))
    record = cast("Mapping[str, object]", trace)
    stop = str(record.get("stop_condition") or "")
    if stop.startswith("max_") or stop == "compaction_failed":
        return True
    calls = messages_in(record.get("calls") or (), role="calls")
    ends = [call.get("finish_reason") for call in calls if call.get("error") is None]
    return ends[-1:] == ["length"]


def _not_own(step: TraceStep) -> TraceStep:
    return step.model_copy(update={"sampled": False})


def _field(value: Any, name: str) -> object:
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return getattr(value, name, None)


def _mapping(message: object) -> Mapping[str, object]:
    if isinstance(message, Mapping):
        return cast("Mapping[str, object]", message)
    dump = getattr(message, "model_dump", None)
    if dump is None:
        raise SchemaError("a node of the trace holds no message", field="nodes")
    return cast("Mapping[str, object]", dump())
