from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from rubric_synth import Document, SourceError
from rubric_synth.sources import raw_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_OSTI = {
    "osti_id": "1234567",
    "title": "Tidal power of <i>estuaries</i>",
    "description": "<p>We measure CO<sub>2</sub> &amp; tides.</p>",
    "doi": "10.0000/1234567",
    "full_text": "A long report on tides.",
    "publication_date": "2020-01-01T00:00:00Z",
}


def test_a_record_gives_its_description_and_then_its_full_text(
    tmp_path: Path, read: Callable
) -> None:
    (tmp_path / "osti.json").write_text(json.dumps([_OSTI]))
    (found,) = read(tmp_path / "osti.json")
    assert found.source == "osti.json#1234567"
    assert found.title == "Tidal power of estuaries"
    assert found.text == "We measure CO2 & tides.\n\nA long report on tides."


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"description": "Only this."}, "Only this."),
        ({"abstract": "Only this.", "text": None}, "Only this."),
        ({"text": "", "body": "Only this."}, "Only this."),
        ({"content": ["One.", "Two."]}, "One.\n\nTwo."),
        (
            {"description": "Tides rise.", "text": "Tides rise. They fall."},
            "Tides rise. They fall.",
        ),
    ],
)
def test_other_names_of_the_fields_count_too(
    tmp_path: Path, read: Callable, record: dict[str, Any], text: str
) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"id": 7, **record}))
    (found,) = read(tmp_path / "a.json")
    assert (found.source, found.title, found.text) == ("a.json#7", "a.json#7", text)


def test_any_data_set_can_be_mapped_by_the_names_of_its_fields(
    tmp_path: Path, read: Callable
) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"key": "k", "head": "T", "article": "Words.", "text": "no"}'
    )
    fields = {"id": ["key"], "title": ["head"], "description": [], "text": ["article"]}
    (found,) = read(tmp_path / "a.jsonl", fields=fields)
    assert (found.source, found.title, found.text) == ("a.jsonl#k", "T", "Words.")


def test_an_id_names_a_record_in_its_file_and_an_osti_number_everywhere(
    tmp_path: Path, read: Callable
) -> None:
    root = tmp_path / "in"
    (root / "more").mkdir(parents=True)
    line = json.dumps(_OSTI) + "\n"
    plain = '{"id": 1, "text": "High water."}\n'
    (root / "a.jsonl").write_text(line + plain + plain)
    (root / "more" / "b.jsonl").write_text(plain + line)
    found = read(root)
    assert [item.source for item in found if isinstance(item, Document)] == [
        "in/a.jsonl#1234567",
        "in/a.jsonl#1",
        "in/more/b.jsonl#1",
    ]
    assert {
        item.source: item.reason for item in found if not isinstance(item, Document)
    } == {
        "in/a.jsonl:3": "duplicate_id",
        "in/more/b.jsonl:2": "duplicate_id",
    }


