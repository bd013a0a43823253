"""Folders, recursively, and single files of every type that can be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from rubric_synth.cleaning.markdown import document_title
from rubric_synth.config import CollectConfig
from rubric_synth.document import Document
from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.sources.conversion import PANDOC_FORMATS, Converter
from rubric_synth.sources.json_files import JSON_LINES_SUFFIXES, read_json, read_json_lines
from rubric_synth.sources.opening import SourceFile, visible_files
from rubric_synth.sources.raw_text import (
    Extra,
    NotTextError,
    cleaned,
    decoded,
    need_extra,
    printable,
    within,
)
from rubric_synth.sources.records import RecordReader, read_parquet

_TEXT_SUFFIXES: Final = (".txt", ".md", ".markdown", ".text")
_HTML_SUFFIXES: Final = (".html", ".htm", ".xhtml")
_RECORD_SUFFIXES: Final = (*JSON_LINES_SUFFIXES, ".json", ".parquet")
_EXTRAS: Final[dict[str, Extra]] = {
    ".parquet": "parquet",
    ".pdf": "pdf",
    **dict.fromkeys(PANDOC_FORMATS, "documents"),
}
_WIDEST_CHARACTER: Final = 4  # bytes of one in UTF-32


def read_folder(folder: Path, *, config: CollectConfig) -> Iterator[Document | Rejection]:
    """Yield the documents of a folder and of its subfolders in the order of their paths.

    Hidden files and folders are left alone. Links to folders are not followed, and links to files
    only where these are in the folder too.

    Args:
        folder: Its name becomes the first part of each source.
        config: Limits, and names of fields.
    """
    root = folder.resolve()
    records = RecordReader(config)
    with closing(Converter(config)) as converter:
        for path, error in visible_files(folder):
            source = f"{printable(root.name)}/{printable(path.relative_to(folder).as_posix())}"
            if error is not None:
                yield error.rejection(source)
            else:
                yield from _read(SourceFile(path, source, root), records, converter, config)


def read_file(path: Path, *, config: CollectConfig) -> Iterator[Document | Rejection]:
    """Yield the documents of one file.

    Raises:
        SourceError: The library for its type is not installed.
    """
    name = printable(path.name)
    extra = _EXTRAS.get(path.suffix.lower())
    if extra is not None:
        need_extra(extra, source=str(path))
    is_container = name.lower().endswith(_RECORD_SUFFIXES)
    source = name if is_container else f"{printable(path.parent.resolve().name)}/{name}"
    return _read_alone(SourceFile(path, source), config)


def _read_alone(file: SourceFile, config: CollectConfig) -> Iterator[Document | Rejection]:
    with closing(Converter(config)) as converter:
        yield from _read(file, RecordReader(config), converter, config)


def _read(
    file: SourceFile, records: RecordReader, converter: Converter, config: CollectConfig
) -> Iterator[Document | Rejection]:
    """Yield the documents of a file, by the end of its name."""
    name = file.path.name.lower()
    if name.endswith(JSON_LINES_SUFFIXES):
        yield from read_json_lines(file, records=records, config=config)
    elif name.endswith(".json"):
        yield from read_json(file, records=records, config=config)
    elif name.endswith(".parquet"):
        yield from read_parquet(file, records=records, reader=converter.tables)
    else:
        try:
            yield _one_document(file, converter, config)
        except NotTextError as error:
            yield error.rejection(file.source)


def _one_document(file: SourceFile, converter: Converter, config: CollectConfig) -> Document:
    suffix = file.path.suffix.lower()
    convert = {
        ".pdf": converter.pdf,
        ".ipynb": converter.notebook,
        **dict.fromkeys(_HTML_SUFFIXES, converter.html),
        **dict.fromkeys(PANDOC_FORMATS, converter.markup),
    }
    if suffix in convert:
        return convert[suffix](file)
    if suffix not in _TEXT_SUFFIXES:
        raise NotTextError(RejectionReason.UNSUPPORTED_TYPE, printable(suffix) or "no suffix")
    most = config.max_document_bytes
    raw = decoded(file.read(most=_WIDEST_CHARACTER * most))
    text = cleaned(within(raw, most=most))
    title = document_title(text) or printable(file.path.stem)
    return Document(title=title, text=text, source=file.source)
