import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rubric_core import write_tasks
from rubric_core.files import file_sha256
from rubric_core.schema.task import Task
from rubric_synth import (
    CollectedFolderError,
    DatasetFolderError,
    SynthReport,
    check_dataset,
    dataset_statistics,
)
from rubric_synth.document import DocumentOutcome
from rubric_synth.run.dataset.folder import SPLITS, question_lines


@pytest.fixture
def dataset(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> Path:
    write(outcomes)
    return tmp_path / "data"


def _problems(dataset: Path) -> str:
    return "\n".join(check_dataset(dataset).problems)


def _edit_manifest(dataset: Path, **fields: object) -> None:
    path = dataset / "manifest.json"
    manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**manifest, **fields}), encoding="utf-8")


def test_a_fresh_dataset_adds_up(dataset: Path) -> None:
    assert check_dataset(dataset).problems == ()


def test_parquet_that_differs_from_its_lines_is_found(
    dataset: Path, outcomes: list[DocumentOutcome]
) -> None:
    tasks = [Task.from_json(row) for o in outcomes for row in o.tasks]
    write_tasks(dataset / "train.parquet", tasks[:1])
    assert "train.parquet" in _problems(dataset)
    (dataset / "train.parquet").write_bytes(b"PAR1 no more")
    assert "train.parquet cannot be compared" in _problems(dataset)


def test_rows_beyond_the_parquet_file_are_found(dataset: Path) -> None:
    path = next(
        dataset / f"{s}.jsonl" for s in SPLITS if (dataset / f"{s}.jsonl").read_bytes()
    )
    line = path.read_bytes().split(b"\n")[0].replace(b"What does", b"WHAT DOES")
    with path.open("ab") as file:
        file.write(line + b"\n")
    problems = _problems(dataset)
    assert f"{path.stem}.parquet ends after row" in problems
    assert f"tasks of {path.stem}: " in problems
    assert "ask the same question" in problems


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        (
            {"accepted_documents": 9},
            "documents with a task: 10, but manifest.json says 9",
        ),
        ({"rejected_documents": 3}, "documents without a task: 2, but"),
        ({"pending_documents": 1}, "12 documents were collected, and 13 are accepted"),
        ({"rejected_by_stage": {}}, "rejections (quality, too_few_criteria): 1, but"),
    ],
)
def test_counts_that_differ_from_the_contents_are_found(
    dataset: Path, fields: dict[str, object], part: str
) -> None:
    _edit_manifest(dataset, **fields)
    assert part in _problems(dataset)


def test_a_rubric_outside_the_bounds_of_its_configuration_is_found(
    dataset: Path,
) -> None:
    config = json.loads((dataset / "manifest.json").read_text())["config"]
    config["quality"]["min_criteria"] = 6
    _edit_manifest(dataset, config=config)
    report = check_dataset(dataset)
    assert report.problem_count == 10
    assert all("has 5 criteria, not 6 to 10" in problem for problem in report.problems)


def test_a_damaged_line_of_rejections_is_named(dataset: Path) -> None:
    with (dataset / "rejected.jsonl").open("a") as file:
        file.write("{broken\n")
    assert "rejected.jsonl, line 3, is no rejection" in _problems(dataset)


@pytest.mark.parametrize(
    "name", ["train.jsonl", "test.parquet", "rejected.jsonl", "README.md"]
)
def test_a_pipe_in_place_of_a_file_is_a_problem_and_not_waited_for(
    dataset: Path, name: str
) -> None:
    (dataset / name).unlink()
    os.mkfifo(dataset / name)
    assert check_dataset(dataset).problems == (f"{name} is no regular file",)


def test_statistics_and_questions_do_not_wait_for_a_pipe(dataset: Path) -> None:
    for name in ("rejected.jsonl", "train.jsonl"):
        (dataset / name).unlink()
        os.mkfifo(dataset / name)
        with pytest.raises(DatasetFolderError, match=rf"{name}.* is no regular file"):
            dataset_statistics(dataset)
    with pytest.raises(DatasetFolderError, match="is no regular file"):
        list(question_lines(dataset, split="train"))


def test_a_pipe_in_place_of_the_collection_is_not_waited_for(
    tmp_path: Path, dataset: Path
) -> None:
    os.mkfifo(tmp_path / "documents.jsonl")
    with pytest.raises(CollectedFolderError, match="is no regular file"):
        check_dataset(dataset, collected=tmp_path)


@pytest.mark.parametrize(
    ("name", "line", "cause"),
    [
        ("train.jsonl", "{broken", "not JSON"),
        ("train.jsonl", "[" * 200_000, "nested too deeply"),
        ("rejected.jsonl", "[" * 200_000, "line 3, is no rejection"),
    ],
)
def test_one_bad_line_is_one_problem(
    dataset: Path, name: str, line: str, cause: str
) -> None:
    with (dataset / name).open("a") as file:
        file.write(line + "\n")
    (problem,) = check_dataset(dataset).problems
    assert name in problem
    assert cause in problem
    assert problem.endswith("the file was changed after it was written")


