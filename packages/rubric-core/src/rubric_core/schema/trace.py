"""A trace: what a policy, its users and its tools said, in order; and excerpts for a judge."""

import json
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, Self

from pydantic import model_validator

from rubric_core.errors import shortened
from rubric_core.schema.answer import Answer, Thought
from rubric_core.schema.judged import TOOL_USE
from rubric_core.schema.sealed import Count, Hidden, Identifier, Many, Sealed, Text

_ID_CHARS = 80
"""Characters of an id that an error shows; those of OpenAI have some 30."""


class ToolCall(Sealed):
    """A call of a tool, as the policy wrote it."""

    id: Text = ""
    """The id that its result names; "" where the trace holds results that name no call."""

    name: Hidden[Text] = ""
    """The tool's name."""

    arguments: Hidden[Text] = ""
    """The arguments: JSON as a rule, but the policy may have written anything."""

    @property
    def text(self) -> str:
        """The call as one text, `name(arguments)`."""
        return f"{self.name}({self.arguments})"


Role = Literal["system", "user", "assistant", "tool"]


class TraceStep(Sealed):
    """One message of a trace; its thought is no part of it.

    `repr` and `model_dump` leave out all texts.
    """

    role: Role
    """The author of the message."""

    text: Hidden[Text] = ""
    """The message; of an assistant the answer, without its thought."""

    thought: Thought = Thought.NONE
    """Whether the policy wrote a thought before the text."""

    calls: Many[ToolCall] = ()
    """The tools that an assistant calls."""

    sampled: bool = False
    """Whether the policy wrote the message; an assistant's message of a prompt is not its own."""

    call_id: Text = ""
    """The id of the call that a tool answers; "" where what it returned names no call."""

    @model_validator(mode="after")
    def _fits_its_role(self) -> Self:
        is_reply = self.role == "assistant"
        if not is_reply and (self.calls or self.sampled):
            raise ValueError(
                f"only an assistant calls tools or is sampled, not the role {self.role!r}"
            )
        if self.role != "tool" and self.call_id:
            raise ValueError(f"only a tool has a call_id, not the role {self.role!r}")
        return self


def _shown(call_id: str) -> str:
    """Return an id as an error shows it, of which a damaged one may hold anything."""
    return repr(shortened(call_id, _ID_CHARS))


def _matched(steps: Sequence[TraceStep], *, cut: bool) -> None:
    """Refuse calls without a result, and results without a call.

    Raises:
        ValueError: one of these; pydantic expects this class.
    """
    open_calls: dict[str, int] = {}
    last_reply = max(n for n, step in enumerate(steps) if step.sampled)
    for number, step in enumerate(steps):
        if step.role == "tool" and step.call_id:
            if step.call_id not in open_calls:
                raise ValueError(
                    f"steps.{number} is the result of a tool call "
                    f"{_shown(step.call_id)} that no step before it makes, or that has its "
                    "result: give the trace whole, with the assistant's `tool_calls`"
                )
            del open_calls[step.call_id]
        counts = Counter(call.id for call in step.calls)
        del counts[""]
        for call_id, count in counts.items():
            if count > 1 or call_id in open_calls:
                raise ValueError(
                    f"steps.{number} makes a tool call {_shown(call_id)} while another "
                    "one of this id has no result: give each call an id of its own"
                )
            open_calls[call_id] = number
    for call_id, number in open_calls.items():
        if number < last_reply or not cut:
            raise ValueError(
                f"steps.{number} makes a tool call {_shown(call_id)} that has no result: give the "
                "tool's message, or say `cut` if the last turn was cut before it"
            )


class Trace(Sealed):
    """The messages of one trajectory in order, with the calls and results of tools matched by id.

    A turn is one message that the policy sampled; turns are numbered from 1.

    Raises:
        SchemaError: no turn of the policy; a call without a result or a result without a call; two
            open calls of one id.
    """

    steps: Many[TraceStep]
    """The messages, those of the prompt first."""

    cut: bool = False
    """Whether it was ended from outside: its last turn may have calls without results."""

    @model_validator(mode="after")
    def _well_formed(self) -> Self:
        if not any(step.sampled for step in self.steps):
            raise ValueError(
                f"the trace is empty: none of its {len(self.steps)} steps is a turn that the "
                "policy wrote"
            )
        _matched(self.steps, cut=self.cut)
        return self

    @property
    def turns(self) -> tuple[TraceStep, ...]:
        """The messages that the policy wrote, in order."""
        return tuple(step for step in self.steps if step.sampled)

    @property
    def answer(self) -> Answer:
        """The last reply, which is what criteria judge that say nothing else."""
        last = self.turns[-1]
        return Answer(last.text, last.thought)


class PartKind(StrEnum):
    """The author of a part of an excerpt, and whether it is judged."""

    USER = "user"
    """A user's or a system's words after the prompt."""
    EARLIER = "earlier_reply"
    """The policy's words before the judged part, shown for what came of them."""
    EARLIER_CALL = "earlier_call"
    """A call of a tool before the judged part."""
    REPLY = "reply"
    """The policy's words, judged."""
    CALL = "call"
    """A call of a tool, judged."""
    RESULT = "result"
    """The output of a tool: untrusted, and never judged."""

    @property
    def is_judged(self) -> bool:
        """Whether criteria are about it."""
        return self in (PartKind.REPLY, PartKind.CALL)


class ExcerptPart(Sealed):
    """One text of an excerpt."""

    kind: PartKind
    """Its author, and whether it is judged."""

    turn: Count
    """The turn of the policy that it belongs to or follows, from 1; 0 before the first."""

    text: Hidden[Text]
    """The text, untrusted."""


class Excerpt(Sealed):
    """The part of a trace that some criteria judge, with what a judge needs to understand it."""

    judges: Identifier
    """The part that is judged, as `Criterion.judges` names it."""

    parts: Many[ExcerptPart]
    """Texts in order."""

    @property
    def has_judged(self) -> bool:
        """Whether there is something to judge; that no tool was called is also something."""
        return self.judges == TOOL_USE or any(p.kind.is_judged for p in self.parts)

    @property
    def judged_text(self) -> str:
        """The judged parts as one text, where a judge's quotes may stand."""
        return "\n\n".join(part.text for part in self.parts if part.kind.is_judged)

    @property
    def identity(self) -> str:
        """All of it as one text, for keys."""
        parts = [[part.kind.value, part.turn, part.text] for part in self.parts]
        return json.dumps([self.judges, parts])
