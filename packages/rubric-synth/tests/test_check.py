import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_synth import DatasetFolderError, check_dataset, synthesise


@pytest.fixture
def dataset(tmp_path: Path, collected: Callable[[], Path]) -> Path:
    synthesise(collected(), tmp_path / "data")
    return tmp_path / "data"


def _largest(dataset: Path) -> Path:
    return max(
        (dataset / f"{s}.jsonl" for s in ("train", "validation", "test")), key=_size
    )


def _size(path: Path) -> int:
    return path.stat().st_size


def _problems(dataset: Path) -> str:
    return "\n".join(check_dataset(dataset).problems)


def test_a_fresh_dataset_has_no_problem(dataset: Path) -> None:
    report = check_dataset(dataset)
    assert report.problems == ()
    assert sum(report.tasks.values()) >= 10


def test_a_document_in_two_splits_is_found(dataset: Path) -> None:
    source = _largest(dataset)
    other = dataset / ("test.jsonl" if source.name != "test.jsonl" else "train.jsonl")
    line = source.read_text(encoding="utf-8").splitlines(keepends=True)[0]
    with other.open("a", encoding="utf-8") as file:
        file.write(line)
    problems = _problems(dataset)
    assert "stands in two splits" in problems
    assert "stands there twice" in problems
    assert f"belongs to {source.stem}, not {other.stem}" in problems
    assert f"{other.name} was changed" in problems


def test_a_broken_line_and_a_missing_file_are_named(dataset: Path) -> None:
    source = _largest(dataset)
    with source.open("a") as file:
        file.write("{broken\n")
    assert f"{source}:" in _problems(dataset)
    source.unlink()
    assert f"{source.name} is missing" in _problems(dataset)


def test_a_leak_is_found_without_showing_it(dataset: Path) -> None:
    source = _largest(dataset)
    rows = [
        json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()
    ]
    rows[0]["question"] = " ".join(rows[0]["passage"].split()[:12])
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    problems = _problems(dataset)
    assert "leaks" in problems
    assert rows[0]["question"] not in problems


@pytest.mark.parametrize("content", [None, "{", "[]", '{"config": {"no_such_key": 1}}'])
def test_a_folder_without_a_manifest_is_refused(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DatasetFolderError, match="rubric-synth run"):
        check_dataset(tmp_path)


def test_a_collected_folder_is_named_as_such(collected: Callable[[], Path]) -> None:
    with pytest.raises(
        DatasetFolderError, match=r"collected documents.*rubric-synth run"
    ):
        check_dataset(collected())


def test_a_passage_in_two_splits_is_found(dataset: Path) -> None:
    source = _largest(dataset)
    other = dataset / ("test.jsonl" if source.name != "test.jsonl" else "train.jsonl")
    row = json.loads(source.read_text(encoding="utf-8").splitlines()[0])
    row["passage"] = f"Before all else. {row['passage']} And after it."
    row["question"] = (
        "What else does the text say of what it is about, and why does it?"
    )
    with other.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row | {"doc_hash": "0" * 64}) + "\n")
    assert "of different splits share a passage, or most of one" in _problems(dataset)
