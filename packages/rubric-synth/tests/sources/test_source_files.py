from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rubric_synth import CollectConfig, Document, SourceError
from rubric_synth.sources import read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BIG = 50_000_000


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-32", "cp1252", "cp1251"]
)
def test_text_in_a_known_encoding_is_read(
    tmp_path: Path, read: Callable, encoding: str
) -> None:
    text = (
        "The mean water temperature is 20 °C at the café on the pier, and the tide falls. "
        * 3
    )
    if encoding == "cp1251":
        text = (
            "Прилив поднимает воду у берега два раза в сутки, и суда входят в гавань. "
            * 3
        )
    (tmp_path / "a.txt").write_text(text.strip(), encoding)
    (found,) = read(tmp_path / "a.txt")
    assert found.text == text.strip()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("Grünkohl".encode("latin-1"), "wrong_encoding"),
        (b"\xff\xfea", "wrong_encoding"),
        ("Größe, Wärme, Länge und Härte. ".encode() * 9 + b"\xc3", "wrong_encoding"),
        (bytes(range(1, 256)) * 40, "wrong_encoding"),
        (b"\x01\x02words\x03" * 100, "binary"),
        (b"PK\x03\x04\0\0\0", "binary"),
        (bytes(range(256)) * 40, "binary"),
        (b"\x7fELF" + bytes(2000) + b"\x01\x02\x03\x04" * 99, "binary"),
        (("High water comes twice a day. " * 9).encode("utf-16-le"), "wrong_encoding"),
        (("High water comes twice a day. " * 9).encode("utf-32-be"), "wrong_encoding"),
        (
            ("Прилив бывает два раза в сутки. " * 9).encode("utf-16-be"),
            "wrong_encoding",
        ),
        (b"\r\n \t\x0c", "empty"),
    ],
)
def test_bytes_that_are_no_text_are_counted(
    tmp_path: Path, reasons: Callable, data: bytes, reason: str
) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert list(reasons(tmp_path / "a.txt").values()) == [reason]


def test_what_is_no_file_is_counted_and_never_waited_for(
    tmp_path: Path, reasons: Callable
) -> None:
    root = tmp_path / "in"
    (root / "below").mkdir(parents=True)
    os.mkfifo(root / "pipe.txt")
    os.mkfifo(root / "pipe.pdf")
    (root / "below" / "back").symlink_to(root)
    (root / "endless.txt").symlink_to("/dev/zero")
    (root / "loop.md").symlink_to("loop.md")
    (root / "gone.html").symlink_to(root / "nothing")
    (root / "plain.txt").write_text("Words.")
    (root / "linked.txt").symlink_to(root / "plain.txt")
    assert reasons(root) == {
        "in/below/back": "unsupported_type",
        "in/endless.txt": "unsupported_type",
        "in/gone.html": "unreadable",
        "in/loop.md": "unreadable",
        "in/pipe.pdf": "unsupported_type",
        "in/pipe.txt": "unsupported_type",
    }
    with pytest.raises(SourceError):
        read_source(root / "pipe.txt", config=CollectConfig())


def test_a_file_that_vanishes_while_its_folder_is_read_is_counted(
    tmp_path: Path,
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text("Words.")
    found = read_source(tmp_path, config=CollectConfig())
    assert isinstance(next(found), Document)
    (tmp_path / "b.txt").unlink()
    (tmp_path / "c.txt").unlink()
    assert [item.reason for item in found if not isinstance(item, Document)] == [
        "unreadable"
    ] * 2


def test_files_and_folders_without_permission_are_counted(reasons: Callable) -> None:
    root = Path(tempfile.mkdtemp()) / "in"
    try:
        (root / "closed").mkdir(parents=True)
        for name in (
            "a.txt",
            "b.pdf",
            "c.jsonl",
            "d.parquet",
            "e.html",
            "f.json",
            "open.txt",
        ):
            (root / name).write_text("Words.")
            (root / name).chmod(0o644 if name == "open.txt" else 0)
        (root / "closed").chmod(0)
        for folder in (root, root.parent):
            folder.chmod(0o755)
        reasons(root)  # imports what it needs while it may
        with _unprivileged():
            found = reasons(root)
        assert found == dict.fromkeys(
            (
                "in/a.txt",
                "in/b.pdf",
                "in/c.jsonl",
                "in/closed",
                "in/d.parquet",
                "in/e.html",
                "in/f.json",
            ),
            "unreadable",
        )
    finally:
        (root / "closed").chmod(0o755)
        shutil.rmtree(root.parent)


def test_folders_may_lie_deeper_than_functions_may(
    tmp_path: Path, reasons: Callable
) -> None:
    here = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(1100):
            os.mkdir("d")  # noqa: PTH102 - relative, since the whole path is too long
            os.chdir("d")
        Path("a.txt").write_text("Words.")
    finally:
        os.chdir(here)
    try:
        assert len(reasons(tmp_path)) <= 1  # what the system cannot name is unreadable
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_names_of_files_may_be_no_text(tmp_path: Path, read: Callable) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("Words.")
    (found,) = read(tmp_path)
    assert found.source == f"{tmp_path.name}/caf\\udce9.txt"
    assert found.title == "caf\\udce9"
    found.model_dump_json()


def test_50_megabytes_of_anything_cost_little_memory(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    words = b"word " * (_BIG // 250)
    for name in ("a.txt", "b.md", "c.html", "d.json", "e.jsonl"):
        with (root / name).open("wb") as file:
            file.write(b'{"id": 1, "text": "')
            for _ in range(50):
                file.write(words)
            file.write(b'"}\n{"id": 2, "text": "Words."}')
    with gzip.open(root / "f.jsonl.gz", "wb", compresslevel=1) as file:
        for _ in range(50):
            file.write(words)
    script = (
        "import resource, sys\n"
        "from rubric_synth import CollectConfig\n"
        "from rubric_synth.sources import read_source\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "found = list(read_source(sys.argv[1], config=CollectConfig(languages=())))\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(after - before, *(getattr(item, 'reason', 'document') for item in found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    grown_kb, *outcomes = done.stdout.split()
    *first, whole_json, long_line, second_line, endless_line = outcomes
    assert [*first, long_line, endless_line] == ["too_long"] * 5
    assert (whole_json, second_line) == ("broken_record", "document")
    assert int(grown_kb) < 250_000


@contextmanager
def _unprivileged() -> Iterator[None]:
    """Be nobody for a while, where the tests run as root, whom no permission stops."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)
