"""JSON Lines, plain or compressed with gzip, and JSON files of one record or a list of them."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

from rubric_core.files import Expansion, TooLargeError
from rubric_synth.config import CollectConfig
from rubric_synth.document import Document
from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.sources.opening import SourceFile, unreadable
from rubric_synth.sources.raw_text import NotTextError, decoded, too_long
from rubric_synth.sources.records import RecordReader

JSON_LINES_SUFFIXES: Final = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_OTHER_FIELDS: Final = 8  # escapes and other fields: a line may be so many times its text
_WHOLE_FILE: Final = 16  # a JSON file is in memory whole, so it may not be any size
_CHUNK_BYTES: Final = 1 << 20
_MOST_BLANK_BYTES: Final = 1 << 22  # in a row; compressed, they cost no more than a few bytes
_MOST_SKIPPED_BYTES: Final = 1 << 30  # of one line
_FEW_CONTAINERS: Final = 1 << 20
_CONTAINER_BYTES: Final = 8  # of a file, for each list and object; a text has hundreds
_WIDE_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_json_lines(
    file: SourceFile, *, records: RecordReader, config: CollectConfig
) -> Iterator[Document | Rejection]:
    """Yield one document per line, in the order of the file; blank lines are skipped."""
    name = file.source
    number = 0
    most = _OTHER_FIELDS * config.max_document_bytes
    try:
        with file.open() as opened:
            for number, line in _unpacked_lines(opened, name, most=most):
                try:
                    if isinstance(line, int):
                        raise too_long(f"a line of {line} bytes", most)
                    yield records.document(_parsed(line), file=name, number=number)
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
    file: SourceFile, *, records: RecordReader, config: CollectConfig
) -> Iterator[Document | Rejection]:
    """Yield the documents of a JSON file, in its order."""
    try:
        content = _parsed(file.read(most=_WHOLE_FILE * config.max_document_bytes))
    except NotTextError as error:
        yield error.rejection(file.source)
        return
    found = cast("list[object]", content) if isinstance(content, list) else [content]
    for number, record in enumerate(found, start=1):
        yield records.item(record, file=file.source, number=number)


def _unpacked_lines(file: BinaryIO, name: str, *, most: int) -> Iterator[tuple[int, bytes | int]]:
    """Yield the lines of a file that may be compressed, as long as they are in proportion to it.

    Raises:
        NotTextError: It unpacks to far more than text does, or is no text.
    """
    if not name.lower().endswith(".gz"):
        yield from _lines(file, most=most)
        return
    expansion = Expansion(os.fstat(file.fileno()).st_size)
    for number, line in _lines(cast("BinaryIO", gzip.GzipFile(fileobj=file)), most=most):
        try:
            expansion.add(line if isinstance(line, int) else len(line), place=f"line {number}")
        except TooLargeError as error:
            raise NotTextError(RejectionReason.TOO_LONG, str(error)) from None
        yield number, line


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
                    what = f"a line of more than {_MOST_SKIPPED_BYTES} bytes"
                    raise too_long(what, most, more="; the rest is not read")
            yield number, size + len(more)
        elif line.strip():
            blank = 0
            yield number, line
        else:
            blank += size
            if blank > _MOST_BLANK_BYTES:
                detail = f"{blank} blank bytes to line {number}, above {_MOST_BLANK_BYTES}"
                raise NotTextError(RejectionReason.TOO_LONG, f"{detail}; the rest is not read")


def _parsed(data: bytes) -> object:
    """Return the content of JSON.

    Raises:
        NotTextError: It is none, is not UTF-8, or is nested too deeply.
    """
    if not data.strip():
        raise NotTextError(RejectionReason.EMPTY, f"{len(data)} bytes")
    containers = data.count(b"[") + data.count(b"{")
    if containers > max(_FEW_CONTAINERS, len(data) // _CONTAINER_BYTES):
        detail = f"{containers} lists and objects in {len(data)} bytes"
        raise NotTextError(RejectionReason.BROKEN_RECORD, detail)
    try:
        return json.loads(
            decoded(data) if data.startswith(_WIDE_MARKS) else data.decode("utf-8-sig")
        )
    except UnicodeDecodeError as error:
        detail = f"not UTF-8 at byte {error.start}"
        raise NotTextError(RejectionReason.WRONG_ENCODING, detail) from None
    except json.JSONDecodeError as error:
        detail = f"not JSON at line {error.lineno}, column {error.colno}"
    except ValueError:
        detail = "a number too long"  # a whole one of thousands of digits
    except RecursionError:
        detail = "nested too deeply"
    raise NotTextError(RejectionReason.BROKEN_RECORD, detail)
