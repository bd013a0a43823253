"""JSONL files of `{"id", "title", "text"}` records; other fields are ignored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, cast

from rubric_synth.cleaning import document_title
from rubric_synth.document import Document
from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.sources.raw_text import NotTextError, cleaned, decoded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rubric_synth.config import CollectConfig

_FIELDS: Final = ("id", "title", "text")


def read_records(path: Path, *, config: CollectConfig) -> Iterator[Document | Rejection]:
    """Yield one document per line, in the order of the file; blank lines are skipped."""
    seen: set[str] = set()
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    yield _read_line(line, path.name, seen, config)
                except NotTextError as error:
                    yield error.rejection(f"{path.name}:{number}")
    except OSError as error:
        yield NotTextError(RejectionReason.UNREADABLE, type(error).__name__).rejection(path.name)


def _read_line(line: bytes, file_name: str, seen: set[str], config: CollectConfig) -> Document:
    if len(line) > config.max_document_bytes:
        raise NotTextError(RejectionReason.TOO_LONG, f"{len(line)} bytes")
    identifier, title, raw = _fields(decoded(line))
    if identifier in seen:
        detail = f"id with {len(identifier)} characters"
        raise NotTextError(RejectionReason.DUPLICATE_ID, detail)
    seen.add(identifier)
    text = cleaned(raw)
    heading = " ".join(cleaned(title).split()) if title.strip() else document_title(text)
    return Document(
        title=heading or identifier, text=text, source=f"{file_name}#{cleaned(identifier)}"
    )


def _fields(line: str) -> tuple[str, str, str]:
    try:
        record: object = json.loads(line)
    except json.JSONDecodeError as error:
        detail = f"not JSON at column {error.colno}"
        raise NotTextError(RejectionReason.BROKEN_RECORD, detail) from None
    except RecursionError:
        raise NotTextError(RejectionReason.BROKEN_RECORD, "nested too deeply") from None
    if not isinstance(record, dict):
        detail = f"a {type(record).__name__}, not an object"
        raise NotTextError(RejectionReason.BROKEN_RECORD, detail)
    values = [cast("dict[str, object]", record).get(name) for name in _FIELDS]
    for name, value in zip(_FIELDS, values, strict=True):
        if not isinstance(value, str):
            detail = f"field {name!r} is missing or no text"
            raise NotTextError(RejectionReason.BROKEN_RECORD, detail)
    identifier, title, raw = map(str, values)
    return identifier, title, raw
