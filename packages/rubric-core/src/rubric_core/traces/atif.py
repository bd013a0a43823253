"""Traces of ATIF, the Agent Trajectory Interchange Format that Harbor's agents write.

Source: harbor 0.26, `harbor.models.trajectories` (ATIF 1.0 to 1.8).
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import cast

from rubric_core.errors import SchemaError, shortened
from rubric_core.schema.answer import Thoughts
from rubric_core.schema.trace import Role, ToolCall, Trace, TraceStep
from rubric_core.traces.chat import arguments_text, reply_step, seen_text
from rubric_core.traces.messages import messages_in, readable

ATIF_VERSION = "ATIF-v1."
_NO_CALL = "\0"


def atif_trace(
    document: Mapping[str, object], *, thoughts: Thoughts = "cut", cut: bool = False
) -> Trace:
    """Read a trajectory, as the file `trajectory.json` holds it.

    A step of the agent is a turn, unless it was copied for context or made without a model. What a
    step observed answers all of its calls: Harbor's Terminus links nothing to several commands at
    once, nor to the call that ends a task. Trajectories that it refers to are not part of it.

    Args:
        document: the file's content.
        thoughts: as for `answer_of`; `reasoning_content` is a thought too.
        cut: whether the trajectory was ended from outside, so that its last calls have no results.

    Raises:
        SchemaError: another format, a part of a longer trajectory, or as `Trace`.
    """
    version = document.get("schema_version")
    if not isinstance(version, str) or not version.startswith(ATIF_VERSION):
        raise SchemaError(
            f"schema_version is {shortened(str(version), 40)!r}, and {ATIF_VERSION}x is read: give "
            "the trajectory.json of an agent",
            field="schema_version",
        )
    if document.get("continued_trajectory_ref"):
        raise SchemaError(
            "continued_trajectory_ref: the trajectory goes on in another file: join the two, or "
            "leave the reference out to judge this part alone",
            field="continued_trajectory_ref",
        )
    steps: list[TraceStep] = []
    for place, step in enumerate(messages_in(document.get("steps"), role="steps")):
        steps += _steps(step, place, thoughts)
    return Trace(steps=tuple(steps), cut=cut)


def _steps(
    step: Mapping[str, object], place: int, thoughts: Thoughts
) -> list[TraceStep]:
    results = _results(step, place)
    source = step.get("source")
    match source:
        case "agent":
            calls = _calls(step, {result.call_id for result in results})
            sampled = (
                not step.get("is_copied_context") and step.get("llm_call_count") != 0
            )
            message = {
                "content": seen_text(step, "message"),
                "reasoning_content": step.get("reasoning_content"),
            }
            own = reply_step(
                message, calls, thoughts=thoughts, opened=False, sampled=sampled
            )
        case "user" | "system":
            role: Role = "user" if source == "user" else "system"
            own = TraceStep(role=role, text=seen_text(step, "message"))
        case _:
            raise SchemaError(
                f"steps.{place}.source is {shortened(str(source), 40)!r}, and must be "
                "'system', 'user' or 'agent'",
                field=f"steps.{place}.source",
            )
    return [own, *results]


def _calls(step: Mapping[str, object], linked: set[str]) -> list[ToolCall]:
    """Return the calls of a step, with the ids that its results name."""
    listed = step.get("tool_calls")
    if listed is None:
        return []
    calls: list[ToolCall] = []
    for call in messages_in(listed, role="tool_calls"):
        call_id = str(call.get("tool_call_id") or "")
        if linked and call_id not in linked:
            call_id = ""
        calls.append(
            ToolCall(
                id=call_id,
                name=readable(str(call.get("function_name") or "")),
                arguments=arguments_text(call.get("arguments")),
            )
        )
    return calls


def _results(step: Mapping[str, object], place: int) -> list[TraceStep]:
    observation = step.get("observation")
    if observation is None:
        return []
    if not isinstance(observation, Mapping):
        raise SchemaError(
            f"steps.{place}.observation is of the type {type(observation).__name__}, and what "
            "tools returned would be left out: write an object with `results`",
            field=f"steps.{place}.observation",
        )
    results = cast("Mapping[str, object]", observation).get("results")
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for number, result in enumerate(messages_in(results, role="results")):
        # Several results of one call are its result; those of no call stay apart.
        call_id = str(result.get("source_call_id") or "")
        texts[call_id or f"{_NO_CALL}{number}"].append(seen_text(result))
    return [
        TraceStep(
            role="tool",
            text="\n".join(parts),
            call_id="" if call_id.startswith(_NO_CALL) else call_id,
        )
        for call_id, parts in texts.items()
    ]
