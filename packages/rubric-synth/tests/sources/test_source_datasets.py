from __future__ import annotations

import importlib
import json
import sys
from typing import TYPE_CHECKING

import pytest

from rubric_synth import CollectConfig, Document, Rejection, SourceError
from rubric_synth.sources import conversion, raw_text, read_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

_ROWS = [
    {"id": f"r{n}", "title": f"Tide {n}", "text": f"Water {n}.", "n": n}
    for n in range(5)
]


@pytest.fixture
def datasets() -> ModuleType:
    pytest.importorskip("datasets")
    return importlib.import_module("datasets")


def test_a_saved_data_set_is_read_in_its_order(
    tmp_path: Path, read: Callable, datasets: ModuleType
) -> None:
    datasets.Dataset.from_list(_ROWS).save_to_disk(tmp_path / "tides")
    found = read(f"hf:{tmp_path / 'tides'}")
    assert [item.source for item in found] == [f"hf:tides:all#r{n}" for n in range(5)]
    assert [item.title for item in found] == [f"Tide {n}" for n in range(5)]


@pytest.mark.slow  # each read starts a process that imports `datasets`
def test_splits_are_read_one_after_the_other_or_one_alone(
    tmp_path: Path, read: Callable, datasets: ModuleType
) -> None:
    whole = datasets.Dataset.from_list(_ROWS)
    splits = datasets.DatasetDict(train=whole.select(range(4)), test=whole.select([4]))
    splits.save_to_disk(tmp_path / "tides")
    source = f"hf:{tmp_path / 'tides'}"
    assert [item.source.rpartition(":")[2] for item in read(source)] == [
        "train#r0", "train#r1", "train#r2", "train#r3", "test#r4",
    ]  # fmt: skip
    assert [item.source for item in read(f"{source}:test")] == ["hf:tides:test#r4"]
    with pytest.raises(
        SourceError, match=r"no split 'tset'; it has \['test', 'train'\]"
    ):
        read(f"{source}:tset")


@pytest.mark.slow  # as above
def test_rows_without_a_known_field_are_counted_one_by_one(
    tmp_path: Path, read: Callable, datasets: ModuleType
) -> None:
    datasets.Dataset.from_dict({"foo": ["Words.", "More."]}).save_to_disk(
        tmp_path / "odd"
    )
    found = read(f"hf:{tmp_path / 'odd'}")
    assert [(item.source, str(item.reason)) for item in found] == [
        ("hf:odd:all:1", "broken_record"),
        ("hf:odd:all:2", "broken_record"),
    ]
    assert "set collect.fields" in found[0].detail


@pytest.mark.slow  # as above
def test_a_split_without_rows_is_counted_and_the_others_are_read(
    tmp_path: Path, read: Callable, datasets: ModuleType
) -> None:
    whole = datasets.Dataset.from_list(_ROWS)
    datasets.DatasetDict(train=whole, test=whole.select([])).save_to_disk(
        tmp_path / "tides"
    )
    *documents, empty = read(f"hf:{tmp_path / 'tides'}")
    assert len(documents) == 5
    assert (empty.source, empty.reason) == ("hf:tides:test", "empty")
    whole.select([]).save_to_disk(tmp_path / "none")
    assert [item.reason for item in read(f"hf:{tmp_path / 'none'}")] == ["empty"]
    with pytest.raises(SourceError, match=r"no split 'tset'; it has \['all'\]"):
        read(f"hf:{tmp_path / 'none'}:tset")


@pytest.mark.slow  # `load_dataset` imports for seconds
@pytest.mark.usefixtures("datasets")
def test_a_streamed_row_without_a_known_field_is_counted(
    tmp_path: Path, read: Callable
) -> None:
    root = tmp_path / "odd"
    root.mkdir()
    (root / "train.jsonl").write_text('{"foo": "Words."}\n{"foo": "More."}\n')
    assert [item.reason for item in read(f"hf:{root}")] == ["broken_record"] * 2


@pytest.mark.slow  # `load_dataset` imports for seconds
@pytest.mark.usefixtures("datasets")
def test_a_folder_of_data_files_is_streamed(tmp_path: Path, read: Callable) -> None:
    root = tmp_path / "tides"
    root.mkdir()
    rows = [*_ROWS, _ROWS[0], {"id": "x", "text": None}]
    (root / "train.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    found = read(f"hf:{root}:train")
    assert [item.source for item in found if isinstance(item, Document)] == [
        f"hf:tides:train#r{n}" for n in range(5)
    ]
    assert [str(item.reason) for item in found[5:]] == ["duplicate_id", "broken_record"]


@pytest.mark.slow  # `load_dataset` imports for seconds
@pytest.mark.usefixtures("datasets")
def test_data_that_break_off_are_counted(tmp_path: Path, read: Callable) -> None:
    root = tmp_path / "tides"
    root.mkdir()
    (root / "train.jsonl").write_text(json.dumps(_ROWS[0]) + "\n{broken")
    *_, last = read(f"hf:{root}")
    assert last.reason == "unreadable"


@pytest.mark.slow  # `load_dataset` imports for seconds
@pytest.mark.skipif(sys.platform != "linux", reason="memory can be limited on Linux")
@pytest.mark.usefixtures("datasets")
def test_a_table_that_unpacks_to_gigabytes_costs_its_split_alone(
    tmp_path: Path, read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "_MAX_MEMORY_BYTES", 1 << 30)
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    huge = pa.DictionaryArray.from_arrays(
        pa.array([0] * 30, pa.int32()), pa.array(["A" * 9**8])
    )
    root = tmp_path / "tides"
    root.mkdir()
    parquet.write_table(
        pa.table({"text": huge}), root / "train.parquet", compression="zstd"
    )
    parquet.write_table(pa.table({"text": ["High water."]}), root / "test.parquet")
    found = read(f"hf:{root}")
    assert {str(item.reason) for item in found if isinstance(item, Rejection)} <= {
        "conversion_failed", "unreadable",
    }  # fmt: skip
    assert [item.text for item in found if isinstance(item, Document)] == [
        "High water."
    ]


@pytest.mark.slow  # as above
@pytest.mark.usefixtures("datasets")
def test_what_cannot_be_opened_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nothing_here") as caught:
        read_source(f"hf:{tmp_path / 'nothing_here'}", config=CollectConfig())
    assert caught.value.source == f"hf:{tmp_path / 'nothing_here'}"


def test_without_its_library_the_error_names_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(raw_text._MODULES, "datasets", "no_such_library")
    with pytest.raises(
        SourceError,
        match=r"pip install --no-sources './packages/rubric-synth\[datasets\]'",
    ):
        read_source("hf:anything", config=CollectConfig())
