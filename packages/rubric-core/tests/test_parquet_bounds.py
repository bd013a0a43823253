"""A Parquet file is read within bounds of memory, whatever it declares or repeats."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rubric_core import RubricFileError, expansion, read_tasks
from rubric_core.data.parquet import LongRow, bounded_rows
from rubric_core.expansion import TooLargeError

if TYPE_CHECKING:
    from pathlib import Path


def _file(table: Any, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file


def _repeated(text: str, *, times: int) -> Any:
    return pa.DictionaryArray.from_arrays(
        pa.array([0] * times, pa.int32()), pa.array([text])
    )


def test_values_of_every_type_are_read_as_pyarrow_reads_them() -> None:
    table = pa.table(
        {
            "text": [None, "x", "y"],
            "large": pa.array(["a", "b", None], pa.large_string()),
            "bytes": [b"q", None, b"r"],
            "once": pa.array(["a", "b", "a"]).dictionary_encode(),
            "list": [["a", None], None, []],
            "lists": [[["a"]], [[None, "b"]], None],
            "large_list": pa.array([["a"], None, ["b"]], pa.large_list(pa.string())),
            "map": pa.array(
                [[("k", "v")], None, []], pa.map_(pa.string(), pa.string())
            ),
            "records": [{"x": "1", "y": [{"z": "q"}]}, None, {"x": None, "y": None}],
            "number": [1, 2, None],
            "nothing": pa.nulls(3),
        }
    )
    views = table.append_column("view", pa.array(["a", "b", None], pa.string_view()))
    with contextlib.suppress(pa.ArrowNotImplementedError):  # older releases write none
        _file(views)
        table = views
    assert list(bounded_rows(_file(table))) == table.to_pylist()
    assert list(bounded_rows(_file(table), columns=("list", "no_such"))) == [
        {"list": row} for row in table["list"].to_pylist()
    ]
    assert list(bounded_rows(_file(table), columns=("no_such",))) == [{}] * 3


@pytest.mark.parametrize("row_group_size", [3, 50, 1_000])
def test_rows_are_read_in_order_however_the_file_is_cut(row_group_size: int) -> None:
    texts = [f"passage {number} " * (number % 7) for number in range(700)]
    nested = [
        [{"name": text, "also": [text, None]}] * (len(text) % 3) for text in texts
    ]
    table = pa.table({"text": texts, "nested": nested})
    cut = {
        "row_group_size": row_group_size,
        "data_page_size": 500,
        "write_batch_size": 7,
    }
    # Past its limit, a column goes on without storing its values once.
    file = _file(table, dictionary_pagesize_limit=2_000, **cut)
    assert list(bounded_rows(file)) == table.to_pylist()


@pytest.mark.parametrize(
    "text", ["A" * 1_000_000, ["A" * 1_000_000], [["A" * 1_000_000]]]
)
def test_a_value_that_is_stored_once_counts_as_often_as_it_is_repeated(
    text: object,
) -> None:
    table = pa.table(
        {"text": [text, text, "short" if isinstance(text, str) else []] * 30}
    )
    rows = list(bounded_rows(_file(table, compression="zstd"), most_row_bytes=900_000))
    assert [isinstance(row, LongRow) for row in rows] == [True, True, False] * 30
    assert all(row.size_bytes >= 1_000_000 for row in rows if isinstance(row, LongRow))


def test_one_row_that_repeats_a_value_is_measured_before_it_is_made() -> None:
    repeated = _repeated("A" * 1_000_000, times=100_000)  # 100 GB
    table = pa.table({"text": pa.ListArray.from_arrays([0, len(repeated)], repeated)})
    (row,) = bounded_rows(_file(table, compression="zstd"))
    assert isinstance(row, LongRow)
    assert row.size_bytes > 100_000_000_000


def test_a_file_that_declares_far_more_than_it_holds_is_refused_before_it_is_read() -> (
    None
):
    nothing = _file(
        pa.table({"text": pa.nulls(40_000_000, pa.string())}), compression="zstd"
    )
    with pytest.raises(TooLargeError, match=r"declares 40000000 values"):
        next(iter(bounded_rows(nothing)))


def test_rows_may_unpack_to_what_text_does_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expansion, "_ALWAYS_BYTES", 1 << 20)
    rows = bounded_rows(
        _file(pa.table({"text": ["High water."] * 4_000}), compression="zstd")
    )
    for _ in range(1024):  # each counts for a kilobyte, however short
        assert next(rows) == {"text": "High water."}
    with pytest.raises(
        TooLargeError, match="unpack to more than 1048576; the rest, from row 1025"
    ):
        next(rows)
    repeated = _file(
        pa.table({"text": _repeated("A" * 100_000, times=500)}), compression="zstd"
    )
    with pytest.raises(TooLargeError, match="from row 11 on, is not read"):
        list(bounded_rows(repeated))


@pytest.mark.skipif(sys.platform != "linux", reason="memory can be limited on Linux")
def test_a_task_file_that_repeats_a_huge_text_costs_an_error_and_no_memory(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tasks.parquet"
    passages = _repeated("A" * 70_000_000, times=60)
    pq.write_table(pa.table({"question": ["Why?"] * 60, "passage": passages}), path)
    assert path.stat().st_size < 10_000_000
    script = (
        "import resource, sys\n"
        "from rubric_core import RubricFileError, read_tasks\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"  # its values would be 4 GB
        "try:\n"
        "    list(read_tasks(sys.argv[1]))\n"
        "except RubricFileError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "tasks.parquet:1: the row has 70000" in done.stdout


def test_tasks_read_from_parquet_are_those_of_the_json_lines(tmp_path: Path) -> None:
    row = {
        "question": "Why?",
        "passage": "So.",
        "criteria": [{"id": "a", "weight": 1.0}],
    }
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    assert list(read_tasks(tmp_path / "a.parquet")) == list(
        read_tasks(tmp_path / "a.jsonl")
    )
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(RubricFileError, match="not a readable Parquet file"):
        list(read_tasks(tmp_path / "b.parquet"))
