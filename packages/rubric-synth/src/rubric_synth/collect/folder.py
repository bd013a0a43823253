"""The files of a collected folder, and reading its documents back."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from rubric_core.files import open_file, read_file
from rubric_core.nearest import near
from rubric_synth.config import CollectConfig
from rubric_synth.document import Document
from rubric_synth.errors import CollectedFolderError, OutputError
from rubric_synth.files import json_line

DOCUMENTS_FILE = "documents.jsonl"
REJECTED_FILE = "rejected.jsonl"
MANIFEST_FILE = "manifest.json"
FILES = (DOCUMENTS_FILE, REJECTED_FILE, MANIFEST_FILE)

_START = re.compile(rb'\{"doc_hash": "([0-9a-f]{64})", ')
_HASH = re.compile(r"[0-9a-f]{64}")


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
            if start := _START.match(line):
                doc_hash = start[1].decode()
            else:
                doc_hash = _parsed_hash(line, path, number)
            yield doc_hash, offset
            offset += len(line)


def read_document(file: IO[bytes], offset: int) -> Document:
    """Read the document whose line begins at an offset that `collected_hashes` gave.

    Args:
        file: The documents file, opened for reading bytes.
        offset: Byte offset of the line.

    Raises:
        CollectedFolderError: There is no whole document.
    """
    try:
        file.seek(offset)
        return _document(file.readline(), file.name, None, f"byte {offset}")
    except OSError as error:
        raise _unreadable(str(file.name)) from error


def _document(
    line: bytes,
    path: Path | str,
    number: int | None,
    place: str,
) -> Document:
    """Parse a line once and hash its text once."""
    start = _START.match(line)
    try:
        if start:
            expected = start[1].decode()
            body = b"{" + line[start.end() :]
            document = Document.model_validate_json(body)
        else:
            row = _row(line)
            expected = row.pop("doc_hash", None)
            document = Document.model_validate(row)
    except ValueError:  # not chained: the error of a parser holds the text of the line
        raise CollectedFolderError(
            f"{str(path)!r}, {place}, is not a document; collect again",
            path=path,
            line=number,
        ) from None
    if document.doc_hash != expected:
        raise CollectedFolderError(
            f"{str(path)!r}, {place}: text and doc_hash differ; collect again",
            path=path,
            line=number,
        )
    return document


def _row(line: bytes) -> dict[str, object]:
    """Return the object of a line that another program may have written; else an empty one."""
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return {}


def _parsed_hash(line: bytes, path: Path, number: int) -> str:
    """Read the hash of a line that another program wrote, its fields in another order."""
    doc_hash = _row(line).get("doc_hash")
    if not isinstance(doc_hash, str) or not _HASH.fullmatch(doc_hash):
        place = f"line {number}"
        raise CollectedFolderError(
            f"{str(path)!r}, {place}, is not a document; collect again",
            path=path,
            line=number,
        )
    return doc_hash


def _opened(path: Path) -> IO[bytes]:
    try:
        return open_file(path)
    except OSError as error:
        raise _unreadable(str(path)) from error


def _unreadable(path: str) -> CollectedFolderError:
    return CollectedFolderError(
        f"{path!r} cannot be read; make the folder with `rubric-synth collect`{near(Path(path))}",
        path=path,
    )


class Place(NamedTuple):
    """Place of a document in the earlier collection."""

    order: int
    """Number of documents before it."""
    source: str
    """Source that it came from."""


class Older(NamedTuple):
    """An older collection in the same folder."""

    places: dict[bytes, Place]
    """Place of each document, by its hash."""
    same_thresholds: bool
    """Whether its near duplicates were decided as they are now."""


def read_older(out: Path, config: CollectConfig) -> Older:
    """Read the hashes and sources of the documents that a folder holds, if it holds any.

    Damaged lines are skipped: collecting again repairs them.

    Raises:
        OutputError: Files of these names stand there which `collect` did not write.
    """
    documents = out / DOCUMENTS_FILE
    manifest = out / MANIFEST_FILE
    settings = read_settings(out)
    if settings is None and (manifest.exists() or documents.exists()):
        present = manifest if manifest.exists() else documents
        raise OutputError(
            f"{str(present)!r} was not written by `rubric-synth collect`, which would replace "
            "it; choose another folder",
            path=present,
        )
    older_settings = settings or {}
    names = [f"near_duplicate_{name}" for name in ("jaccard", "containment", "cosine")]
    same_thresholds = all(
        older_settings.get(name) == getattr(config, name) for name in names
    )
    return Older(_places(documents), same_thresholds)


def read_settings(
    folder: Path, *, of: str = DOCUMENTS_FILE
) -> dict[str, object] | None:
    """Return the configuration in the manifest that has the hash of a file; None for any other."""
    try:
        fields = _row(read_file(folder / MANIFEST_FILE))
    except OSError:
        return None
    hashes = fields.get("sha256")
    settings = fields.get("config")
    if not isinstance(hashes, dict) or of not in hashes:
        return None
    if isinstance(settings, dict):
        return cast("dict[str, object]", settings)
    return {}


def _places(documents: Path) -> dict[bytes, Place]:
    places: dict[bytes, Place] = {}
    with contextlib.suppress(OSError), open_file(documents) as lines:
        for order, line in enumerate(lines):
            row = _row(line)
            with contextlib.suppress(ValueError, KeyError):
                doc_hash = bytes.fromhex(str(row["doc_hash"]))
                places.setdefault(doc_hash, Place(order, str(row.get("source"))))
    return places
