"""Readers of records with an id, a title and a text, from tables and from files of JSON."""

import codecs
import contextlib
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from rubric_core.expansion import Expansion, TooLargeError
from rubric_synth.config import CollectConfig
from rubric_synth.document import Document, Found, Rejection, RejectionReason
from rubric_synth.errors import SourceError
from rubric_synth.sources import raw_text
from rubric_synth.sources.cleaning import markup
from rubric_synth.sources.conversion import IsolatedReader
from rubric_synth.sources.raw_text import NotTextError, SourceFile

_MAX_ID_CHARS = 500
_MOST_NUMBER = 10**18


class RecordReader:
    """Reader of the records of one source, which remembers the ids that it saw.

    An OSTI number or a DOI names a record everywhere, so that it counts once in all files of the
    source; any other id names it in its own file.
    """

    def __init__(self, config: CollectConfig) -> None:
        """Begin without an id."""
        self._fields = config.fields
        self.most = config.max_document_bytes
        """Largest size of a text in bytes."""
        # With escapes and other fields, a row may be so many times its text.
        self.most_row = 8 * self.most
        """Largest size of a row of a table, or of a line, in bytes."""
        self._seen: set[bytes] = set()

    @property
    def job(self) -> dict[str, object]:
        """Job of the process that reads a table: the names of all fields, and a limit."""
        fields = self._fields
        columns = (*fields.id, *fields.title, *fields.description, *fields.text)
        return {"columns": columns, "most": self.most_row}

    def document(
        self,
        record: object,
        *,
        file: str,
        number: int,
    ) -> Document:
        """Return the document of a record.

        Args:
            record: The record, as the file holds it.
            file: Name of the file.
            number: Number of the line or row.

        Raises:
            NotTextError: The record is not an object, has no text, or repeats an id.
        """
        if not isinstance(record, dict):
            detail = f"a {type(record).__name__}, not an object"
            raise NotTextError(RejectionReason.BROKEN_RECORD, detail)
        columns = cast("dict[str, object]", record)
        raw = raw_text.short_enough(self._raw_text(columns), most=self.most)
        identifier, key = self._identifier(columns, file)
        text = raw_text.cleaned(raw)
        self._seen.add(key)
        _, raw_title = _field(columns, self._fields.title)
        title = markup.short_title(_one_line(raw_title))
        name = f"{file}#{identifier}" if identifier else f"{file}:{number}"
        return Document(
            title=title or markup.document_title(text) or name, text=text, source=name
        )

    def item(
        self,
        record: object,
        *,
        file: str,
        number: int,
    ) -> Document | Rejection:
        """Return the document of a record, or the rejection of the record."""
        try:
            return self.document(record, file=file, number=number)
        except NotTextError as error:
            return error.rejection(f"{file}:{number}")

    def _raw_text(self, columns: Mapping[str, object]) -> str:
        description = markup.without_tags(
            _field(columns, self._fields.description)[1]
        ).strip()
        name, text = _field(columns, self._fields.text)
        if not name and not description:
            names = ", ".join((*self._fields.text, *self._fields.description))
            detail = f"none of the fields {names}; set collect.fields"
            raise NotTextError(RejectionReason.BROKEN_RECORD, detail)
        text = markup.paragraphs_of_tags(text)
        if not description or description in text:
            return text
        return f"{description}\n\n{text}"

    def _identifier(
        self,
        columns: Mapping[str, object],
        file: str,
    ) -> tuple[str, bytes]:
        """Return the id, "" for none, and the key by which to remember it."""
        name, value = _field(columns, self._fields.id)
        identifier = _one_line(value)
        if not identifier:
            return "", b""
        detail = f"id with {len(identifier)} characters"
        if len(identifier) > _MAX_ID_CHARS:
            raise NotTextError(RejectionReason.BROKEN_RECORD, detail)
        scope = "" if name in {"osti_id", "doi"} else file
        key = hashlib.sha256(f"{scope}\0{name}\0{identifier}".encode()).digest()[:16]
        if key in self._seen:
            raise NotTextError(RejectionReason.DUPLICATE_ID, detail)
        return identifier, key


def _field(columns: Mapping[str, object], names: Sequence[str]) -> tuple[str, str]:
    """Return the first of the named fields that holds something, and its text; two "" for none."""
    empty = ""
    for name in names:
        value = columns.get(name)
        if value is None or value != value:  # noqa: PLR0124 - NaN stands for nothing in a table
            continue
        if value in ("", []):
            empty = empty or name
            continue
        text = _text(value)
        if text is None:
            raise NotTextError(
                RejectionReason.BROKEN_RECORD, f"field {name!r} is no text"
            )
        return name, text
    return empty, ""


