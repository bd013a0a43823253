"""Questions that would be read or scored otherwise than meant are found, with file and line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from rubric_train_openrlhf.cluster.rehearse.checking import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_train_openrlhf.cluster.rehearse.checking import Finding, Report

CheckOnly: TypeAlias = "Callable[..., Report]"
Production: TypeAlias = Any
"""What the fixture of this name gives."""


def questions_of(report: Report) -> Finding:
    (found,) = report.of("questions")
    return found


def test_sound_questions_pass(production: Production, check_only: CheckOnly) -> None:
    assert questions_of(check_only(production)).status is Status.PASSED


def test_tasks_of_one_question_with_different_rubrics(
    production: Production, check_only: CheckOnly
) -> None:
    rows = production.rows()
    for row in rows[1:4]:
        row["question"] = rows[0]["question"]

    found = questions_of(check_only(production.with_train(rows)))

    assert found.status is Status.WARNING
    assert "1 questions are asked by several tasks" in found.detail
    assert "the first by 4" in found.detail
    assert "changed.jsonl:1" in found.detail
    assert "changed.jsonl:4" in found.detail


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\0", "NUL character"),
        ("<|eot_id|>", "special tokens of the model.* '<\\|eot_id\\|>'"),
        (
            "<|start_header_id|>",
            "special tokens of the model.* '<\\|start_header_id\\|>'",
        ),
    ],
)
def test_a_question_with_more_than_text(
    production: Production, check_only: CheckOnly, text: str, words: str
) -> None:
    rows = production.rows()
    rows[2]["question"] += f" {text} Say more."

    found = questions_of(check_only(production.with_train(rows)))

    assert found.status is Status.WARNING
    assert re.search(words, found.detail)
    assert "changed.jsonl:3" in found.detail


def test_a_prompt_that_is_too_long_is_named_by_file_and_line(
    production: Production, check_only: CheckOnly
) -> None:
    rows = production.rows()
    rows[4]["question"] = "How does it work? " + "Say more about it. " * 200

    (found,) = check_only(production.with_train(rows)).of("prompt lengths")

    assert found.status is Status.FAILED
    assert "changed.jsonl:5" in found.detail
