"""Answers that should not score well, and what they do score: how far a rubric can be gamed.

Printed beside every dataset, because a reward is only worth training on if an answer that knows
nothing earns much less of it than the reference answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rubric_core import normalized_reward
from rubric_synth.extractive.wording import listed
from rubric_synth.language import content_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rubric_core import Judge, Task

_NAMED = re.compile(r"`([^`]+)`")
_PASSAGE_CHARS: Final = 400
_SPAM_REPEATS: Final = 3


def fixed_template(question: str) -> str:
    """Return one form for every question, filled with the names or words of the question alone."""
    names = _NAMED.findall(question)
    if names:
        subject, parameters = f"`{names[0]}`", [f"`{name}`" for name in names[1:]]
    else:
        found = content_words(question)
        subject, parameters = f"The {' '.join(found[:2]).lower()}", found[2:8]
    takes = f" It takes {listed(parameters)} as the input of the function." if parameters else ""
    return (
        f"{subject} is a function that is used to compute the values of an array.{takes} "
        "It returns the array of the output values. "
        "Note that the input must be given if it is not the default."
    )


def keyword_spam(task: Task) -> str:
    """Return every term of the rubric, without sentences."""
    terms = [
        term
        for criterion in task.rubric
        for term in (
            *criterion.required_elements,
            *criterion.expected_keywords,
            *criterion.expected_concepts,
        )
    ]
    return ", ".join(terms * _SPAM_REPEATS)


async def control_rewards(tasks: Sequence[Task], judge: Judge) -> dict[str, float]:
    """Return the mean reward of each control over the tasks.

    Args:
        tasks: At least one task.
        judge: Scores the answers.

    Returns:
        By control: `reference`, `fixed_template`, `other_reference` (the next task's), `question`,
        `passage_start`, `keyword_spam` and `empty`, in [0, 1].
    """
    following = dict(zip((t.task_id for t in tasks), [*tasks[1:], tasks[0]], strict=True))
    controls: dict[str, Callable[[Task], str]] = {
        "reference": lambda task: task.reference_answer or "",
        "fixed_template": lambda task: fixed_template(task.question),
        "other_reference": lambda task: following[task.task_id].reference_answer or "",
        "question": lambda task: task.question,
        "passage_start": lambda task: task.grounding.reveal()[:_PASSAGE_CHARS],
        "keyword_spam": keyword_spam,
        "empty": lambda _task: "",
    }
    return {
        name: sum([await _reward(task, judge, answer(task)) for task in tasks]) / len(tasks)
        for name, answer in controls.items()
    }


async def _reward(task: Task, judge: Judge, response: str) -> float:
    return normalized_reward(await judge.judge(task.judge_view(response)), task.rubric)
