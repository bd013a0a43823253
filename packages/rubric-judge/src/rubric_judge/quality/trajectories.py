"""Trajectories in files of responses: found in a row, judged by what criteria name, and shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from rubric_core import Answer, JudgeResult, JudgeView, SchemaError, Task, Thoughts
from rubric_core.rows import ClosedRow
from rubric_core.schema.judged import EVERY_TURN, FULL_TRACE, TOOL_USE, turn_of
from rubric_core.schema.trace import Excerpt, ExcerptPart, PartKind, Trace
from rubric_core.traces.recorded import (
    RecordedTrace,
    TraceFormat,
    format_of,
    json_in,
    recorded_trace,
)
from rubric_core.traces.views import TraceViews, answer_view, full_excerpt, trace_views

_COLUMNS = ("response", "text", "completion")
_ASKED = "responses_create_params"
"""NeMo Gym's column of what its model was asked, beside `response`."""
_CONTAINERS = ("messages", "nodes", "steps", "traces", "output", _ASKED)
"""Columns of rows that are a trajectory themselves."""
_HEADINGS: Mapping[PartKind, str] = {
    PartKind.USER: "user",
    PartKind.EARLIER: "earlier reply",
    PartKind.EARLIER_CALL: "earlier call",
    PartKind.REPLY: "reply",
    PartKind.CALL: "call",
    PartKind.RESULT: "result",
}
"""Authors of the parts of an excerpt, as people read them."""


class TrajectoryRow(NamedTuple):
    """A trajectory in a row of a file, not read yet."""

    task_id: object
    trajectory: object
    prompt: object
    column: str
    """Column that holds it; of a row that is one itself, the one that tells."""

    def ending(self, thoughts: Thoughts) -> Answer | None:
        """Return the reply that it ends with; None where it ends otherwise, or is not read."""
        try:
            trace = self.read(thoughts).trace
        except SchemaError:
            return None
        return trace.answer if trace.steps[-1].sampled else None

    def read(self, thoughts: Thoughts) -> RecordedTrace:
        """Read it; a call of its last turn may have no result, as in rollouts that were stopped.

        Raises:
            SchemaError: a format that is not known, or a damaged trajectory.
        """
        return recorded_trace(
            self.trajectory, prompt=self.prompt, thoughts=thoughts, cut=True
        )


class TraceRecord(ClosedRow):
    """Parts of a trajectory that were judged, without texts: a part of a line of judgements."""

    format: TraceFormat
    """The format that it was read as."""
    turns: int
    """Messages that the policy wrote."""
    calls: int
    """Calls of tools that it made."""
    judged: dict[str, str]
    """Part that the score of each criterion is of, by its id; `missing` where the policy did not
    take the turn."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A response of a file, or a trajectory, with what the judge sees of it."""

    line: int
    """Line of the file, from 1."""
    views: TraceViews
    recorded: RecordedTrace | None = None
    """The trajectory; None for a response of one text."""

    @property
    def view(self) -> JudgeView:
        """The view as people read it: the response of a trajectory is the text of all of it."""
        if self.recorded is None:
            return self.views.whole
        text = trace_text(self.recorded.trace)
        return self.views.whole.model_copy(update={"response": text})


MISSING = "missing"
"""The part that a criterion judged whose turn is not there."""


def views_of(task: Task, read: RecordedTrace) -> TraceViews:
    """Return the views of a trajectory of a policy that decides how many turns it takes.

    A criterion whose turn it did not take scores 0, as in training.
    """
    return views_in(task.whole_view(read.trace.answer), read)


def views_in(whole: JudgeView, read: RecordedTrace) -> TraceViews:
    """Return the views of a trajectory, as `views_of`.

    Args:
        whole: the last reply with all criteria.
        read: the trajectory.
    """
    if not whole.rubric.judges_traces:
        return answer_view(whole)
    return trace_views(whole, read.trace, missing_turn="zero")


def views_of_all(submitted: Sequence[Submitted]) -> list[JudgeView]:
    """Return the views to judge: one of each response, and those of each trajectory."""
    return [view for item in submitted for view in item.views.views]


def trace_record(item: Submitted, results: Sequence[JudgeResult]) -> TraceRecord:
    """Return what was judged of a trajectory.

    Args:
        item: the trajectory.
        results: one for each of its views.

    Raises:
        ValueError: the response is one text.
    """
    if item.recorded is None:
        raise ValueError("the response is one text")
    turns = item.recorded.trace.turns
    missing = dict.fromkeys(item.views.missing, MISSING)
    return TraceRecord(
        format=item.recorded.format,
        turns=len(turns),
        calls=sum(len(turn.calls) for turn in turns),
        judged=item.views.judged(results) | missing,
    )


