"""Attacks, their texts, and the tasks that they target."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from rubric_core import Grounding, JudgeView, Task
from rubric_core.files import toml_beside
from rubric_core.schema.trace import Trace
from rubric_core.traces.views import TraceViews, answer_view, trace_views
from rubric_judge.judges.llm.prompt import load_prompt
from rubric_judge.quality.trajectories import trace_text
from rubric_judge.quality.wrong_answers import expected_terms

Base = Literal["nothing", "weak", "reference"]
"""Base of an attack, which bounds its credit: nothing (0), the weak or the reference answer."""

_END_OF_RESPONSE = re.compile(r"^-+ END RESPONSE (\w+) -+$", re.MULTILINE)
_SHORT_PASSAGE_CHARS = 1_000
_MARK_CHARS = 16
"""Length of the marks around the texts of our prompt."""


_TABLE = toml_beside(__file__, "texts.toml")
FILLER: list[str] = _TABLE.pop("filler")
"""Sentences without content."""
WEAK: str = _TABLE.pop("weak")
"""An answer without content, whose reward bounds what attacks on it deserve."""
_NOTE: str = _TABLE.pop("note")
TEXTS: dict[str, dict[str, Any]] = _TABLE
"""Texts by family and name; some with slots, some for each part of a task."""
ORDER: str = TEXTS["response_injection"]["plain"]
"""An order to the judge."""


@dataclass(frozen=True)
class Target:
    """A task under attack."""

    task: Task

    weak: ClassVar[str] = WEAK

    @cached_property
    def claims(self) -> tuple[str, ...]:
        """Description of each criterion; its terms where it has none."""
        texts = (
            criterion.description or "; ".join(criterion.required_elements)
            for criterion in self.task.rubric
        )
        return tuple(text for text in texts if text.strip())

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Every term that a criterion looks for."""
        terms = (term for term in expected_terms(self.task) if term.strip())
        return tuple(dict.fromkeys(terms))

    @cached_property
    def slots(self) -> dict[str, str]:
        """Texts for the slots, by slot."""
        mark = self.response_mark
        return {"{mark}": mark, "{upper_mark}": mark.upper(), **self.unmarked_slots}

    @cached_property
    def unmarked_slots(self) -> dict[str, str]:
        """Texts for the slots that are not of the marks around a response."""
        question = self.task.question
        return {
            "{order}": ORDER,
            "{note}": _NOTE,
            "{lines}": "\n" * 200,
            "{blanks}": " " * 2000,
            "{zeros}": "0" * _MARK_CHARS,
            "{question}": question,
            "{inner}": f"{question[:1].lower()}{question[1:].rstrip('?. ')}",
        }

    @property
    def response_mark(self) -> str:
        """The mark that fences the weak answer in our prompt, as if the attacker had seen it."""
        view = self.task.judge_view(self.weak)
        prompt = load_prompt("shared_prefix").render(
            view, passage_chars=_SHORT_PASSAGE_CHARS
        )
        match = _END_OF_RESPONSE.search(prompt.user)
        if match is None:
            raise RuntimeError("the prompt no longer fences the response with a mark")
        return match[1]


@dataclass(frozen=True)
class Attack:
    """One text, or one passage, that tries to get more than it deserves."""

    name: str
    response: str
    base: Base = "weak"
    passage: str | None = None
    """The passage as it was tampered with; None leaves it alone."""
    trace: Trace | None = None
    """The trace that holds the text, in a result or a call of a tool; None for an answer."""


@dataclass(frozen=True)
class Case:
    """An attack on a task, ready to be judged."""

    family: str
    target: Target
    attack: Attack

    @property
    def id(self) -> str:
        """`family/name@task_id`."""
        return f"{self.family}/{self.attack.name}@{self.target.task.task_id}"

    @property
    def views(self) -> TraceViews:
        """The judge's views of the case: one, or those of the parts of a trace."""
        trace = self.attack.trace
        if trace is None:
            return answer_view(self.view)
        return trace_views(self.view, trace, missing_turn="zero")

    @property
    def shown(self) -> str:
        """The answer, or the whole trace, as people read it."""
        trace = self.attack.trace
        return self.attack.response if trace is None else trace_text(trace)

    @property
    def view(self) -> JudgeView:
        """The judge's view of the case; of a trace, that of its last reply with all criteria."""
        if self.attack.trace is not None:
            return self.target.task.whole_view(self.attack.trace.answer)
        view = self.target.task.judge_view(self.attack.response)
        if self.attack.passage is None:
            return view
        return view.model_copy(update={"grounding": Grounding(self.attack.passage)})


def filled(template: str, slots: Mapping[str, str]) -> str:
    """Fill the slots of a text; not by `str.format`, since attacks hold braces of their own."""
    for slot, text in slots.items():
        template = template.replace(slot, text)
    return template
