from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rubric_core import Task
from rubric_synth import SynthReport, dataset_statistics
from rubric_synth.document import DocumentOutcome
from rubric_synth.run.dataset.folder import SPLITS

datasets = pytest.importorskip("datasets")
parquet = pytest.importorskip("pyarrow.parquet")

_COLUMNS = {
    "question", "passage", "criteria", "question_rationale", "document_analysis", "doc_hash",
    "reference_answer",
}  # fmt: skip


@pytest.fixture
def load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Any]]:
    """`datasets.load_dataset` with a cache of its own and without the network."""
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    yield lambda *a, **k: datasets.load_dataset(
        *a, cache_dir=str(tmp_path / "cache"), **k
    )
    datasets.enable_progress_bars()


def _expected(outcomes: list[DocumentOutcome], report: SynthReport) -> dict[str, int]:
    assert sum(report.tasks.values()) == sum(len(o.tasks) for o in outcomes)
    return report.tasks


def test_the_folder_opens_as_its_three_splits_and_nothing_else(
    tmp_path: Path,
    outcomes: list[DocumentOutcome],
    write: Callable[..., SynthReport],
    load: Callable[..., Any],
) -> None:
    report = write(outcomes)
    folder = tmp_path / "data"
    (folder / "work").mkdir()
    (folder / "work" / "calls-0.jsonl").write_text('{"not": "data"}\n')
    dataset_statistics(folder)  # stats.json and stats.html
    loaded = load(str(folder))
    assert {split: rows.num_rows for split, rows in loaded.items()} == _expected(
        outcomes, report
    )
    assert tuple(loaded) == SPLITS
    for rows in loaded.values():
        assert set(rows.column_names) == _COLUMNS
    tasks = {Task.from_json(task) for outcome in outcomes for task in outcome.tasks}
    assert {Task.from_json(row) for rows in loaded.values() for row in rows} == tasks


def test_a_split_without_a_row_is_left_out_for_datasets_opens_none(
    tmp_path: Path,
    outcomes: list[DocumentOutcome],
    write: Callable[..., SynthReport],
    load: Callable[..., Any],
) -> None:
    report = write(outcomes[:1])
    (split,) = [split for split, count in report.tasks.items() if count]
    assert {
        name: rows.num_rows for name, rows in load(str(tmp_path / "data")).items()
    } == {split: 1}
    for empty in set(SPLITS) - {split}:
        table = parquet.read_table(tmp_path / "data" / f"{empty}.parquet")
        assert (table.num_rows, set(table.column_names)) == (0, _COLUMNS)


def test_json_lines_open_where_there_is_no_parquet(
    tmp_path: Path,
    outcomes: list[DocumentOutcome],
    write: Callable[..., SynthReport],
    load: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "rubric_synth.run.dataset.folder.can_write_parquet", lambda: False
    )
    report = write(outcomes)
    loaded = load(str(tmp_path / "data"))
    assert {split: rows.num_rows for split, rows in loaded.items()} == report.tasks


def test_the_json_lines_open_by_name(
    tmp_path: Path,
    outcomes: list[DocumentOutcome],
    write: Callable[..., SynthReport],
    load: Callable[..., Any],
) -> None:
    report = write(outcomes)
    files = {
        s: str(tmp_path / "data" / f"{s}.jsonl") for s in SPLITS if report.tasks[s]
    }
    loaded = load("json", data_files=files)
    assert {split: rows.num_rows for split, rows in loaded.items()} == {
        split: report.tasks[split] for split in files
    }


def test_the_card_says_the_columns_that_the_parquet_files_have(
    outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    from rubric_core.data.parquet import task_schema

    card = (write(outcomes).out / "README.md").read_text(encoding="utf-8")
    features = yaml.safe_load(card.split("---\n")[1])["dataset_info"]["features"]
    written = datasets.Features.from_arrow_schema(task_schema(has_context=False))
    assert datasets.Features._from_yaml_list(features) == written
