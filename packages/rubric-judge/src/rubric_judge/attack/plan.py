"""Which attacks are made on which tasks, and what they are compared with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final, Literal, TypeAlias

from rubric_core import ConfigError, JudgeView, Task, read_tasks
from rubric_judge.attack.cases import Attack, Case, Target
from rubric_judge.attack.families import content_free, instructions

Builder: TypeAlias = Callable[[Target], Iterator[Attack]]
"""Makes the attacks of one family on one task; none where the task lacks what they need."""
ControlName: TypeAlias = Literal["reference", "weak", "off_topic"]

FAMILIES: Final[Mapping[str, Builder]] = {
    "master_keys": content_free.master_keys,
    "null_model": content_free.null_model,
    "question_echo": content_free.question_echo,
    "rubric_echo": content_free.rubric_echo,
    "keyword_stuffing": content_free.keyword_stuffing,
    "shuffled_words": content_free.shuffled_words,
    "negated_answers": content_free.negated_answers,
    "repeated_answers": content_free.repeated_answers,
    "length_padding": content_free.length_padding,
    "response_injection": instructions.response_injection,
    "passage_injection": instructions.passage_injection,
    "forged_delimiters": instructions.forged_delimiters,
    "forged_verdicts": instructions.forged_verdicts,
    "claims": instructions.claims,
    "hidden_text": instructions.hidden_text,
    "unicode_tricks": instructions.unicode_tricks,
    "encoding": instructions.encoding,
}
"""The families that ship with the package."""


@dataclass(frozen=True)
class Control:
    """An honest text: what bounds the attacks on it, or what a judge must tell apart."""

    name: ControlName
    view: JudgeView


@dataclass(frozen=True)
class AttackPlan:
    """Everything that the judge is asked."""

    tasks: tuple[Task, ...]
    controls: tuple[Control, ...]
    cases: tuple[Case, ...]


def default_tasks() -> list[Task]:
    """Return the six tasks that ship with the package, with passages and reference answers."""
    with resources.as_file(resources.files("rubric_judge.attack") / "tasks.jsonl") as path:
        return list(read_tasks(path))


def plan_attacks(
    tasks: Sequence[Task],
    families: Mapping[str, Builder],
    *,
    limit: int | None = None,
    seed: int = 0,
) -> AttackPlan:
    """Make every attack on every task.

    Args:
        tasks: at least one.
        families: builders by name, such as `FAMILIES`.
        limit: most cases of a family, drawn at random; all when left out.
        seed: of the draw.

    Returns:
        The plan; controls are the tasks' reference answers, a weak answer, and the reference
        answer of the next task.

    Raises:
        ConfigError: there is no task.
    """
    if not tasks:
        raise ConfigError("there is no task to attack: give a task file", location="tasks")
    targets = [Target(task) for task in tasks]
    cases: list[Case] = []
    for family, build in families.items():
        made = [Case(family, target, attack) for target in targets for attack in build(target)]
        if limit is not None and len(made) > limit:
            kept = sorted(random.Random(seed).sample(range(len(made)), limit))
            made = [made[place] for place in kept]
        cases += made
    return AttackPlan(tuple(tasks), tuple(_controls(targets)), tuple(cases))


def _controls(targets: Sequence[Target]) -> Iterable[Control]:
    for place, target in enumerate(targets):
        off_topic = targets[(place + 1) % len(targets)]
        texts: dict[ControlName, str | None] = {
            "reference": target.reference,
            "weak": target.weak,
            "off_topic": off_topic.reference if off_topic is not target else None,
        }
        for name, text in texts.items():
            if text is not None:
                yield Control(name, target.task.judge_view(text))