def _text(value: object) -> str | None:
    match value:
        case str():
            return value
        case float() if value.is_integer():  # a table with gaps has no integers
            return _text(int(value))
        case int() if not isinstance(value, bool) and abs(value) < _MOST_NUMBER:
            return str(value)
        case list():
            parts = cast("list[object]", value)
            texts = [part for part in parts if isinstance(part, str)]
            if len(texts) == len(parts):
                return "\n\n".join(texts)
            return None
        case _:
            return None


def _one_line(raw: str) -> str:
    """Return a title or an id without tags, control characters and line ends."""
    return raw_text.encodable(
        " ".join(markup.normal_characters(markup.without_tags(raw)).split())
    )


def read_parquet(
    file: SourceFile,
    *,
    records: RecordReader,
    reader: IsolatedReader,
) -> Found:
    """Yield one document per row, in the order of the file."""

    def answers() -> Iterator[dict[str, object]]:
        raw_text.need_extra("parquet")
        with file.open() as opened:
            yield from reader.answers({"kind": "parquet", **records.job}, opened)

    return _documents(answers(), records=records, file=file.source)


def read_hugging_face(location: str, *, config: CollectConfig) -> Found:
    """Yield one document per row of a data set, split by split: `PATH` or `PATH:SPLIT`.

    Args:
        location: A folder that `save_to_disk` wrote, or a path that `load_dataset` takes; after it
            a colon and a split, or else all splits are read.
        config: Limits, and names of fields.

    Raises:
        SourceError: `datasets` is not installed, or cannot open it, or there is no such split.
    """
    source = f"hf:{location}"
    raw_text.need_extra("datasets", source=source)
    path, _, split = location.rpartition(":")
    if not path or Path(location).exists():
        path = location
        split = ""
    reader = IsolatedReader(timeout_s=None)  # the network may take its time
    try:
        answer = reader.answer({"kind": "dataset", "path": path})
    except NotTextError as error:
        answer = {"error": error.detail}
    splits: list[str] = list(answer.get("splits", ()))
    if "splits" in answer and (not split or split in splits):
        chosen = [split] if split else splits
        return _rows(reader, path, chosen, RecordReader(config))
    reader.close()
    if "splits" in answer:
        message = f"source {source!r} has no split {split!r}; it has {sorted(splits)!r}"
    else:
        message = (
            f"source {source!r} cannot be opened by `datasets` ({answer['error']})"
        )
        if not Path(path).exists():
            message += (
                f"; there is no folder {path!r} here either: check the name, and that the "
                "Hugging Face Hub can be reached"
            )
    raise SourceError(message, source=source)


def _rows(
    reader: IsolatedReader,
    path: str,
    splits: list[str],
    records: RecordReader,
) -> Found:
    """Yield the documents; where reading breaks off, one rejection says at which row."""
    folder = Path(path)
    name = folder.resolve().name if folder.exists() else path
    job = {"kind": "dataset", "path": path, **records.job}
    with contextlib.closing(reader):
        for split in splits:
            answers = reader.answers({**job, "split": split})
            yield from _documents(answers, records=records, file=f"hf:{name}:{split}")


def _documents(
    answers: Iterator[dict[str, Any]],
    *,
    records: RecordReader,
    file: str,
) -> Found:
    """Yield one document per row of a table; the process gives the size alone of a large row."""
    number = 0
    try:
        for number, answer in enumerate(answers, start=1):
            if "bytes" in answer:
                error = raw_text.too_long(
                    f"a row of {answer['bytes']} bytes", records.most_row
                )
                yield error.rejection(f"{file}:{number}")
            else:
                row = answer["row"]
                yield records.item(row, file=file, number=number)
    except NotTextError as error:
        yield error.rejection(f"{file}:{number + 1}" if number else file)
    else:
        if not number:
            yield NotTextError(RejectionReason.EMPTY, "no row").rejection(file)


