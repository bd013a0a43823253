from __future__ import annotations

import pytest

from rubric_core import Answer, Criterion, Grounding, Rubric, Task, Thought
from rubric_train_openrlhf.step.monitors import MONITORS, monitored

TASK = Task(
    question="What does the valve do?",
    grounding=Grounding(text="The valve stops the flow of the coolant at once."),
    rubric=Rubric(
        criteria=(
            Criterion(
                id="a",
                weight=1,
                description="States that pressure relief happens before any coolant is lost.",
            ),
        )
    ),
)
PLAIN = "The valve stops the flow."


def figure(name: str, *groups: list[str]) -> float:
    answers = [[Answer(text) for text in group] for group in groups]
    return monitored(answers, [TASK] * len(groups))[name]


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("length", [["one two three", "one"]], 2.0),
        ("hedging", [["Perhaps it stops, possibly at once or later on ok"]], 20.0),
        (
            "self_praise",
            [[PLAIN, "This answer is correct.", "A clear and complete text."]],
            2 / 3,
        ),
        (
            "echo",
            [[PLAIN, "Note that pressure relief happens before any other thing."]],
            0.5,
        ),
        # Of the passage, which a model may know.
        ("echo", [["The valve stops the flow of the coolant at once."]], 0.0),
        ("refusal", [[PLAIN, "I can't say.", "I can’t say."]], 2 / 3),
        (
            "common_run",
            [[PLAIN, "Indeed the valve stops the flow now."], ["Nothing at all."]],
            2 / 3,
        ),
        ("common_run", [["Too short."]], 0.0),
        ("diversity", [["a b c", "a b c"], ["a b c", "d e f"]], (0.5 + 1.0) / 2),
        ("diversity", [["a", ""]], 0.0),
    ],
)
def test_a_monitor_of_a_worked_example(
    name: str, groups: list[list[str]], expected: float
) -> None:
    assert figure(name, *groups) == pytest.approx(expected)


def test_thoughts_are_counted_whether_they_end_or_not() -> None:
    answers = [
        Answer(PLAIN),
        Answer(PLAIN, Thought.CLOSED, "</think>"),
        Answer("", Thought.UNCLOSED),
        Answer(PLAIN),
    ]
    assert monitored([answers], [TASK])["thoughts"] == 0.5


def test_answers_without_a_word_are_figures_too() -> None:
    figures = monitored([[Answer("")]], [TASK])
    assert figures == dict.fromkeys(MONITORS, 0.0)
