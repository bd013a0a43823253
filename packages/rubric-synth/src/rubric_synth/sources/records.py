"""JSONL files of `{"id", "title", "text"}` records; other fields are ignored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, cast

from rubric_synth.cleaning import clean_markdown, document_title
from rubric_synth.document import Document
from rubric_synth.rejection import Rejection, RejectionReason

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
                if line.strip():
                    yield _read_line(line, f"{path.name}:{number}", path.name, seen, config)
    except OSError as error:
        yield Rejection(
            source=path.name,
            stage="collect",
            reason=RejectionReason.UNREADABLE,
            detail=type(error).__name__,
        )


def _read_line(
    line: bytes, place: str, file_name: str, seen: set[str], config: CollectConfig
) -> Document | Rejection:
    def rejected(reason: RejectionReason, detail: str) -> Rejection:
        return Rejection(source=place, stage="collect", reason=reason, detail=detail)

    if len(line) > config.max_document_bytes:
        return rejected(RejectionReason.TOO_LONG, f"{len(line)} bytes")
    try:
        record: object = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return rejected(RejectionReason.WRONG_ENCODING, f"not UTF-8 at byte {error.start}")
    except json.JSONDecodeError as error:
        return rejected(RejectionReason.BROKEN_RECORD, f"not JSON at column {error.colno}")
    except RecursionError:
        return rejected(RejectionReason.BROKEN_RECORD, "nested too deeply")
    if not isinstance(record, dict):
        return rejected(RejectionReason.BROKEN_RECORD, f"a {type(record).__name__}, not an object")
    fields = cast("dict[str, object]", record)
    for name in _FIELDS:
        if not isinstance(fields.get(name), str):
            return rejected(RejectionReason.BROKEN_RECORD, f"field {name!r} is missing or no text")
    identifier, title, raw = (str(fields[name]) for name in _FIELDS)
    if identifier in seen:
        return rejected(RejectionReason.DUPLICATE_ID, f"id with {len(identifier)} characters")
    seen.add(identifier)
    if not all(_is_unicode(text) for text in (identifier, title, raw)):
        return rejected(RejectionReason.WRONG_ENCODING, "half of a surrogate pair")
    if "\0" in raw:
        return rejected(RejectionReason.BINARY, f"{len(raw)} characters")
    text = clean_markdown(raw)
    if not text:
        return rejected(RejectionReason.EMPTY, f"{len(raw)} characters")
    heading = " ".join(title.split()) or document_title(text) or identifier
    return Document(title=heading or file_name, text=text, source=f"{file_name}#{identifier}")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
