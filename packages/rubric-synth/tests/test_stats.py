from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_core import read_tasks
from rubric_judge.testing import FailingJudge
from rubric_synth import DatasetFolderError, dataset_statistics, synthesise
from rubric_synth.controls import fixed_template, keyword_spam


def test_statistics_count_what_the_dataset_holds(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    out = tmp_path / "data"
    report = synthesise(collected(), out)
    statistics = dataset_statistics(out)
    total = sum(report.tasks.values())
    assert statistics.tasks == report.tasks
    assert statistics.rejected == report.rejected
    assert sum(statistics.criteria_per_task.values()) == total
    assert statistics.criteria["structure"] == total
    assert 5 <= min(statistics.criteria_per_task) <= max(statistics.criteria_per_task) <= 10
    assert 1 < statistics.effective_criteria.min <= statistics.effective_criteria.max <= 10
    assert json.loads((out / "stats.json").read_text())["tasks"] == report.tasks


def test_answers_that_know_nothing_earn_much_less_than_the_reference(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    synthesise(collected(), tmp_path / "data")
    controls = dataset_statistics(tmp_path / "data").controls
    assert controls["reference"] >= 0.85
    assert controls["fixed_template"] <= 0.45
    assert controls["other_reference"] <= 0.2
    assert controls["keyword_spam"] <= 0.05
    assert controls["question"] <= 0.05
    assert controls["empty"] == 0.0


def test_a_dataset_without_tasks_or_files_is_refused(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    with pytest.raises(DatasetFolderError, match=r"train\.jsonl"):
        dataset_statistics(tmp_path)
    synthesise(collected(), tmp_path / "data", judge=FailingJudge())
    with pytest.raises(DatasetFolderError, match="no task"):
        dataset_statistics(tmp_path / "data")


def test_the_template_knows_only_the_question(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    assert fixed_template("Explain `f` from m with `a`, `b`: what it does.") == (
        "`f` is a function that is used to compute the values of an array. It takes `a` and `b` as "
        "the input of the function. It returns the array of the output values. Note that the input "
        "must be given if it is not the default."
    )
    synthesise(collected(), tmp_path / "data")
    for task in read_tasks(tmp_path / "data" / "train.jsonl"):
        assert all(word in keyword_spam(task) for c in task.rubric for word in c.expected_keywords)