JSON_LINES_SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_MOST_BLANK_BYTES = 1 << 22
"""Blank bytes in a row; compressed, they cost no more than a few bytes."""
_MOST_SKIPPED_BYTES = 1 << 30
"""Bytes of one line that are read to skip it."""
_FEW_CONTAINERS = 1 << 20
_CONTAINER_BYTES = 8
"""Bytes of a file for each list and object: a text has hundreds."""
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_json_lines(file: SourceFile, *, records: RecordReader) -> Found:
    """Yield one document per line, in the order of the file; blank lines are skipped."""
    name = file.source
    number = 0
    most = records.most_row
    try:
        with file.open() as opened:
            for number, line in _unpacked_lines(opened, name, most=most):
                try:
                    if isinstance(line, int):
                        raise raw_text.too_long(f"a line of {line} bytes", most)
                    record = _parsed(line)
                    yield records.document(record, file=name, number=number)
                except NotTextError as error:
                    yield error.rejection(f"{name}:{number}")
    except NotTextError as error:
        yield error.rejection(name)
    except (OSError, EOFError, zlib.error) as error:
        yield raw_text.unreadable(error).rejection(f"{name}:{number + 1}")
    else:
        if not number:
            yield NotTextError(RejectionReason.EMPTY, "no record").rejection(name)


def read_json(file: SourceFile, *, records: RecordReader) -> Found:
    """Yield the documents of a JSON file, in its order."""
    try:
        # A JSON file is in memory whole, so it may not be any size.
        content = _parsed(file.read(most=2 * records.most_row))
    except NotTextError as error:
        yield error.rejection(file.source)
        return
    items = cast("list[object]", content) if isinstance(content, list) else [content]
    for number, record in enumerate(items, start=1):
        yield records.item(record, file=file.source, number=number)


def _unpacked_lines(
    file: BinaryIO,
    name: str,
    *,
    most: int,
) -> Iterator[tuple[int, bytes | int]]:
    """Yield the lines of a file that may be compressed, as long as they are in proportion to it.

    Raises:
        NotTextError: The file unpacks to far more than text does, or is not text.
    """
    if not name.lower().endswith(".gz"):
        yield from _lines(file, most=most)
        return
    expansion = Expansion(os.fstat(file.fileno()).st_size)
    unpacked = cast("BinaryIO", gzip.GzipFile(fileobj=file))
    for number, line in _lines(unpacked, most=most):
        size = line if isinstance(line, int) else len(line)
        try:
            expansion.add(size, place=f"line {number}")
        except TooLargeError as error:
            raise NotTextError(RejectionReason.TOO_LONG, str(error)) from None
        yield number, line


def _lines(file: BinaryIO, *, most: int) -> Iterator[tuple[int, bytes | int]]:
    """Yield the number of each line that is not blank, and the line, or its length if too long."""
    number = 0
    blank = 0
    while line := file.readline(most):
        number += 1
        size = len(line)
        if number == 1 and line.startswith(_WIDE_MARKS):
            raise NotTextError(
                RejectionReason.WRONG_ENCODING, "UTF-16; JSON Lines are UTF-8"
            )
        if size == most and not line.endswith(b"\n"):
            blank = 0
            while (more := file.readline(1 << 20)) and not more.endswith(b"\n"):
                size += len(more)
                if size > _MOST_SKIPPED_BYTES:
                    problem = f"a line of more than {_MOST_SKIPPED_BYTES} bytes"
                    raise raw_text.too_long(
                        problem, most, more="; the rest is not read"
                    )
            yield number, size + len(more)
        elif line.strip():
            blank = 0
            yield number, line
        else:
            blank += size
            if blank > _MOST_BLANK_BYTES:
                detail = (
                    f"{blank} blank bytes to line {number}, above {_MOST_BLANK_BYTES}"
                )
                raise NotTextError(
                    RejectionReason.TOO_LONG, f"{detail}; the rest is not read"
                )


def _parsed(data: bytes) -> object:
    """Return the content of JSON.

    Raises:
        NotTextError: The data is no JSON, is not UTF-8, or is nested too deeply.
    """
    if not data.strip():
        raise NotTextError(RejectionReason.EMPTY, f"{len(data)} bytes")
    containers = data.count(b"[") + data.count(b"{")
    if containers > max(_FEW_CONTAINERS, len(data) // _CONTAINER_BYTES):
        detail = f"{containers} lists and objects in {len(data)} bytes"
        raise NotTextError(RejectionReason.BROKEN_RECORD, detail)
    try:
        if data.startswith(_WIDE_MARKS):
            return json.loads(raw_text.decoded(data))
        return json.loads(data.decode("utf-8-sig"))
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
