import json
import sys
from pathlib import Path

import pytest

from rubric_synth import CollectConfig, Document, Rejection, SourceError
from rubric_synth.sources import read_source

_CONFIG = CollectConfig()


def _read(
    source: str | Path, config: CollectConfig = _CONFIG
) -> list[Document | Rejection]:
    return list(read_source(source, config=config))


def _reasons(found: list[Document | Rejection]) -> dict[str, str]:
    return {
        item.source: str(item.reason) for item in found if isinstance(item, Rejection)
    }


def test_a_folder_is_read_in_order_with_its_subfolders(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "note.txt").write_text("Plain words.")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "x.md").write_text("# No")
    found = _read(folder)
    assert [item.source for item in found] == [
        "articles/dough.md",
        "articles/more/note.txt",
        "articles/steel.md",
        "articles/tides.md",
    ]
    assert isinstance(found[1], Document)
    assert found[1].title == "note"
    assert isinstance(found[3], Document)
    assert found[3].title == "Tides along a coast"


def test_files_that_are_no_text_are_counted_with_their_reason(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "binary.txt").write_bytes(b"ab\0cd")
    (root / "latin.txt").write_bytes("Grünkohl".encode("latin-1"))
    (root / "utf16.txt").write_bytes("words".encode("utf-16"))
    (root / "empty.md").write_text("")
    (root / "blank.md").write_text(" \n\n<!-- only a comment -->")
    (root / "huge.txt").write_bytes(b"word " * 300_000)
    (root / "picture.png").write_bytes(b"\x89PNG")
    (root / "bom.txt").write_bytes("Words after a mark.".encode("utf-8-sig"))
    found = _read(root, CollectConfig(max_document_bytes=1_000_000))
    assert _reasons(found) == {
        "in/binary.txt": "binary",
        "in/latin.txt": "wrong_encoding",
        "in/empty.md": "empty",
        "in/blank.md": "empty",
        "in/huge.txt": "too_long",
        "in/picture.png": "unsupported_type",
    }
    texts = [document.text for document in found if isinstance(document, Document)]
    assert texts == ["Words after a mark.", "words"]


def test_broken_records_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    good = {"id": "a", "title": "Tides", "text": "High water.", "licence": "CC0-1.0"}
    lines = [
        json.dumps(good).encode(),
        b"",
        b"{broken",
        b"[1, 2]",
        json.dumps(good).encode(),
        json.dumps({"id": "b", "title": "x"}).encode(),
        json.dumps({"id": "c", "title": ["x", 3], "text": "x"}).encode(),
        b'{"id": "d", "title": "t", "text": "\\ud800"}',
        b'{"id": "e", "title": "t", "text": "caf\xe9"}',
        b'{"id": "f", "title": "t", "text": "a\\u0000b"}',
        b'{"id": "g", "title": "t", "text": ""}',
        b"[" * 100_000,
    ]
    path.write_bytes(b"\n".join(lines))
    found = _read(path)
    assert [d.source for d in found if isinstance(d, Document)] == ["docs.jsonl#a"]
    assert _reasons(found) == {
        "docs.jsonl:3": "broken_record",
        "docs.jsonl:4": "broken_record",
        "docs.jsonl:5": "duplicate_id",
        "docs.jsonl:6": "broken_record",
        "docs.jsonl:7": "broken_record",
        "docs.jsonl:8": "wrong_encoding",
        "docs.jsonl:9": "wrong_encoding",
        "docs.jsonl:10": "binary",
        "docs.jsonl:11": "empty",
        "docs.jsonl:12": "broken_record",
    }


def test_rejections_hold_no_text_of_the_document(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "secret-id", "title": "secret", "text": {}}\n{"secret": ')
    assert "secret" not in "".join(item.model_dump_json() for item in _read(path))


def test_one_file_can_be_a_source(folder: Path) -> None:
    assert [item.source for item in _read(folder / "tides.md")] == ["articles/tides.md"]


@pytest.mark.parametrize(
    "source", ["nowhere/at/all", "python:no_such_package", "python:a b"]
)
def test_a_missing_source_is_an_error_that_names_it(source: str) -> None:
    with pytest.raises(SourceError, match=source.removeprefix("python:")) as caught:
        _read(source)
    assert caught.value.source == source


def test_public_functions_of_a_package_become_documents(package: str) -> None:
    found = [item for item in _read(f"python:{package}") if isinstance(item, Document)]
    assert len(found) == 8
    assert {item.kind for item in found} == {"api"}
    assert found[0].source == "python:tinylab.ferment_rate"
    assert found[0].text.startswith("# `ferment_rate`, a function of tinylab\n")
    assert found[-1].source.startswith("python:tinylab.field.")


def test_a_package_is_read_quietly_and_its_faults_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "noisylab"
    (root / "tests").mkdir(parents=True)
    (root / "__init__.py").write_text(
        "import warnings\nprint('banner')\nwarnings.warn('old', DeprecationWarning)\n"
        "from os.path import join\n"
        "class Gauge:\n"
        "    '''A gauge that records the level of the water.'''\n"
        "    @classmethod\n"
        "    def read(cls):\n"
        "        '''Read the level of the water from the gauge now.'''\n"
        "    def _private(self):\n"
        "        '''This is private and nobody else needs to know it.'''\n"
        "alias = Gauge\n"
    )
    (root / "broken.py").write_text("raise SystemExit(3)")
    (root / "lacks.py").write_text("import no_such_library")
    (root / "_hidden.py").write_text("raise RuntimeError")
    (root / "tests" / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = _read("python:noisylab")
    for name in [name for name in sys.modules if name.startswith("noisylab")]:
        del sys.modules[name]
    refused = [item for item in found if isinstance(item, Rejection)]
    assert {item.source: (item.reason, item.detail) for item in refused} == {
        "python:noisylab.broken": ("import_failed", "SystemExit"),
        "python:noisylab.lacks": (
            "import_failed",
            "ModuleNotFoundError: no module 'no_such_library'",
        ),
    }
    assert [item.source for item in found if isinstance(item, Document)] == [
        "python:noisylab.Gauge",
        "python:noisylab.Gauge.read",
    ]
    assert capsys.readouterr().out == ""


def test_what_raises_when_it_is_asked_for_leaves_the_rest_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "sulkylab"
    root.mkdir()
    (root / "__init__.py").write_text(
        "class Sulky:\n"
        "    def __call__(self): ...\n"
        "    def __getattribute__(self, name):\n"
        "        raise RuntimeError(name)\n"
        "sulky = Sulky()\n"
        "def read():\n"
        "    '''Read the level of the water from the gauge now.'''\n"
    )
    (root / "lazy.py").write_text(
        "def __getattr__(name):\n    raise ModuleNotFoundError(name)\n"
    )
    (root / "skipped.py").write_text(
        "class Skipped(BaseException): ...\nraise Skipped('a library is missing')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = _read("python:sulkylab")
    for name in [name for name in sys.modules if name.startswith("sulkylab")]:
        del sys.modules[name]
    refused = {
        item.source: item.detail for item in found if isinstance(item, Rejection)
    }
    assert refused == {
        "python:sulkylab.skipped": "Skipped",
        "python:sulkylab.sulky": "RuntimeError",
    }
    read = [item.source for item in found if isinstance(item, Document)]
    assert read == ["python:sulkylab.read"]
