"""Files of a few kilobytes that stand for gigabytes, and files nested without end."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rubric_core import expansion
from rubric_synth import CollectConfig, Document, Rejection
from rubric_synth.sources import read_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MOST_KB = 900_000
_SCRIPT = """
import resource, sys
from rubric_synth import CollectConfig
from rubric_synth.sources import read_source

limit = int(sys.argv[2]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for item in read_source(sys.argv[1], config=CollectConfig(languages=())):
    print(getattr(item, "reason", "document"), getattr(item, "detail", ""), sep=": ")
"""


def _told(path: Path) -> list[str]:
    """Read a source in a process that may not take more memory than an ordinary file needs."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(path), str(_MOST_KB)],
        capture_output=True,
        text=True,
        check=True,
        timeout=150,
    )
    return done.stdout.splitlines()


def test_a_table_that_repeats_a_huge_text_costs_little_memory(tmp_path: Path) -> None:
    repeated = pa.DictionaryArray.from_arrays(
        pa.array([0] * 16, pa.int32()), pa.array(["A" * 50_000_000])
    )
    pq.write_table(
        pa.table({"text": repeated}), tmp_path / "a.parquet", compression="zstd"
    )
    assert (tmp_path / "a.parquet").stat().st_size < 10_000
    told = _told(tmp_path / "a.parquet")
    assert len(told) == 16
    assert all(line.startswith("too_long: a row of 50000") for line in told)
    assert all(
        line.endswith("above the 40000000 that collect.max_document_bytes allows")
        for line in told
    )


def test_a_table_of_millions_of_rows_of_nothing_is_refused_as_a_whole(
    tmp_path: Path, reasons: Callable
) -> None:
    nothing = pa.table({"text": pa.nulls(40_000_000, pa.string())})
    pq.write_table(nothing, tmp_path / "a.parquet", compression="zstd")
    assert reasons(tmp_path / "a.parquet") == {"a.parquet": "too_long"}


def test_a_table_whose_reader_dies_costs_the_rest_of_that_table_alone(
    tmp_path: Path, kill_reader: Callable
) -> None:
    rows = [f"High water came {number} times. " * 20 for number in range(5_000)]
    pq.write_table(
        pa.table({"text": rows}), tmp_path / "a.parquet"
    )  # more than a pipe holds
    pq.write_table(pa.table({"text": rows[:1]}), tmp_path / "b.parquet")
    found = read_source(tmp_path, config=CollectConfig(languages=()))
    assert isinstance(next(found), Document)
    kill_reader()
    *first, failed, last = found
    assert all(isinstance(item, Document) for item in first)
    assert len(first) < len(rows) - 1
    assert isinstance(failed, Rejection)
    place = f"{tmp_path.name}/a.parquet:{len(first) + 2}"
    assert (failed.source, failed.reason) == (place, "conversion_failed")
    assert isinstance(last, Document)


def test_a_table_that_repeats_a_short_text_a_million_times_is_read_in_part(
    tmp_path: Path, read: Callable
) -> None:
    repeated = pa.DictionaryArray.from_arrays(
        pa.array([0] * 700, pa.int32()),
        pa.array(["High water comes twice a day. " * 30_000]),
    )
    # The first of the two fields is the text; the other is read too, and so counts.
    table = pa.table(
        {"text": ["High water comes twice a day."] * 700, "content": repeated}
    )
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd")
    *found, last = read(tmp_path / "a.parquet")
    assert 270 < len(found) < 300  # of 900 kB each, in 256 MiB
    assert (last.reason, last.source) == ("too_long", f"a.parquet:{len(found) + 1}")
    assert f"the rest, from row {len(found) + 1} on, is not read" in last.detail


def test_compressed_lines_may_unpack_to_what_text_does_and_no_more(
    tmp_path: Path, read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expansion, "_ALWAYS_BYTES", 1 << 20)
    line = json.dumps({"text": "High water comes twice a day."}).encode() + b"\n"
    with gzip.open(tmp_path / "a.jsonl.gz", "wb") as file:
        file.write(line + b"{}\n" * 4_000)
    *found, last = read(tmp_path / "a.jsonl.gz")
    assert found[0].text == "High water comes twice a day."
    assert (last.reason, last.source) == ("too_long", "a.jsonl.gz")
    assert (
        "unpack to more than 1048576; the rest, from line 1025 on, is not read"
        in last.detail
    )
    assert len(found) == 1024  # each counts for a kilobyte, however short


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_json_of_nothing_but_brackets_is_not_built(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"[" + b"[]," * 12_000_000 + b"[]]")
    (told,) = _told(tmp_path / name)
    assert told == "broken_record: 12000002 lists and objects in 36000004 bytes"


def test_nesting_without_end_is_counted(tmp_path: Path, reasons: Callable) -> None:
    deep = "[" * 200_000
    for name in ("a.json", "b.jsonl", "c.ipynb"):
        (tmp_path / name).write_text(deep)
    found = reasons(tmp_path)
    assert list(found.values())[:3] == ["broken_record"] * 3
