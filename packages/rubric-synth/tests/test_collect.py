import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_synth import (
    CollectedFolderError,
    OutputError,
    SourceError,
    SynthConfig,
    collect,
    read_collected,
)
from rubric_synth.collect.collection import CollectProgress

_FILES = {"documents.jsonl", "manifest.json", "rejected.jsonl"}


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_documents_are_written_with_a_manifest_and_read_back(
    tmp_path: Path, folder: Path, package: str, settings: SynthConfig
) -> None:
    (folder / "short.md").write_text("Too few words.")
    out = tmp_path / "out"
    seen: list[CollectProgress] = []
    report = collect(
        [folder, f"python:{package}"],
        out,
        config=settings.collect,
        on_progress=seen.append,
    )
    assert (report.documents, report.by_kind) == (11, {"api": 8, "prose": 3})
    assert report.rejected == {"too_short": 1}
    assert [p.read for p in seen if p.step == "reading"] == list(range(1, 13))
    assert (seen[-1].step, seen[-1].left_out) == ("writing", 1)
    documents = list(read_collected(out))
    assert [d.source for d in documents] == sorted(d.source for d in documents)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["documents"] == 11
    assert set(_bytes(out)) == _FILES
    assert json.loads((out / "rejected.jsonl").read_text())["reason"] == "too_short"


def test_the_same_sources_in_any_order_give_the_same_bytes(
    tmp_path: Path, folder: Path, package: str, settings: SynthConfig
) -> None:
    sources = [folder, f"python:{package}"]
    collect(sources, tmp_path / "a", config=settings.collect)
    collect(sources[::-1], tmp_path / "b", config=settings.collect)
    collect(sources, tmp_path / "a", config=settings.collect)
    assert _bytes(tmp_path / "a") == _bytes(tmp_path / "b")


def test_sources_without_a_document_are_an_error_with_the_reasons(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.bin").write_bytes(b"\0")
    with pytest.raises(SourceError, match="unsupported_type"):
        collect([tmp_path / "in"], tmp_path / "out")
    with pytest.raises(SourceError, match="no source"):
        collect([], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_the_older_folder_whole(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    collect([folder / "tides.md"], out)
    before = _bytes(out)

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device") as caught:
        collect([folder], out)
    assert str(caught.value.path).endswith("documents.jsonl")
    assert _bytes(out) == before


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (lambda line: line[:-20], "line 2, is not a document"),
        (lambda line: line.replace('"kind"', '"kin"'), "line 2, is not a document"),
        (lambda line: line.replace("dough", "cake"), "text and doc_hash differ"),
        (lambda _line: "[1]\n", "line 2, is not a document"),
    ],
    ids=["cut", "wrong key", "changed text", "no object"],
)
def test_a_damaged_line_is_named(
    collected: Callable[[], Path], damage: Callable[[str], str], part: str
) -> None:
    out = collected()
    path = out / "documents.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    dough = next(i for i, line in enumerate(lines) if "dough" in line)
    lines = [lines[0] if dough else lines[1], damage(lines[dough])]
    path.write_text("".join(lines), encoding="utf-8")
    with pytest.raises(CollectedFolderError, match=part) as caught:
        list(read_collected(out))
    assert caught.value.line == 2


def test_a_folder_that_was_not_collected_is_named(tmp_path: Path) -> None:
    with pytest.raises(CollectedFolderError, match="rubric-synth collect"):
        list(read_collected(tmp_path))


def test_what_to_do_is_told_where_nothing_was_collected(tmp_path: Path) -> None:
    path = tmp_path / "recs.jsonl"
    path.write_text('{"words": "a"}\n' * 4)
    with pytest.raises(SourceError) as caught:
        collect([path], tmp_path / "out")
    assert str(caught.value) == (
        f"no document was found in {path}; left out: 4 broken_record (first recs.jsonl:1, none of "
        "the fields text, full_text, fulltext, body, content, description, abstract; set "
        "collect.fields). What to do: name the fields of the records in collect.fields of the "
        "configuration, or mend them"
    )
    (tmp_path / "none").mkdir()
    with pytest.raises(
        SourceError, match=r"none; there is no file to read: .* end in \.docx, .*\.txt"
    ):
        collect([tmp_path / "none"], tmp_path / "out")


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit", "MemoryError"])
def test_a_module_that_would_end_the_process_is_counted(
    tmp_path: Path, package: str, error: str
) -> None:
    (tmp_path / "site" / package / "ends.py").write_text(f"raise {error}")
    report = collect([f"python:{package}"], tmp_path / "out")
    assert report.rejected["import_failed"] == 1
    line = (tmp_path / "out" / "rejected.jsonl").read_text()
    assert f"{package}.ends" in line
    assert error in line


def test_an_interrupt_during_an_import_is_the_users(
    tmp_path: Path, package: str
) -> None:
    code = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept Exception: 0"
    (tmp_path / "site" / package / "ends.py").write_text(code)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        collect([f"python:{package}"], tmp_path / "out")
    assert signal.getsignal(signal.SIGINT) is before
    assert not (tmp_path / "out").exists()
