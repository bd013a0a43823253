"""A run goes on with the tasks that it was started with, or says what of them is not the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import Task
from rubric_train_openrlhf.config.train import parse_config
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.resuming import begin, check_tasks
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.step.tasks import TaskSet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Row = dict[str, Any]

ROWS: list[Row] = [
    {
        "question": f"What is said {place}?",
        "passage": f"It is said {place} that water is wet.",
        "criteria": [
            {"id": "wet", "weight": 2, "scoring_guide": "Any word for wet counts."},
            {"id": "water", "weight": 1, "expected_keywords": ["water"]},
        ],
        "doc_hash": f"document-{place}",
        "reference_answer": "That water is wet.",
    }
    for place in ("here", "there", "elsewhere")
]


def book(rows: Sequence[Row]) -> TaskSet:
    return TaskSet([Task.from_json(row) for row in rows])


def second(**changes: object) -> list[Row]:
    """The rows with other values of the second."""
    return [ROWS[0], {**ROWS[1], **changes}, ROWS[2]]


def criterion(**changes: object) -> list[Row]:
    first, other = ROWS[1]["criteria"]
    return second(criteria=[{**first, **changes}, other])


@pytest.fixture
def goes_on_with(tmp_path: Path) -> Callable[[Sequence[Row]], None]:
    """Start a run with these tasks; go on with others."""
    config = parse_config(
        {
            "model": {"type": "path", "path": "m"},
            "data": {"train": "train.jsonl", "validation": "held.jsonl"},
            "steps": 1,
            "out": tmp_path / "run",
        }
    )
    folder = RunFolder(config.out)
    sha256 = book(ROWS).sha256
    begin(folder, config=config, tasks_sha256={"train": sha256, "validation": sha256})

    def check(rows: Sequence[Row]) -> None:
        check_tasks(
            folder,
            config=config,
            tasks_sha256={"train": book(rows).sha256, "validation": sha256},
        )

    return check


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (second(passage="It is said that water is dry."), "the passages"),
        (second(question="What else is said?"), "the questions"),
        (criterion(weight=3), "the rubrics"),
        (criterion(scoring_guide="Only the word wet counts."), "the rubrics"),
        (second(criteria=ROWS[1]["criteria"][::-1]), "the rubrics"),
        (
            second(question="What else?", passage="Nothing."),
            "the questions and the passages",
        ),
        (second(doc_hash="another"), "the hashes of the documents"),
        (second(context=[{"doc_hash": "d", "text": "Water is wet."}]), "the contexts"),
        (ROWS[::-1], "the order of the tasks"),
        (ROWS[:2], "the tasks"),
    ],
)
def test_what_changed_in_a_file_of_tasks_is_named(
    goes_on_with: Callable[[Sequence[Row]], None], rows: list[Row], what: str
) -> None:
    message = (
        rf"^data\.train \('train\.jsonl'\): {what} changed since the run in .*run' was"
    )
    with pytest.raises(ResumeError, match=message) as caught:
        goes_on_with(rows)
    assert "water" not in str(caught.value)


def test_passages_that_were_swapped_are_seen(
    goes_on_with: Callable[[Sequence[Row]], None],
) -> None:
    first, other, last = ROWS
    swapped = [
        {**first, "passage": other["passage"]},
        {**other, "passage": first["passage"]},
        last,
    ]
    with pytest.raises(ResumeError, match="the passages changed"):
        goes_on_with(swapped)


def test_what_no_side_sees_while_it_trains_may_change(
    goes_on_with: Callable[[Sequence[Row]], None],
) -> None:
    goes_on_with(ROWS)
    goes_on_with(
        second(question_rationale="It is asked often.", reference_answer="Wet.")
    )


def test_a_context_that_was_taken_away_is_seen(tmp_path: Path) -> None:
    config = parse_config(
        {
            "model": {"type": "path", "path": "m"},
            "data": {"train": "train.jsonl"},
            "steps": 1,
            "out": tmp_path / "run",
        }
    )
    folder, held = RunFolder(config.out), [{"doc_hash": "d", "text": "Water is wet."}]
    begin(
        folder, config=config, tasks_sha256={"train": book(second(context=held)).sha256}
    )

    with pytest.raises(ResumeError, match="the contexts changed"):
        check_tasks(folder, config=config, tasks_sha256={"train": book(ROWS).sha256})
    assert "contexts" not in book(ROWS).sha256