def trajectory_in(row: object) -> TrajectoryRow | None:
    """Return the trajectory of a row whose response is no text; None where there is none.

    It is in the column of the response; or the row is one itself, as a line of `traces.jsonl` of
    verifiers, a row of NeMo Gym, a document of ATIF, or one with `messages`. A column that no text
    can stand in may hold JSON of a list or an object.
    """
    if not isinstance(row, Mapping):
        return None
    fields = _opened(cast("Mapping[str, object]", row))
    column = next((name for name in _COLUMNS if fields.get(name) is not None), None)
    own = None if column is None else fields[column]
    if column is None or (isinstance(own, Mapping) and _ASKED in fields):
        return _row_itself(fields)
    if not isinstance(own, list | dict):
        return None
    prompt = fields.get("prompt") or ()
    return TrajectoryRow(_task_id(fields), cast("object", own), prompt, column)


def trajectory_beside(row: object) -> TrajectoryRow | None:
    """Return the trajectory that a row holds in another column than that of its response."""
    if not isinstance(row, Mapping):
        return None
    fields = _opened(cast("Mapping[str, object]", row))
    column = next((name for name in _COLUMNS if fields.get(name) is not None), None)
    if column is None or (isinstance(fields[column], Mapping) and _ASKED in fields):
        return None
    others = {
        name: value
        for name, value in fields.items()
        if name != column and not (name in _COLUMNS and isinstance(value, str))
    }
    return trajectory_in(others)


def _row_itself(fields: Mapping[str, object]) -> TrajectoryRow | None:
    if format_of(fields) is None:
        return None
    column = next(name for name in _CONTAINERS if name in fields)
    return TrajectoryRow(_task_id(fields), fields, (), column)


def _opened(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the fields with the lists and objects that columns of them hold as JSON text."""
    columns = [*_CONTAINERS, "completion"]
    if _ASKED in fields:
        columns += ["response"]
    texts = {name: fields[name] for name in columns if name in fields}
    opened = {name: json_in(value) for name, value in texts.items()}
    prompt = json_in(fields.get("prompt"))
    if format_of(prompt) == "messages":
        opened["prompt"] = prompt
    return {**fields, **opened}


def refuse_unread(row: object) -> None:
    """Refuse a row without a response whose column for messages is a text, and no JSON of them.

    Raises:
        ValueError: it is one.
    """
    if not isinstance(row, Mapping):
        return
    fields = cast("Mapping[str, object]", row)
    if any(fields.get(name) is not None for name in ("response", "text")):
        return
    texts = [name for name in _CONTAINERS if isinstance(fields.get(name), str)]
    if texts:
        raise ValueError(
            f"{texts[0]!r} is a text that is no JSON of a list or an object: write it as JSON "
            "(pandas writes lists into CSV in Python's way, which `ast.literal_eval` reads)"
        )


def _task_id(fields: Mapping[str, object]) -> object:
    """Return the id of a row's task; in an episode of verifiers it is in the task's data."""
    if "task_id" in fields:
        return fields["task_id"]
    data = fields.get("task")
    if isinstance(data, Mapping):
        data = cast("Mapping[str, object]", data).get("data")
    if isinstance(data, Mapping):
        own = cast("Mapping[str, object]", data)
        return own.get("task_id") or own.get("id")
    return None


def heading(part: ExcerptPart) -> str:
    """Return who wrote a part, and in which turn, such as `result 2`."""
    return f"{_HEADINGS[part.kind]} {part.turn}"


def excerpt_text(excerpt: Excerpt) -> str:
    """Return all parts of an excerpt as one text, each below its heading."""
    if not excerpt.parts:
        return "[no call of a tool]"
    return "\n\n".join(f"[{heading(part)}]\n{part.text}" for part in excerpt.parts)


def judged_places(parts: Sequence[ExcerptPart], judges: str | None) -> list[int]:
    """Return the places of the parts that a criterion judges.

    Args:
        parts: those of the whole trace.
        judges: the criterion's, None for the last reply.
    """
    last = max((part.turn for part in parts if part.kind.is_judged), default=0)
    own: dict[int, PartKind] = {
        place: part.kind for place, part in enumerate(parts) if part.kind.is_judged
    }
    if judges == TOOL_USE:
        return [place for place, kind in own.items() if kind is PartKind.CALL]
    if judges == FULL_TRACE:
        return list(own)
    turns = {turn_of(judges)}
    if judges is None:
        own = {place: kind for place, kind in own.items() if kind is PartKind.REPLY}
        turns = {last}
    elif judges == EVERY_TURN:
        spoken = {part.turn for part in parts if part.kind is PartKind.REPLY}
        turns = spoken or {part.turn for part in parts}
    return [place for place in own if parts[place].turn in turns]


def shown_parts(item: Submitted) -> str:
    """Return what the judge saw of a trajectory, for each part and the criteria that judge it."""
    shown: list[str] = []
    for part in item.views.parts:
        weighed = [c.id for c in part.view.rubric if c.weight]
        excerpt = part.view.excerpt
        text = part.view.response if excerpt is None else excerpt_text(excerpt)
        shown.append(f"== {part.judges}: {', '.join(weighed)}\n{text}")
    return "\n\n".join(shown)


def trace_text(trace: Trace) -> str:
    """Return a trace as one text; a single reply without tools is that reply."""
    excerpt = full_excerpt(trace)
    if len(excerpt.parts) <= 1 and all(
        part.kind is PartKind.REPLY for part in excerpt.parts
    ):
        return trace.answer.text
    return excerpt_text(excerpt)
