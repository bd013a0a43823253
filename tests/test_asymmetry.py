"""Nothing on the policy's side can carry the passage or the rubric.

Marks are planted in every hidden text of a task; then everything that the policy's side holds,
prints, raises or writes is searched for them.
"""

import asyncio
import io
import json
import logging
import pprint
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    JudgeResult,
    JudgeView,
    Reason,
    RubricError,
    SftExample,
    Task,
    check_no_leak,
    normalized_reward,
    read_tasks,
    write_tasks,
)
from rubric_judge import JudgePool, LexicalJudge
from rubric_judge.cli.score import score
from rubric_judge.cli.view import view

MARK = "quokkazanzibar"

# Text around a mark, of the kinds that escape, wrap or cut other texts.
around = st.text(max_size=30)
hidden_texts = st.builds(lambda before, after: f"{before}{MARK}{after}", around, around)


def row_with(hidden: Iterator[str]) -> dict[str, Any]:
    """A task in the paper's JSON whose hidden texts come from the iterator."""
    return {
        "question": "What does `fft` from scipy.fft compute?",
        "passage": next(hidden),
        "criteria": [
            {
                "id": name,
                "weight": weight,
                "name": next(hidden),
                "description": next(hidden),
                "required_elements": [next(hidden)],
                "scoring_guide": next(hidden),
                "verification_method": next(hidden),
                "expected_keywords": [next(hidden), next(hidden)],
                "expected_concepts": [next(hidden)],
            }
            for name, weight in (("purpose", 3.0), ("returns", 1.0))
        ],
        "question_rationale": next(hidden),
        "document_analysis": {
            "genre": "reference",
            "contribution": next(hidden),
            "concepts": [next(hidden)],
            "depth": "basic",
            "reasoning_mode": "description",
        },
        "reference_answer": next(hidden),
    }


def numbered() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"{MARK}{number} is what text {number} says"


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    return Task.from_json(row_with(iter(lambda: draw(hidden_texts), None)))


def shown(value: Any) -> list[str]:
    """Every way in which a value turns into text without being asked for its secrets."""
    texts = [repr(value), str(value), f"{value}", f"{value!s:>10}", f"{value!r}"]
    texts.append(pprint.pformat(value))
    texts.append(
        structlog.dev.ConsoleRenderer(colors=False)(
            None, "", {"event": "e", "v": value}
        )
    )
    texts.append(
        structlog.processors.JSONRenderer()(None, "", {"event": "e", "v": value})
    )
    texts.append(json.dumps({"v": value}, default=str))
    if hasattr(value, "model_dump"):
        texts.append(str(value.model_dump()))
        texts.append(str(value.model_dump(mode="json")))
        texts.append(value.model_dump_json())
    return texts


@given(tasks())
def test_no_view_of_a_task_shows_what_is_hidden(task: Task) -> None:
    judge_view = task.judge_view("A response.")
    seen = [
        task,
        task.rubric,
        task.grounding,
        *task.rubric,
        judge_view,
        [judge_view],
        {"t": task},
    ]

    assert [text for value in seen for text in shown(value) if MARK in text] == []


@given(tasks())
def test_what_the_policy_is_given_holds_nothing_hidden(task: Task) -> None:
    view = task.policy_view()
    public_row = json.dumps(task.to_json())

    fields = {"task_id", "question", "context", "conversation"}
    assert set(type(view).model_fields) == fields
    assert MARK not in json.dumps(view.model_dump())
    assert MARK not in public_row


def test_a_policy_view_and_a_warm_start_example_have_no_room_for_a_passage() -> None:
    with pytest.raises(ValueError, match="passage") as caught:
        SftExample.model_validate(
            {"task_id": "t", "question": "q", "answer": "a", "passage": f"{MARK} text"}
        )

    assert MARK not in str(caught.value)


