"""JSON Lines, plain or compressed with gzip, and JSON files of one record or a list of them."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from typing import TYPE_CHECKING, Final, cast

from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.sources.opening import open_regular, read_regular, unreadable
from rubric_synth.sources.raw_text import NotTextError, decoded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from rubric_synth.config import CollectConfig
    from rubric_synth.document import Document
    from rubric_synth.sources.records import RecordReader

JSON_LINES_SUFFIXES: Final = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_OTHER_FIELDS: Final = 8  # escapes and other fields: a line may be so many times its text
_WHOLE_FILE: Final = 16  # a JSON file is in memory whole, so it may not be any size
_CHUNK_BYTES: Final = 1 << 20
_MOST_BLANK_BYTES: Final = 1 << 22  # in a row; compressed, they cost no more than a few bytes
_MOST_SKIPPED_BYTES: Final = 1 << 30  # of one line
_WIDE_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_json_lines(
    path: Path, name: str, *, records: RecordReader, config: CollectConfig
) -> Iterator[Document | Rejection]:
    """Yield one document per line, in the order of the file; blank lines are skipped."""
    number = 0
    try:
        with open_regular(path) as file, _plain(file, path) as plain:
            most = _OTHER_FIELDS * config.max_document_bytes
            for number, line in _lines(plain, most=most):
                try:
                    yield records.document(_parsed(_complete(line)), file=name, number=number)
                except NotTextError as error:
                    yield error.rejection(f"{name}:{number}")
    except NotTextError as error:
        yield error.rejection(name)
    except (OSError, EOFError, zlib.error) as error:
        yield unreadable(error).rejection(f"{name}:{number + 1}")
    else:
        if not number:
            yield NotTextError(RejectionReason.EMPTY, "no record").rejection(name)


def read_json(
    path: Path, name: str, *, records: RecordReader, config: CollectConfig
) -> Iterator[Document | Rejection]:
    """Yield the documents of a JSON file, in its order."""
    try:
        data = read_regular(path, most=_WHOLE_FILE * config.max_document_bytes)
        content = _parsed(data)
    except NotTextError as error:
        yield error.rejection(name)
        return
    found = cast("list[object]", content) if isinstance(content, list) else [content]
    for number, record in enumerate(found, start=1):
        try:
            yield records.document(record, file=name, number=number)
        except NotTextError as error:
            yield error.rejection(f"{name}:{number}")


def _plain(file: BinaryIO, path: Path) -> BinaryIO:
    compressed = path.name.lower().endswith(".gz")
    return cast("BinaryIO", gzip.GzipFile(fileobj=file)) if compressed else file


def _lines(file: BinaryIO, *, most: int) -> Iterator[tuple[int, bytes | int]]:
    """Yield the number of each line that is not blank, and the line, or its length if too long."""
    number = blank = 0
    while line := file.readline(most):
        number += 1
        size = len(line)
        if number == 1 and line.startswith(_WIDE_MARKS):
            raise NotTextError(RejectionReason.WRONG_ENCODING, "UTF-16; JSON Lines are UTF-8")
        if size == most and not line.endswith(b"\n"):
            blank = 0
            while (more := file.readline(_CHUNK_BYTES)) and not more.endswith(b"\n"):
                size += len(more)
                if size > _MOST_SKIPPED_BYTES:
                    detail = f"a line of more than {size} bytes; the rest is not read"
                    raise NotTextError(RejectionReason.TOO_LONG, detail)
            yield number, size + len(more)
        elif line.strip():
            blank = 0
            yield number, line
        else:
            blank += size
            if blank > _MOST_BLANK_BYTES:
                detail = f"{blank} blank bytes to line {number}; the rest is not read"
                raise NotTextError(RejectionReason.TOO_LONG, detail)


def _complete(line: bytes | int) -> bytes:
    if isinstance(line, int):
        raise NotTextError(RejectionReason.TOO_LONG, f"a line of {line} bytes")
    return line


def _parsed(data: bytes) -> object:
    """Return the content of JSON.

    Raises:
        NotTextError: It is none, is not UTF-8, or is nested too deeply.
    """
    if not data.strip():
        raise NotTextError(RejectionReason.EMPTY, f"{len(data)} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data.startswith(_WIDE_MARKS):
            text = decoded(data)
        else:
            detail = f"not UTF-8 at byte {error.start}"
            raise NotTextError(RejectionReason.WRONG_ENCODING, detail) from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        detail = f"not JSON at line {error.lineno}, column {error.colno}"
        raise NotTextError(RejectionReason.BROKEN_RECORD, detail) from None
    except ValueError:  # a whole number of thousands of digits
        raise NotTextError(RejectionReason.BROKEN_RECORD, "a number too long") from None
    except RecursionError:
        raise NotTextError(RejectionReason.BROKEN_RECORD, "nested too deeply") from None
