"""Rubrics that a configuration names: a folder, a file of tasks, or one rubric for all tasks."""

import json
from pathlib import Path

import pytest

from rubric_core import ConfigError, RubricFileError, Task, write_tasks
from rubric_judge.adapters.rubric_files import one_rubric, task_files


def test_a_dataset_folder_is_its_splits_and_a_file_is_itself(
    tmp_path: Path, task: Task
) -> None:
    for name in ("test", "train"):
        write_tasks(tmp_path / f"{name}.jsonl", [task])
    (tmp_path / "rejected.jsonl").touch()

    train, test = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    assert task_files(tmp_path) == (train, test)
    assert task_files(test) == (test,)


def test_a_folder_without_tasks_and_a_file_that_is_not_there_are_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match=r"a folder without train\.jsonl"):
        task_files(tmp_path)
    with pytest.raises(ConfigError, match=r"absent\.jsonl"):
        task_files(tmp_path / "absent.jsonl")


def test_one_rubric_is_read_in_the_papers_form(tmp_path: Path, task: Task) -> None:
    file = tmp_path / "rubric.json"
    criteria = task.rubric.reveal()
    for document in (criteria, {"criteria": criteria}):
        file.write_text(json.dumps(document), encoding="utf-8")

        assert task_files(file) == ()
        assert one_rubric(file) == criteria


def test_one_rubric_is_read_in_the_form_of_verifiers(tmp_path: Path) -> None:
    file = tmp_path / "rubric.toml"
    file.write_text(
        '[[criteria]]\nname = "loss"\ntext = "Names the loss."\nweight = 3.0\n'
        '[[criteria]]\nname = "tone"\ntext = "Is polite."\n',
        encoding="utf-8",
    )

    criteria = one_rubric(file)

    assert [(one["description"], one["weight"]) for one in criteria] == [
        ("Names the loss.", 3.0),
        ("Is polite.", 1.0),
    ]


def test_what_is_no_rubric_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "rubric.json"
    file.write_text('{"criteria": [{"id": "a", "weight": -1.0}]}', encoding="utf-8")
    with pytest.raises(RubricFileError, match=r"weight.*must be 0 or more"):
        one_rubric(file)
    file.write_text('{"names": 1}', encoding="utf-8")
    with pytest.raises(RubricFileError, match=r"rubric\.json"):
        one_rubric(file)
