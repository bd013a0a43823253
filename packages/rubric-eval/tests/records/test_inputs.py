import shutil
from pathlib import Path

import pytest

from rubric_eval.records.digests import changed_inputs
from rubric_eval.records.inputs import EvalFolder, evaluation_files, hashed_inputs


@pytest.fixture
def folder(tmp_path: Path) -> EvalFolder:
    """An evaluation with a manifest and one file of scores."""
    folder = EvalFolder(tmp_path / "held-out")
    scores = folder.scores("lexical", "base", 0)
    scores.parent.mkdir(parents=True)
    scores.write_text("{}\n")
    folder.run.write_text("{}")
    return folder


def test_nothing_has_changed_at_once(folder: EvalFolder) -> None:
    assert [path.name for path in evaluation_files(folder)] == [
        "run.json",
        "seed_0.jsonl",
    ]
    inputs = hashed_inputs(evaluation_files(folder), beside=folder.comparison)
    assert changed_inputs(inputs, beside=folder.comparison, folders=[folder]) == []


def test_what_is_written_beside_the_values_is_no_input(folder: EvalFolder) -> None:
    inputs = hashed_inputs(evaluation_files(folder), beside=folder.comparison)
    folder.comparison.write_text("{}")
    folder.report.write_text("<html>")
    assert changed_inputs(inputs, beside=folder.comparison, folders=[folder]) == []


def test_other_new_and_lost_files_are_found(folder: EvalFolder) -> None:
    inputs = hashed_inputs(evaluation_files(folder), beside=folder.comparison)
    folder.scores("lexical", "base", 0).write_text('{"other": 1}\n')
    folder.scores("lexical", "base", 1).write_text("{}\n")
    folder.run.unlink()
    assert changed_inputs(inputs, beside=folder.comparison, folders=[folder]) == [
        "run.json",
        "scores/lexical/base/seed_0.jsonl",
        "scores/lexical/base/seed_1.jsonl",
    ]


def test_a_file_from_elsewhere_is_watched_too(
    folder: EvalFolder, tmp_path: Path
) -> None:
    tasks = tmp_path / "test.jsonl"
    tasks.write_text("{}\n")
    inputs = hashed_inputs([*evaluation_files(folder), tasks], beside=folder.comparison)
    assert "../test.jsonl" in [one.path for one in inputs]
    assert changed_inputs(inputs, beside=folder.comparison, folders=[folder]) == []
    tasks.write_text("{}\n{}\n")
    assert changed_inputs(inputs, beside=folder.comparison, folders=[folder]) == [
        "../test.jsonl"
    ]


def test_folders_that_are_moved_together_have_not_changed(
    folder: EvalFolder, tmp_path: Path
) -> None:
    inputs = hashed_inputs(evaluation_files(folder), beside=folder.comparison)
    moved = EvalFolder(
        Path(shutil.copytree(folder.root, tmp_path / "elsewhere" / "copy"))
    )
    assert changed_inputs(inputs, beside=moved.comparison, folders=[moved]) == []
