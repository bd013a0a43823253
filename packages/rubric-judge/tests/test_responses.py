import json
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import pytest

from rubric_core import (
    ConfigError,
    Grounding,
    JudgeResult,
    Reason,
    Rubric,
    RubricFileError,
    Task,
)
from rubric_judge.quality.responses import (
    JudgedResponse,
    read_judgements,
    read_responses,
    write_judgements,
)


@pytest.fixture
def task(rubric: Rubric) -> Task:
    grounding = Grounding("The model minimises the cross entropy of the labels.")
    return Task(question="Which loss is minimised?", grounding=grounding, rubric=rubric)


@pytest.fixture
def row(tmp_path: Path, task: Task) -> dict[str, Any]:
    """A judgement of half the weight, as it is written."""
    path = tmp_path / "one.jsonl"
    scores = {criterion.id: criterion.weight / 2 for criterion in task.rubric}
    result = JudgeResult.scored(task.rubric, scores, judge="m")
    write_judgements(
        path, [JudgedResponse(line=1, view=task.judge_view("A."), result=result)]
    )
    return json.loads(path.read_text())


def _write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# --- responses ------------------------------------------------------------------------------------


def test_what_else_a_row_says_is_not_read(tmp_path: Path, task: Task) -> None:
    row = {
        "id": 7,
        "task_id": task.task_id,
        "model": "m",
        "response": "It is.",
        "more": [1],
    }
    path = _write(tmp_path / "answers.jsonl", row)
    ((line, view),) = read_responses(path, {task.task_id: task})
    assert (line, view.response) == (1, "It is.")


def test_the_answers_of_an_evaluation_are_responses(tmp_path: Path, task: Task) -> None:
    rows = [{"text": "It is."}, {"text": None}, {"text": "No.", "response": "No."}]
    path = tmp_path / "seed_0.jsonl"
    path.write_text(
        "".join(
            json.dumps({"task_id": task.task_id, **row}, separators=(",", ":")) + "\n"
            for row in rows
        )
    )
    views = read_responses(path, {task.task_id: task})
    assert [(line, view.response) for line, view in views] == [
        (1, "It is."),
        (3, "No."),
    ]


def test_a_response_and_another_text_are_refused(tmp_path: Path, task: Task) -> None:
    row = {"task_id": task.task_id, "response": "It is.", "text": "It is not."}
    path = _write(tmp_path / "answers.jsonl", row)
    with pytest.raises(RubricFileError, match="`response` and `text` differ") as caught:
        read_responses(path, {task.task_id: task})
    assert caught.value.line == 1
    assert "It is" not in str(caught.value)


def test_a_mark_before_utf_8_is_skipped(tmp_path: Path, task: Task) -> None:
    path = _write(
        tmp_path / "answers.jsonl", {"task_id": task.task_id, "response": "é"}
    )
    path.write_bytes(BOM_UTF8 + path.read_bytes())
    ((line, view),) = read_responses(path, {task.task_id: task})
    assert (line, view.response) == (1, "é")


@pytest.mark.parametrize(
    "content", ["task_id,response\nx,It is.\n", '[\n{"task_id": "x"}\n]']
)
def test_csv_and_a_list_are_told_that_json_lines_are_wanted(
    tmp_path: Path, task: Task, content: str
) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(content)
    with pytest.raises(RubricFileError, match="must be JSON Lines, not CSV") as caught:
        read_responses(path, {task.task_id: task})
    assert caught.value.line == 1


def test_without_any_task_the_answers_are_not_blamed(
    tmp_path: Path, task: Task
) -> None:
    path = _write(
        tmp_path / "answers.jsonl", {"task_id": task.task_id, "response": "It is."}
    )
    with pytest.raises(ConfigError, match="the task file holds no task"):
        read_responses(path, {})


# --- judgements -----------------------------------------------------------------------------------


def test_a_sound_judgement_is_read_whole_and_rounded(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    rounded = {**row, "line": 2, "reward": 0.4999}
    other = {**row, "result": {**row["result"], "judge": "n"}}
    path = _write(tmp_path / "judged.jsonl", row, rounded, other)
    assert [
        (number, one.line, one.reward) for number, one in read_judgements(path)
    ] == [
        (1, 1, 0.5),
        (2, 2, 0.4999),
        (3, 1, 0.5),
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"line": 0}, "field 'line'"),
        ({"line": -3}, "field 'line'"),
        ({"reward": float("nan")}, "field 'reward'"),
        ({"reward": float("inf")}, "field 'reward'"),
        ({"reward": "0.5"}, "field 'reward'"),
        ({"reward": 0.9}, "the reward is 0.9, its result's is 0.5"),
        ({"reward": None}, "null where the judge was not reached, and only there"),
    ],
)
def test_a_judgement_that_cannot_be_is_refused_with_its_place(
    tmp_path: Path, row: dict[str, Any], change: dict[str, Any], problem: str
) -> None:
    path = _write(tmp_path / "judged.jsonl", {**row, "line": 9}, {**row, **change})
    with pytest.raises(RubricFileError, match=r"judged\.jsonl:2: ") as caught:
        list(read_judgements(path))
    assert problem in str(caught.value)
    assert caught.value.line == 2


def test_a_failed_judgement_has_the_reward_of_its_kind(
    tmp_path: Path, task: Task
) -> None:
    path = tmp_path / "judged.jsonl"
    view = task.judge_view("A.")
    failed = [
        JudgeResult.invalid(Reason.NOT_JSON),
        JudgeResult.unavailable(Reason.TIMEOUT),
    ]
    write_judgements(
        path, [JudgedResponse(n, view, one) for n, one in enumerate(failed, 1)]
    )
    assert [row.reward for _, row in read_judgements(path)] == [0.0, None]
    for before, after in (
        ('"reward": 0.0', '"reward": 0.5'),
        ('"reward": null', '"reward": 0.0'),
    ):
        wrong = tmp_path / "wrong.jsonl"
        wrong.write_text(path.read_text().replace(before, after, 1))
        with pytest.raises(RubricFileError, match="reward is"):
            list(read_judgements(wrong))


def test_a_second_judgement_by_the_same_judge_is_refused(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    path = _write(tmp_path / "judged.jsonl", row, {**row, "line": 2}, row)
    with pytest.raises(
        RubricFileError, match=r":3: judges the response of line 1 again, as line 1"
    ):
        list(read_judgements(path))
