"""From rows as stacks and file formats leave them, to what the judge sees."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rubric_core import (
    ConfigError,
    RubricFileError,
    SchemaError,
    Task,
    answer_of,
)
from rubric_core.traces.messages import text_of
from rubric_judge.adapters.rows import TaskSource, joined_row, label_row, task_source


def test_a_task_id_finds_the_task_and_nothing_else_of_the_row_counts(
    tasks: dict[str, Task], task: Task
) -> None:
    row = {"task_id": task.task_id, "rubric": "not even JSON", "passage": "Another."}

    view = TaskSource(tasks).view(row, prompt="Another?", response="An answer.")

    assert view == task.judge_view("An answer.")


def test_a_row_brings_its_own_task(task: Task, row: dict[str, Any]) -> None:
    view = TaskSource({}).view(row, prompt="", response="An answer.")

    assert (view.question, view.grounding, view.rubric, view.response) == (
        task.question,
        task.grounding,
        task.rubric,
        "An answer.",
    )
    assert len(view.task_id) == 16


def test_a_line_of_a_task_file_is_judged_as_its_task(task: Task) -> None:
    line = json.dumps(task.to_json(reveal_grounding=True))

    view = TaskSource({}).view(label_row(line), prompt="", response="An answer.")

    assert view == task.judge_view("An answer.")


def test_a_row_with_the_parts_of_a_task_has_the_id_of_that_task(
    task: Task, row: dict[str, Any]
) -> None:
    other = Task(
        question=task.question,
        grounding=task.grounding,
        rubric=task.rubric,
        doc_hash="mine",
    )

    ids = [
        TaskSource({}).view(one, prompt="", response="y").task_id
        for one in (row, {**row, "doc_hash": "mine"})
    ]

    assert ids == [task.task_id, other.task_id]


@pytest.mark.parametrize(
    "form",
    [
        json.dumps,
        lambda rubric: {"criteria": rubric},
        lambda rubric: json.dumps({"criteria": rubric}),
        tuple,
        lambda rubric: np.array(rubric, dtype=object),
    ],
    ids=["json", "mapping", "json mapping", "tuple", "array"],
)
def test_a_rubric_may_have_any_form_that_a_data_set_gives_it(
    form: Any, task: Task, row: dict[str, Any]
) -> None:
    row["rubric"] = form(row["rubric"])

    assert TaskSource({}).view(row, prompt="", response="y").rubric == task.rubric


def test_the_keys_that_arrow_adds_are_dropped() -> None:
    rubric = [{"id": "a", "weight": 1, "name": "A"}, {"id": "b", "weight": 2.5}]
    table = pa.Table.from_pylist(
        [{"rubric": rubric}, {"rubric": [{"id": "c", "weight": 1.0}]}]
    )
    read = table.to_pylist()[0]["rubric"]
    assert read[1] == {"id": "b", "weight": 2.5, "name": None}

    view = TaskSource({}).view({"rubric": read}, prompt="Why?", response="y")

    assert [(c.id, c.weight, c.name) for c in view.rubric] == [
        ("a", 1.0, "A"),
        ("b", 2.5, ""),
    ]


def test_the_prompt_is_the_question_of_a_row_without_one(row: dict[str, Any]) -> None:
    del row["question"], row["passage"]
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
    ]

    view = TaskSource({}).view(row, prompt=chat, response="y")

    assert (view.question, len(view.grounding)) == ("Why?", 0)


def test_equal_rows_have_one_id_and_others_another(row: dict[str, Any]) -> None:
    source = TaskSource({})
    ids = [
        source.view(one, prompt="", response="y").task_id
        for one in (
            row,
            dict(row),
            {**row, "passage": "Another."},
            {**row, "task_id": "mine"},
        )
    ]

    assert ids[0] == ids[1] != ids[2]
    assert ids[3] == "mine"


def test_a_row_that_cannot_be_judged_says_what_to_give(
    tasks: dict[str, Task],
) -> None:
    with pytest.raises(ConfigError, match=r"no task has the id 'x' \(2 are known\)"):
        TaskSource(tasks).view({"task_id": "x", "answer": "5"}, prompt="", response="y")
    for name, meant in (("answer", ""), ("id", "did you mean 'task_id' by 'id'. ")):
        told = (
            f"no column 'task_id', 'rubric' or 'criteria', only {name!r}: {meant}give "
            "the dataset"
        )
        with pytest.raises(ConfigError, match=told):
            TaskSource(tasks).view({name: "5"}, prompt="", response="y")
    with pytest.raises(SchemaError, match="not JSON"):
        TaskSource({}).view({"rubric": "1. Be good."}, prompt="", response="y")
    with pytest.raises(SchemaError, match="weight"):
        TaskSource({}).view({"rubric": [{"id": "a"}]}, prompt="", response="y")


def test_a_prompt_with_the_question_of_another_task_is_warned_of_once(
    tasks: dict[str, Task],
) -> None:
    first, second = tasks.values()
    source = TaskSource(tasks)
    row = {"task_id": second.task_id}
    chat = [
        {"role": "system", "content": first.question},
        {"role": "user", "content": "Anew?"},
    ]

    def warned(*prompts: object) -> list[Any]:
        with capture_logs() as logs:
            for prompt in prompts:
                source.view(row, prompt=prompt, response="y")
        return logs

    assert not warned(f"{first.question}\n{second.question}", "", [3], chat)
    (told,) = warned(*[f"Q: {first.question.replace(' ', chr(10))} A:"] * 2)
    named = ("judge.prompt.other_task", second.task_id, first.task_id)
    assert (told["event"], told["task_id"], told["question_of"]) == named


def test_a_file_of_tasks_is_read_and_one_that_is_none_is_refused(
    tasks: dict[str, Task],
    tasks_file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forms = (
        tasks,
        tasks.values(),
        tasks_file,
        Path(tasks_file),
        [tasks_file, Path(tasks_file)],
    )
    found = [task_source(form) for form in forms]

    assert {tuple(source._tasks) for source in found} == {tuple(tasks)}
    one = next(iter(tasks.values()))
    for wrong, kind in (
        (one, "Task"),
        (3, "int"),
        ([{}], "a list with dict"),
        ({"a": 1}, "int"),
    ):
        with pytest.raises(ConfigError, match=f"list of such files, or tasks .*{kind}"):
            task_source(wrong)  # pyright: ignore[reportArgumentType]  # of a user's
    monkeypatch.chdir(tmp_path)
    told = rf"tsks\.jsonl: there is no such file \(looked for from '{tmp_path}'\); did you mean"
    with pytest.raises(ConfigError, match=told):
        task_source(["tasks.jsonl", "tsks.jsonl"])
    with pytest.raises(ConfigError, match=r"absent\.jsonl: there is no such file$"):
        task_source(tmp_path / "absent.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(
        ConfigError, match=r"folder\.jsonl: cannot be read: Is a directory"
    ):
        task_source("folder.jsonl")
    with pytest.raises(ConfigError, match="no task"):
        task_source([])
    (tmp_path / "broken.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(RubricFileError, match=r"broken\.jsonl:1"):
        task_source(tmp_path / "broken.jsonl")


def test_a_label_is_an_id_a_row_or_a_rubric() -> None:
    assert label_row("0123") == {"task_id": "0123"}
    assert label_row('{"task_id": "0123"}') == {"task_id": "0123"}
    assert label_row({"rubric": []}) == {"rubric": []}
    assert (
        label_row('[{"id": "a"}]')
        == label_row([{"id": "a"}])
        == {"rubric": [{"id": "a"}]}
    )
    assert label_row("") == label_row(None) == {}
    with pytest.raises(SchemaError, match="JSON"):
        label_row("{broken")


def test_a_label_counts_where_the_columns_name_no_task() -> None:
    assert joined_row("0123", {"index": 3}) == {"task_id": "0123", "index": 3}
    assert joined_row("{no task", {"task_id": "0123"}) == {"task_id": "0123"}
    assert joined_row("a known answer", {"rubric": []}) == {"rubric": []}
    assert joined_row("a known answer", {"criteria": []}) == {"criteria": []}


def test_a_label_that_is_an_answer_is_not_shown() -> None:
    answer = "the known answer, which is long. " * 3

    with pytest.raises(ConfigError, match="of 101 characters") as caught:
        TaskSource({}).view(label_row(answer), prompt="", response="y")
    assert "known answer" not in str(caught.value)


def test_the_last_message_of_a_role_is_what_it_says() -> None:
    chat = [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "7"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Be"},
                {"type": "text", "text": "cause."},
            ],
        },
    ]

    assert text_of(chat, role="assistant") == "Because."
    assert text_of(chat, role="user") == "Why?"
    assert text_of(chat[:2], role="assistant") == ""
    assert text_of(chat[:1], role="assistant") == ""
    assert text_of({"content": "Alone."}, role="assistant") == "Alone."


@pytest.mark.parametrize("value", [None, 3, ["a", "b"], [3]])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(SchemaError, match="a text or a list of messages"):
        text_of(value, role="assistant")


@given(st.text(st.characters(), max_size=20))
@example("half of a pair: \ud83d")
@example("<thought>")
def test_whatever_a_policy_writes_can_be_judged(response: str) -> None:
    view = TaskSource({}).view(
        {"rubric": [{"id": "a", "weight": 1.0}]}, prompt="", response=response
    )

    assert len(view.response) == len(answer_of(response).text)
    view.response.encode()
