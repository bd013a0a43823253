"""PDF files made in a few lines, and a reader of sources."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from rubric_synth import CollectConfig, Document, Rejection
from rubric_synth.sources import read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Found = list[Document | Rejection]


@pytest.fixture
def read() -> Callable[..., Found]:
    """Read a source whole, in any language unless told otherwise."""

    def all_of(source: str | Path, **settings: object) -> Found:
        config = CollectConfig.model_validate({"languages": (), **settings})
        return list(read_source(source, config=config))

    return all_of


@pytest.fixture
def reasons(read: Callable[..., Found]) -> Callable[..., dict[str, str]]:
    """Read a source and map what was left out to its reason."""

    def of(source: str | Path, **settings: object) -> dict[str, str]:
        found = read(source, **settings)
        return {
            item.source: str(item.reason)
            for item in found
            if isinstance(item, Rejection)
        }

    return of


@pytest.fixture
def kill_reader() -> Callable[[], None]:
    """Kill the process that reads files for this one."""

    def kill() -> None:
        listed = subprocess.run(
            ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "pid=,args="],
            capture_output=True,
            text=True,
            check=True,
        )
        lines = [line for line in listed.stdout.splitlines() if "converter.py" in line]
        (child,) = [int(line.split()[0]) for line in lines]
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

    return kill


@pytest.fixture
def pdf() -> Callable[..., bytes]:
    """Make a PDF: per page, lines of text, each with its size, on equal distances."""

    def make(
        pages: Sequence[Sequence[str | tuple[str, int]]], *, encrypted: bool = False
    ) -> bytes:
        numbers = [4 + 2 * index for index in range(len(pages))]
        kids = " ".join(f"{number} 0 R" for number in numbers)
        objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        ]
        for number, lines in zip(numbers, pages, strict=True):
            content = _content(lines)
            objects += [
                b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources "
                b"<< /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" % (number + 1),
                b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content),
            ]
        trailer = b"/Root 1 0 R"
        if encrypted:  # with a password that nobody knows
            secret = b"41" * 32
            objects.append(
                b"<< /Filter /Standard /V 1 /R 2 /O <%b> /U <%b> /P -4 >>"
                % (secret, secret)
            )
            trailer += b" /Encrypt %d 0 R /ID [<00> <00>]" % len(objects)
        return _file(objects, trailer)

    return make


def _content(lines: Sequence[str | tuple[str, int]]) -> bytes:
    shown = [b"BT 14 TL 60 780 Td"]
    for line in lines:
        text, size = (line, 10) if isinstance(line, str) else line
        raw = (
            text.encode("cp1252")
            .replace(b"\\", rb"\\")
            .replace(b"(", rb"\(")
            .replace(b")", rb"\)")
        )
        shown.append(b"/F1 %d Tf (%b) Tj T*" % (size, raw))
    return b"\n".join([*shown, b"ET"])


def _file(objects: Sequence[bytes], trailer: bytes) -> bytes:
    data = b"%PDF-1.4\n"
    places: list[int] = []
    for number, content in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return data + (
        b"xref\n0 %d\n0000000000 65535 f \n%btrailer << /Size %d %b >>\nstartxref\n%d\n%%%%EOF\n"
        % (size, table, size, trailer, len(data))
    )


@pytest.fixture
def typeset() -> Callable[..., bytes]:
    """Make a PDF of one page: runs of bytes with their places and sizes, in the order given."""

    def make(
        runs: Sequence[tuple[float, float, int, bytes]],
        *,
        font: bytes = b"/Type /Font /Subtype /Type1 /BaseFont /Times-Roman",
    ) -> bytes:
        shown = b"\n".join(
            b"/F1 %d Tf 1 0 0 1 %.1f %.1f Tm <%b> Tj"
            % (size, left, top, text.hex().encode())
            for left, top, size, text in runs
        )
        content = b"BT\n%b\nET" % shown
        objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
            b"<< %b >>" % font,
            (
                b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources "
                b"<< /Font << /F1 3 0 R >> >> /Contents 5 0 R >>"
            ),
            b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content),
        ]
        return _file(objects, b"/Root 1 0 R")

    return make
