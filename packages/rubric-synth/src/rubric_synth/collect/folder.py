"""The files of a collected folder, and reading its documents back."""

from __future__ import annotations

import json
import re
from typing import IO, TYPE_CHECKING, Final, cast

from pydantic import ValidationError

from rubric_core.files import open_file
from rubric_synth.document import Document
from rubric_synth.errors import CollectedFolderError
from rubric_synth.files import json_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCUMENTS_FILE: Final = "documents.jsonl"
REJECTED_FILE: Final = "rejected.jsonl"
MANIFEST_FILE: Final = "manifest.json"

_START: Final = re.compile(rb'\{"doc_hash": "([0-9a-f]{64})", ')
_HASH: Final = re.compile(r"[0-9a-f]{64}")


def document_line(document: Document) -> bytes:
    """Return the line of a document: its hash first, so that a scan need not parse the rest."""
    row = {"doc_hash": document.doc_hash, **document.model_dump(mode="json")}
    return json_line(row)


def read_collected(folder: Path) -> Iterator[Document]:
    """Yield the documents of a collected folder.

    Raises:
        CollectedFolderError: The folder was not written by `collect`, or a line of it is damaged.
    """
    path = folder / DOCUMENTS_FILE
    with _opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            yield _document(line, path, number, f"line {number}")


def collected_hashes(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the hash of each document and the byte offset of its line, without its text.

    Raises:
        CollectedFolderError: The folder was not written by `collect`, or a line of it has no hash.
    """
    path = folder / DOCUMENTS_FILE
    with _opened(path) as lines:
        offset = 0
        for number, line in enumerate(lines, start=1):
            start = _START.match(line)
            yield start[1].decode() if start else _parsed_hash(line, path, number), offset
            offset += len(line)


def read_document(file: IO[bytes], offset: int) -> Document:
    """Read the document whose line begins at an offset that `collected_hashes` gave.

    Args:
        file: The documents file, opened for reading bytes.
        offset: Of the line.

    Raises:
        CollectedFolderError: There is no whole document.
    """
    try:
        file.seek(offset)
        line = file.readline()
    except OSError as error:
        raise _unreadable(str(file.name)) from error
    return _document(line, file.name, None, f"byte {offset}")


def _document(line: bytes, path: Path | str, number: int | None, place: str) -> Document:
    """Parse a line once and hash its text once."""
    start = _START.match(line)
    try:
        if start:
            expected, body = start[1].decode(), b"{" + line[start.end() :]
            document = Document.model_validate_json(body)
        else:
            row = cast("dict[str, object]", dict(json.loads(line)))
            expected = row.pop("doc_hash", None)
            document = Document.model_validate(row)
    except (ValidationError, ValueError, TypeError, RecursionError):
        # Not chained: the error of a parser holds the text of the line.
        message = f"{str(path)!r}, {place}, is not a document; collect again"
        raise CollectedFolderError(message, path=path, line=number) from None
    if document.doc_hash != expected:
        message = f"{str(path)!r}, {place}: text and doc_hash differ; collect again"
        raise CollectedFolderError(message, path=path, line=number)
    return document


def _parsed_hash(line: bytes, path: Path, number: int) -> str:
    """Read the hash of a line that another program wrote, its fields in another order."""
    try:
        found = cast("dict[str, object]", dict(json.loads(line))).get("doc_hash")
    except (ValueError, TypeError, RecursionError):
        found = None
    if not isinstance(found, str) or not _HASH.fullmatch(found):
        message = f"{str(path)!r}, line {number}, is not a document; collect again"
        raise CollectedFolderError(message, path=path, line=number)
    return found


def _opened(path: Path) -> IO[bytes]:
    try:
        return open_file(path)
    except OSError as error:
        raise _unreadable(str(path)) from error


def _unreadable(path: str) -> CollectedFolderError:
    message = f"{path!r} cannot be read; make the folder with `rubric-synth collect`"
    return CollectedFolderError(message, path=path)
