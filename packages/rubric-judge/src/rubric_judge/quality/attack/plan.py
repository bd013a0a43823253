"""Plans of attacks on tasks, with the controls that they are compared with."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from rubric_core import ConfigError, JudgeView, Task, read_tasks
from rubric_core.schema.trace import Trace
from rubric_core.traces.views import TraceViews, answer_view, trace_views
from rubric_judge.quality.attack.cases import Case, Target
from rubric_judge.quality.attack.families import Builder
from rubric_judge.quality.attack.traces import TraceFamily, honest_trace
from rubric_judge.quality.labels.written import KnownAnswers, Truth, WrittenAnswers
from rubric_judge.quality.trajectories import trace_text
from rubric_judge.quality.wrong_answers import other_references

ControlName = Literal[
    "reference", "right_in_other_words", "false_in_the_same_words", "weak", "off_topic"
]

REFERENCE_ABOVE_WEAK = "reference above weak"
"""Row of the tasks in which the reference answer earns more than a weak one."""


@dataclass(frozen=True)
class Control:
    """An honest text, which bounds the attacks on it or which a judge must tell apart."""

    name: ControlName
    view: JudgeView
    """Its view; of a trace, that of its last reply with all criteria."""
    trace: Trace | None = None
    """The trace that it is, on a task whose criteria judge traces."""

    @property
    def views(self) -> TraceViews:
        """The judge's views: one, or those of the parts of a trace."""
        if self.trace is None:
            return answer_view(self.view)
        return trace_views(self.view, self.trace, missing_turn="zero")

    @property
    def shown(self) -> str:
        """The answer, or the whole trace, as people read it."""
        return self.view.response if self.trace is None else trace_text(self.trace)


@dataclass(frozen=True)
class AttackPlan:
    """Everything that the judge is asked."""

    tasks: tuple[Task, ...]
    controls: tuple[Control, ...]
    cases: tuple[Case, ...]


def default_tasks() -> list[Task]:
    """Return the six tasks that ship with the package, with passages and reference answers."""
    with resources.as_file(
        resources.files("rubric_judge") / "starting" / "tasks.jsonl"
    ) as path:
        return list(read_tasks(path))


def plan_attacks(
    tasks: Sequence[Task],
    families: Mapping[str, Builder],
    *,
    written: KnownAnswers | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> AttackPlan:
    """Make every attack on every task.

    Args:
        tasks: at least one; those whose criteria judge traces meet the families of traces, and all
            others the other ones.
        families: builders by name, such as `FAMILIES` and `TRACE_FAMILIES`.
        written: answers to the tasks that were written to be right, or false; those that come with
            this package if None.
        limit: most cases of a family, drawn at random; all when left out.
        seed: seed of the draw.

    Returns:
        The plan; controls are the tasks' reference answers, a weak answer, the reference answer
        to a question of another document, and the answers written for a task to be right, or
        false.

    Raises:
        ConfigError: there is no task.
    """
    if not tasks:
        raise ConfigError(
            "there is no task to attack: give a task file", location="tasks"
        )
    targets = [Target(task) for task in tasks]
    cases: list[Case] = []
    for family, build in families.items():
        family_cases: list[Case] = []
        for target in targets:
            if isinstance(build, TraceFamily) != target.task.rubric.judges_traces:
                continue
            family_cases += [Case(family, target, attack) for attack in build(target)]
        if limit is not None and len(family_cases) > limit:
            chosen = sorted(random.Random(seed).sample(range(len(family_cases)), limit))
            family_cases = [family_cases[place] for place in chosen]
        cases += family_cases
    known = WrittenAnswers().to(tasks) if written is None else written
    return AttackPlan(tuple(tasks), tuple(_controls(targets, known)), tuple(cases))


def _controls(targets: Sequence[Target], written: KnownAnswers) -> Iterable[Control]:
    tasks = [target.task for target in targets]
    for task in tasks:
        if task.rubric.judges_traces:
            yield from _trace_controls(task)
    targets = [t for t in targets if not t.task.rubric.judges_traces]
    others = other_references([target.task for target in targets])
    for target in targets:
        texts: dict[ControlName, str | None] = {
            "reference": target.task.reference_answer,
            "right_in_other_words": written.text(Truth.RIGHT, target.task),
            "false_in_the_same_words": written.text(Truth.FALSE, target.task),
            "weak": target.weak,
            "off_topic": others.get(target.task.task_id) or None,
        }
        for name, text in texts.items():
            if text is not None:
                yield Control(name, target.task.judge_view(text))


def _trace_controls(task: Task) -> Iterable[Control]:
    """Yield the traces with harmless results that reply without content, and as they should."""
    traces: dict[ControlName, Trace] = {"weak": honest_trace(task)}
    if task.reference_answer is not None:
        traces["reference"] = honest_trace(task, reply=task.reference_answer)
    for name, trace in traces.items():
        yield Control(name, task.whole_view(trace.answer), trace)