def test_a_broken_record_does_not_take_the_id_of_a_good_one(
    tmp_path: Path, read: Callable
) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"id": "x", "text": " "}\n{"id": "x", "text": "Words."}'
    )
    empty, good = read(tmp_path / "a.jsonl")
    assert (empty.reason, good.source) == ("empty", "a.jsonl#x")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", {"a.json": "empty"}),
        (b"3", {"a.json:1": "broken_record"}),
        (
            b'["x", {}, null]',
            dict.fromkeys(("a.json:1", "a.json:2", "a.json:3"), "broken_record"),
        ),
        (b"[" * 100_000, {"a.json": "broken_record"}),
        (b'{"text": ' + b"9" * 5000 + b"}", {"a.json": "broken_record"}),
        (b'{"text": {"a": 1}}', {"a.json:1": "broken_record"}),
        (b'{"text": "a", "id": "' + b"i" * 600 + b'"}', {"a.json:1": "broken_record"}),
        (b'{"text": "a", "title": "\\udc80"}', {"a.json:1": "wrong_encoding"}),
        (b'{"text": "caf\xe9"}', {"a.json": "wrong_encoding"}),
        (b'{"text": "' + b"word " * 1000 + b'"}', {"a.json:1": "too_long"}),
        (b" " * 20_000, {"a.json": "too_long"}),
    ],
)
def test_what_is_no_record_is_counted(
    tmp_path: Path, reasons: Callable, content: bytes, expected: dict[str, str]
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    most = 5_000_000 if content.startswith((b"[" * 9, b'{"text": 9')) else 1000
    assert reasons(path, max_document_bytes=most) == expected


def test_compressed_lines_are_read_and_a_broken_end_is_counted(
    tmp_path: Path, read: Callable
) -> None:
    lines = b"".join(
        b'{"id": %d, "text": "Words %d."}\n' % (n, n * 7919) for n in range(3000)
    )
    whole = gzip.compress(lines)
    (tmp_path / "a.jsonl.gz").write_bytes(whole)
    assert len(read(tmp_path / "a.jsonl.gz")) == 3000
    (tmp_path / "a.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    *documents, last = read(tmp_path / "a.jsonl.gz")
    assert documents
    assert all(isinstance(item, Document) for item in documents)
    assert (last.source, last.reason) == (
        f"a.jsonl.gz:{len(documents) + 1}",
        "unreadable",
    )
    (tmp_path / "a.jsonl.gz").write_bytes(b"no gzip")
    (only,) = read(tmp_path / "a.jsonl.gz")
    assert only.reason == "unreadable"


def test_lines_without_end_are_given_up(
    tmp_path: Path, read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rubric_synth.sources.records._MOST_SKIPPED_BYTES", 10_000_000)
    path = tmp_path / "a.jsonl.gz"
    good = b'{"text": "Words."}\n'
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(good + b"\n" * 1_000_000 + good)
        for _ in range(40):
            file.write(b"\n" * 1_000_000)
    first, second, last = read(path)
    assert (first.source, second.source) == ("a.jsonl.gz:1", "a.jsonl.gz:1000002")
    assert (last.source, last.reason) == ("a.jsonl.gz", "too_long")
    assert "blank" in last.detail
    path.write_bytes(gzip.compress(good + b"a" * 20_000_000 + b"\n" + good))
    _, last = read(path, max_document_bytes=1000)
    assert (last.reason, last.detail[-16:]) == ("too_long", "rest is not read")


def test_a_title_is_cut_at_a_word(tmp_path: Path, read: Callable) -> None:
    records = [
        {"text": "Words.", "title": "tide " * 600_000},
        {"text": "W.", "title": "x" * 900},
    ]
    (tmp_path / "a.json").write_text(
        json.dumps([*records, {"text": f"# {'tide ' * 150}\n\nW."}])
    )
    assert [len(item.title) for item in read(tmp_path / "a.json")] == [299, 300, 299]


def test_lines_in_utf_16_and_no_lines_at_all_are_counted(
    tmp_path: Path, reasons: Callable
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "Words."}', "utf-16")
    assert reasons(tmp_path / "a.jsonl") == {"a.jsonl": "wrong_encoding"}
    (tmp_path / "a.jsonl").write_text("\n\n")
    assert reasons(tmp_path / "a.jsonl") == {"a.jsonl": "empty"}


def test_parquet_is_read_row_by_row(tmp_path: Path, read: Callable) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"osti_id": n, "description": f"Tide {n}.", "scores": [1.0]} for n in range(100)
    ]
    parquet.write_table(
        pa.Table.from_pylist([*rows, rows[0], {"osti_id": 500}]), tmp_path / "a.parquet"
    )
    found = read(tmp_path / "a.parquet")
    assert [item.text for item in found[:100]] == [f"Tide {n}." for n in range(100)]
    assert [str(item.reason) for item in found[100:]] == [
        "duplicate_id",
        "broken_record",
    ]


def test_numbers_of_a_table_with_gaps_are_ids(tmp_path: Path, read: Callable) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    nan = float("nan")
    table = pa.table(
        {"id": [7.0, nan], "title": ["T", None], "text": ["High.", "Low."]}
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    assert [item.source for item in read(tmp_path / "a.parquet")] == [
        "a.parquet#7",
        "a.parquet:2",
    ]


def test_broken_and_foreign_parquet_is_counted(
    tmp_path: Path, reasons: Callable
) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    root = tmp_path / "in"
    root.mkdir()
    parquet.write_table(pa.table({"text": ["Words."] * 1000}), root / "cut.parquet")
    whole = (root / "cut.parquet").read_bytes()
    (root / "cut.parquet").write_bytes(whole[:-20])
    (root / "damaged.parquet").write_bytes(whole[:10] + b"\xff" * 10 + whole[20:])
    (root / "empty.parquet").write_bytes(b"")
    parquet.write_table(pa.table({"x": [1]}), root / "foreign.parquet")
    parquet.write_table(
        pa.table({"text": pa.array([], pa.string())}), root / "none.parquet"
    )
    assert reasons(root) == {
        "in/cut.parquet": "broken_record",
        "in/damaged.parquet": "broken_record",
        "in/empty.parquet": "broken_record",
        "in/foreign.parquet:1": "broken_record",
        "in/none.parquet": "empty",
    }


def test_without_its_library_parquet_is_counted_and_named_alone_it_is_an_error(
    tmp_path: Path, reasons: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(raw_text._MODULES, "parquet", "no_such_library")
    assert reasons(root) == {"in/a.parquet": "missing_extra"}
    with pytest.raises(
        SourceError,
        match=r"pip install --no-sources './packages/rubric-synth\[parquet\]'",
    ):
        reasons(root / "a.parquet")
