"""Folders, recursively, and single files of every type that can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_synth.cleaning import document_title
from rubric_synth.document import Document
from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.sources.conversion import Converter
from rubric_synth.sources.extras import need_extra
from rubric_synth.sources.json_files import JSON_LINES_SUFFIXES, read_json, read_json_lines
from rubric_synth.sources.opening import Refused, read_regular, visible_files
from rubric_synth.sources.parquet_files import read_parquet
from rubric_synth.sources.raw_text import NotTextError, cleaned, decoded, printable, within
from rubric_synth.sources.records import RecordReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rubric_synth.config import CollectConfig

_TEXT_SUFFIXES: Final = (".txt", ".md", ".markdown", ".text")
_HTML_SUFFIXES: Final = (".html", ".htm", ".xhtml")
_WIDEST_CHARACTER: Final = 4  # bytes of one in UTF-32


def read_folder(folder: Path, *, config: CollectConfig) -> Iterator[Document | Rejection]:
    """Yield the documents of a folder and of its subfolders in the order of their paths.

    Hidden files and folders are left alone; links to folders are not followed.

    Args:
        folder: Its name becomes the first part of each source.
        config: Limits, and names of fields.
    """
    root = printable(folder.resolve().name)
    records = RecordReader(config)
    with Converter(config) as converter:
        for entry in visible_files(folder):
            path = entry.path if isinstance(entry, Refused) else entry
            source = f"{root}/{printable(path.relative_to(folder).as_posix())}"
            if isinstance(entry, Refused):
                yield entry.error.rejection(source)
            else:
                yield from _read(path, source, records, converter, config)


def read_file(path: Path, *, config: CollectConfig) -> Iterator[Document | Rejection]:
    """Yield the documents of one file.

    Raises:
        SourceError: The library for its type is not installed.
    """
    name = printable(path.name)
    if name.lower().endswith(".parquet"):
        need_extra("parquet", source=str(path))
    elif name.lower().endswith(".pdf"):
        need_extra("pdf", source=str(path))
    is_container = name.lower().endswith((*JSON_LINES_SUFFIXES, ".json", ".parquet"))
    source = name if is_container else f"{printable(path.parent.resolve().name)}/{name}"
    return _read_alone(path, source, config)


def _read_alone(path: Path, source: str, config: CollectConfig) -> Iterator[Document | Rejection]:
    with Converter(config) as converter:
        yield from _read(path, source, RecordReader(config), converter, config)


def _read(
    path: Path, source: str, records: RecordReader, converter: Converter, config: CollectConfig
) -> Iterator[Document | Rejection]:
    """Yield the documents of a file, by the end of its name."""
    name = path.name.lower()
    if name.endswith(JSON_LINES_SUFFIXES):
        yield from read_json_lines(path, source, records=records, config=config)
    elif name.endswith(".json"):
        yield from read_json(path, source, records=records, config=config)
    elif name.endswith(".parquet"):
        yield from read_parquet(path, source, records=records)
    else:
        try:
            yield _one_document(path, source, converter, config)
        except NotTextError as error:
            yield error.rejection(source)


def _one_document(path: Path, source: str, converter: Converter, config: CollectConfig) -> Document:
    name = path.name.lower()
    if name.endswith(".pdf"):
        return converter.pdf(path, source)
    if name.endswith(_HTML_SUFFIXES):
        return converter.html(path, source)
    if not name.endswith(_TEXT_SUFFIXES):
        suffix = printable(path.suffix) or "no suffix"
        raise NotTextError(RejectionReason.UNSUPPORTED_TYPE, suffix)
    most = config.max_document_bytes
    raw = decoded(read_regular(path, most=_WIDEST_CHARACTER * most))
    text = cleaned(within(raw, most=most))
    return Document(title=document_title(text) or printable(path.stem), text=text, source=source)