def broken(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    row = row_with(numbered())
    change(row)
    return row


BROKEN_ROWS = {
    "weight is text": lambda row: row["criteria"][0].update(weight=f"{MARK}"),
    "weight is negative": lambda row: row["criteria"][0].update(weight=-1.0),
    "weights are zero": lambda row: [c.update(weight=0.0) for c in row["criteria"]],
    "ids repeat": lambda row: [c.update(id="same") for c in row["criteria"]],
    "no criteria": lambda row: row.update(criteria=[]),
    "criteria are text": lambda row: row.update(criteria=f"{MARK}"),
    "passage is a list": lambda row: row.update(passage=[f"{MARK}"]),
    "passage is missing": lambda row: row.pop("passage"),
    "unknown field": lambda row: row.update(extra=f"{MARK}"),
    "elements are one text": lambda row: row["criteria"][0].update(
        required_elements=f"{MARK}"
    ),
    "lone surrogate": lambda row: row.update(passage=f"{MARK}\ud800"),
    "analysis is text": lambda row: row.update(document_analysis=f"{MARK}"),
    "answer is a number": lambda row: row.update(reference_answer=1.5),
}


def raised(action: Callable[[], object]) -> str:
    """All that is ever printed of the error that an action raises."""
    with pytest.raises(RubricError) as caught:
        action()
    error = caught.value
    return "".join([*traceback.format_exception(error), repr(error), str(vars(error))])


@pytest.mark.parametrize("change", BROKEN_ROWS.values(), ids=BROKEN_ROWS.keys())
def test_an_error_of_a_broken_task_shows_nothing_hidden(
    change: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    row = broken(change)
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(row) + "\n", "utf-8")

    assert MARK not in raised(lambda: Task.from_json(row))
    assert MARK not in raised(lambda: list(read_tasks(path)))


def test_an_error_of_a_broken_line_shows_nothing_hidden(tmp_path: Path) -> None:
    line = json.dumps(row_with(numbered()))
    path = tmp_path / "tasks.jsonl"
    for text in (line[:-20], line + line, line.replace('"passage"', '"question"')):
        path.write_text(text + "\n", "utf-8")

        assert MARK not in raised(lambda: list(read_tasks(path)))


def test_an_error_of_a_leak_shows_nothing_hidden() -> None:
    row = row_with(numbered())
    row["question"] = row["passage"] = (
        f"{MARK} one two three four five six seven eight nine ten"
    )

    # The question itself is public, so the mark may stand in it; the message shows no text at all.
    assert MARK not in raised(lambda: check_no_leak([Task.from_json(row)]))


def test_an_error_of_a_missing_judgement_shows_nothing_hidden() -> None:
    task = Task.from_json(row_with(numbered()))
    result = JudgeResult.unavailable(Reason.TIMEOUT)

    assert MARK not in raised(lambda: normalized_reward(result, task.rubric))


class TalkativeJudge:
    """Breaks the promise not to raise, and quotes all that it was shown."""

    name = "talkative"

    async def judge(self, view: JudgeView) -> JudgeResult:
        raise RuntimeError(view.grounding.reveal(), view.rubric.reveal(), view.response)


def test_a_judge_that_quotes_the_passage_in_its_error_is_not_quoted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = Task.from_json(row_with(numbered()))
    printed = io.StringIO()

    with (
        caplog.at_level(logging.DEBUG),
        redirect_stdout(printed),
        redirect_stderr(printed),
    ):
        (result,) = asyncio.run(
            JudgePool(TalkativeJudge()).judge_all([task.judge_view("y")])
        )

    assert MARK not in result.model_dump_json()
    assert MARK not in caplog.text + printed.getvalue()


def test_the_marks_would_be_found(tmp_path: Path) -> None:
    task = Task.from_json(row_with(numbered()))
    write_tasks(tmp_path / "tasks.jsonl", [task])
    (result,) = asyncio.run(JudgePool(LexicalJudge()).judge_all([task.judge_view("y")]))

    assert MARK in task.grounding.reveal()
    assert MARK in json.dumps(task.rubric.reveal())
    assert (tmp_path / "tasks.jsonl").read_text("utf-8").count(MARK) >= len(
        list(task.rubric)
    ) * 8
    assert result.outcome == "scored"


def test_only_the_page_of_judgements_holds_what_the_judge_knew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`score` and `view` write it nowhere else, and print none of it."""
    task = Task.from_json(row_with(numbered()))
    write_tasks(tmp_path / "tasks.jsonl", [task])
    answer = json.dumps({"task_id": task.task_id, "response": "It computes a sum."})
    (tmp_path / "answers.jsonl").write_text(answer, encoding="utf-8")
    (tmp_path / "judge.yaml").write_text("type: lexical\n", encoding="utf-8")
    judged = tmp_path / "judged.jsonl"

    files = (tmp_path / "tasks.jsonl", tmp_path / "answers.jsonl")
    score(*files, judge=tmp_path / "judge.yaml", out=judged)
    view(judged)

    printed = capsys.readouterr()
    assert MARK not in printed.out + printed.err
    marked = {
        path.name for path in tmp_path.iterdir() if MARK in path.read_text("utf-8")
    }
    assert marked == {"tasks.jsonl", "judged.jsonl.html"}