def test_a_file_that_is_missing_is_one_problem(dataset: Path) -> None:
    (dataset / "train.jsonl").unlink()
    assert check_dataset(dataset).problems == ("train.jsonl is missing",)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"tasks": {"dev": 1}},
            "manifest.json counts tasks of 'dev', which is no split",
        ),
        (
            {"rejected": {"no_passage": 7}},
            "rejected is not the sum of rejected_by_stage",
        ),
        (
            {"usage": {"total": {"calls": 7}, "by_stage": {"enrich": {"calls": 8}}}},
            "the stages have more calls than all of them together",
        ),
        ({"sha256": {}}, "manifest.json has no hash of train.jsonl"),
        ({"sha256": {}}, "manifest.json has no hash of train.parquet"),
    ],
)
def test_a_manifest_at_odds_with_itself_is_found(
    dataset: Path, fields: dict[str, Any], problem: str
) -> None:
    manifest = json.loads((dataset / "manifest.json").read_text())
    if "tasks" in fields:
        fields = {"tasks": manifest["tasks"] | fields["tasks"]}
    _edit_manifest(dataset, **fields)
    assert problem in _problems(dataset)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("near_duplicate_question_jaccard", 7),
        ("leak_words", -1),
        ("max_criteria", 0),
        ("min_criteria", 99),
        ("min_criteria", "sk-abcDEF123456"),
    ],
)
def test_a_manifest_with_impossible_rules_is_a_problem(
    dataset: Path, part: str, value: object
) -> None:
    config = json.loads((dataset / "manifest.json").read_text())["config"]
    config["quality"][part] = value
    _edit_manifest(dataset, config=config)
    (problem,) = check_dataset(dataset).problems
    assert problem.startswith("manifest.json: config: quality")
    assert "abcDEF" not in problem


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret", "work/../x", "..", "a\\b", "x" * 999]
)
def test_a_file_outside_of_the_folder_is_named_and_never_read(
    tmp_path: Path, dataset: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("s")
    hashes = json.loads((dataset / "manifest.json").read_text())["sha256"]
    _edit_manifest(dataset, sha256={**hashes, name: "0" * 64})
    read: list[Path] = []
    monkeypatch.setattr("rubric_synth.check.file_sha256", read.append)
    (problem,) = [p for p in check_dataset(dataset).problems if "changed" not in p]
    assert problem.startswith("manifest.json names ")
    assert {path.parent for path in read} == {dataset}


def test_every_document_of_the_collection_is_looked_for(
    tmp_path: Path, dataset: Path, outcomes: list[DocumentOutcome]
) -> None:
    collected = tmp_path / "collected"
    collected.mkdir()
    path = collected / "documents.jsonl"
    path.write_text(
        "".join(f'{{"doc_hash": "{o.doc_hash}", "text": "…"}}\n' for o in outcomes)
    )
    _edit_manifest(dataset, collected_sha256=file_sha256(path))
    assert check_dataset(dataset, collected=collected).problems == ()
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    problems = "\n".join(check_dataset(dataset, collected=collected).problems)
    assert f"document {outcomes[0].doc_hash[:12]} is not in" in problems
    assert "is not the file that the dataset was made of" in problems


def test_of_very_many_problems_the_first_are_shown_and_all_are_counted(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    row = outcomes[0].tasks[0]
    asked = [
        {**row, "question": " ".join(f"w{n}x{k}" for k in range(5))} for n in range(300)
    ]
    write([outcomes[0].model_copy(update={"tasks": tuple(asked)})])
    config = json.loads((tmp_path / "data" / "manifest.json").read_text())["config"]
    config["quality"] |= {"min_criteria": 1, "max_criteria": 4}
    _edit_manifest(tmp_path / "data", config=config)
    report = check_dataset(tmp_path / "data")
    assert report.problem_count >= 300
    assert len(report.problems) == 201
    assert report.problems[-1] == f"… and {report.problem_count - 200} more"


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda _: None, "does not exist"),
        (lambda path: path.write_text(""), "is a file"),
        (lambda path: path.mkdir(), "holds no manifest.json"),
        (lambda path: (path / "work").mkdir(parents=True), "a run that has not ended"),
    ],
)
def test_a_folder_that_is_no_dataset_is_named_for_what_it_is(
    tmp_path: Path, make: Callable[[Path], object], part: str
) -> None:
    folder = tmp_path / "folder"
    make(folder)
    for command in (
        check_dataset,
        dataset_statistics,
        lambda path: list(question_lines(path)),
    ):
        with pytest.raises(DatasetFolderError, match=part) as raised:
            command(folder)
        assert "rubric-synth run" in str(raised.value)
