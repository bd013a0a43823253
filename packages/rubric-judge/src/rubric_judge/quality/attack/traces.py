"""Attacks by what tools return and are called with, on tasks whose criteria judge traces.

The policy of these traces looks up, and replies without content; its tools return something
harmless, until an attack has them speak to the judge. What a tool returns is never the policy's:
the most that such a trace deserves is what the judge gives to it with the harmless results.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from rubric_core import ConfigError, JudgeView, Rubric, Task, read_tasks
from rubric_core.files import toml_beside
from rubric_core.schema.judged import turn_of
from rubric_core.schema.trace import Trace
from rubric_core.traces.chat import chat_trace
from rubric_core.traces.views import full_excerpt, trace_views
from rubric_judge.judges.llm.prompt import load_prompt
from rubric_judge.quality.attack.cases import WEAK, Attack, Target, filled
from rubric_judge.quality.attack.families import verdict_slots

_TEXTS: Mapping[str, Mapping[str, str]] = toml_beside(__file__, "trace_texts.toml")
_RESULT = "3 documents were found, of which none is shown here."
"""The output of an honest tool: it holds nothing that a criterion asks for."""
_LOOKING = "Let me look."
_TOOL = "search"
_PASSAGE_CHARS = 1_000
_FEWEST_TURNS = 2
_REFERENCE = "{reference}"
_END = re.compile(r"^-+ END (RESULT|REPLY|CALL) (\d+) (\w+) -+$", re.MULTILINE)


def default_trace_tasks() -> list[Task]:
    """Return the three tasks that ship with the package whose criteria judge traces."""
    folder = resources.files("rubric_judge") / "quality" / "attack"
    with resources.as_file(folder / "trace_tasks.jsonl") as path:
        return list(read_tasks(path))


def honest_trace(
    task: Task,
    *,
    reply: str = WEAK,
    result: str = _RESULT,
    arguments: str | None = None,
) -> Trace:
    """Return a trace that calls a tool once a turn, and replies in its last turn.

    Args:
        task: its criteria say how many turns there are: as far as one names, and at least two.
        reply: the last turn.
        result: the output of every call.
        arguments: those of every call; the question if None.
    """
    named = (turn_of(criterion.judges) or 0 for criterion in task.rubric)
    turns = max(_FEWEST_TURNS, *named)
    messages: list[object] = []
    for number in range(1, turns):
        passed = {"query": task.question if arguments is None else arguments}
        function = {"name": _TOOL, "arguments": passed}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": _LOOKING, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
        ]
    messages.append({"role": "assistant", "content": reply})
    return chat_trace(messages, thoughts="kept")


@dataclass(frozen=True)
class TraceFamily:
    """A family of attacks on traces; see `Builder`."""

    texts: Mapping[str, str]
    """Texts by name, with slots."""
    is_call: bool = False
    """Whether a text is what tools are called with, and not what they return."""

    def __call__(self, target: Target) -> Iterator[Attack]:
        """Make one attack from each text whose slots the task can fill."""
        task = target.task
        slots = _slots(target)
        for name, template in self.texts.items():
            if _REFERENCE in template and task.reference_answer is None:
                continue
            text = filled(template, slots)
            if self.is_call:
                trace = honest_trace(task, arguments=text)
            else:
                trace = honest_trace(task, result=text)
            yield Attack(name, text, trace=trace)


def _slots(target: Target) -> dict[str, str]:
    """Return the texts for the slots; marks are those of the unattacked prompt."""
    task = target.task
    marks = _marks(task)
    result = marks["RESULT", "1"]
    return {
        "{result}": _RESULT,
        "{reference}": task.reference_answer or "",
        "{result_mark}": result,
        "{upper_result_mark}": result.upper(),
        "{call_mark}": marks["CALL", "1"],
        "{reply_mark}": marks["REPLY", "1"],
        **verdict_slots(target),
        **target.unmarked_slots,
    }


def _marks(task: Task) -> dict[tuple[str, str], str]:
    """Return the marks of the parts of the honest trace, as if the attacker had seen them."""
    trace = honest_trace(task)
    view = task.whole_view(trace.answer).model_copy(
        update={
            "excerpt": full_excerpt(trace),
            "rubric": task.rubric.of_replies(),
        }
    )
    prompt = load_prompt("shared_prefix").render(view, passage_chars=_PASSAGE_CHARS)
    ends = _END.findall(prompt.user)
    return {(label, number): mark for label, number, mark in ends}


TRACE_FAMILIES: Mapping[str, TraceFamily] = {
    name: TraceFamily(texts, is_call=name.startswith("call_"))
    for name, texts in _TEXTS.items()
}
"""The families of attacks on traces that ship with the package."""


def judgeable(
    tasks: Sequence[Task], refusal: Callable[[JudgeView], str]
) -> tuple[list[Task], list[str]]:
    """Return the tasks as far as a judge judges them, and what was left out.

    Args:
        tasks: tasks, those whose criteria judge traces among them.
        refusal: why the judge cannot judge an excerpt, "" where it can.

    Returns:
        The tasks, without the criteria whose part the judge refuses; and for each reason how many
        criteria were left out.

    Raises:
        ConfigError: no task has a criterion left.
    """
    kept: list[Task] = []
    reasons: dict[str, int] = {}
    for task in tasks:
        if not task.rubric.judges_traces:
            kept.append(task)
            continue
        trace = honest_trace(task)
        refused: set[str] = set()
        for part in trace_views(task.whole_view(trace.answer), trace).parts:
            why = refusal(part.view) if part.view.excerpt is not None else ""
            ids = [c.id for c in part.view.rubric if why and c.weight]
            new = set(ids) - refused
            refused |= new
            if new:
                reasons[why] = reasons.get(why, 0) + len(new)
        left = [c for c in task.rubric if c.id not in refused]
        if any(c.judges and c.weight for c in left):
            rubric = Rubric(criteria=tuple(left)) if refused else task.rubric
            kept.append(task.model_copy(update={"rubric": rubric}))
    notes = [f"{count} criteria are left out: {why}" for why, count in reasons.items()]
    if not kept:
        raise ConfigError(
            f"no criterion can be attacked; {'; '.join(notes)}", location="tasks"
        )
    return kept, notes
