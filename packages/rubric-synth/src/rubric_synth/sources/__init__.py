"""Readers of the sources of documents: folders, files, data sets and installed packages."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from rubric_core.nearest import near
from rubric_synth.config import CollectConfig
from rubric_synth.document import Document, Found, RejectionReason
from rubric_synth.errors import SourceError
from rubric_synth.sources import raw_text, records
from rubric_synth.sources.cleaning.markup import document_title
from rubric_synth.sources.conversion import PANDOC_FORMATS, Converter
from rubric_synth.sources.objects.manpage import is_manual
from rubric_synth.sources.objects.reading import ManualReader
from rubric_synth.sources.package import read_package
from rubric_synth.sources.raw_text import NotTextError, SourceFile, printable

__all__ = ["DATASET_PREFIX", "PACKAGE_PREFIX", "SUFFIXES", "read_source"]

PACKAGE_PREFIX = "python:"
DATASET_PREFIX = "hf:"
_TEXT_SUFFIXES = (".txt", ".md", ".markdown", ".text")
_HTML_SUFFIXES = (".html", ".htm", ".xhtml")
_RECORD_SUFFIXES = (*records.JSON_LINES_SUFFIXES, ".json", ".parquet")
SUFFIXES = sorted(
    {
        *_TEXT_SUFFIXES,
        *_HTML_SUFFIXES,
        *_RECORD_SUFFIXES,
        *PANDOC_FORMATS,
        ".pdf",
        ".ipynb",
    }
)
"""Endings of the files that are read."""
_EXTRAS: dict[str, raw_text.Extra] = {
    ".parquet": "parquet",
    ".pdf": "pdf",
    **dict.fromkeys(PANDOC_FORMATS, "documents"),
}


def read_source(source: str | Path, *, config: CollectConfig) -> Found:
    """Yield every document of a source, or the reason why it is left out, in a fixed order.

    Args:
        source: A folder; a text, Markdown, HTML or PDF file, a notebook, a file of a format that
            pandoc reads, a JSON, JSON Lines (also `.gz`) or Parquet file; `hf:PATH` or
            `hf:PATH:SPLIT`; or `python:PACKAGE`.
        config: Limits, languages and names of fields.

    Raises:
        SourceError: The source itself is missing, of an unknown kind, or needs a library that
            is not installed.
    """
    name = str(source)
    path = Path(source)
    if name.startswith(PACKAGE_PREFIX):
        return read_package(name.removeprefix(PACKAGE_PREFIX))
    if name.startswith(DATASET_PREFIX):
        location = name.removeprefix(DATASET_PREFIX)
        items = records.read_hugging_face(location, config=config)
    elif path.is_dir():
        items = _documents(raw_text.visible_files(path), config)
    elif path.is_file():
        items = _documents([(_file_at(path), None)], config)
    elif path.exists():
        raise SourceError(
            f"source {name!r} is a pipe or a device, which may never end; name a regular file",
            source=name,
        )
    else:
        raise SourceError(
            f"source {name!r} is neither a folder, a file, `hf:PATH` nor `python:PACKAGE`; "
            "check the path, or write python: before the name of an installed "
            f"package{near(path)}",
            source=name,
        )
    return (raw_text.unless_foreign(item, config=config) for item in items)


def _file_at(path: Path) -> SourceFile:
    """Return a file that was named itself.

    Raises:
        SourceError: The library for its type is not installed.
    """
    name = printable(path.name)
    extra = _EXTRAS.get(path.suffix.lower())
    if extra is not None:
        raw_text.need_extra(extra, source=str(path))
    if not name.lower().endswith(_RECORD_SUFFIXES):
        name = f"{printable(path.parent.resolve().name)}/{name}"
    return SourceFile(path, name)


def _documents(
    files: Iterable[tuple[SourceFile, NotTextError | None]], config: CollectConfig
) -> Found:
    reader = records.RecordReader(config)
    with closing(Converter(config)) as converter:
        manuals = ManualReader(converter, 8 * config.max_document_bytes)
        for file, error in files:
            if error is not None:
                yield error.rejection(file.source)
            else:
                yield from _read(file, reader, converter, manuals)


def _read(
    file: SourceFile,
    reader: records.RecordReader,
    converter: Converter,
    manuals: ManualReader,
) -> Found:
    """Yield the documents of a file, by the end of its name."""
    name = file.path.name.lower()
    if name.endswith(records.JSON_LINES_SUFFIXES):
        yield from records.read_json_lines(file, records=reader)
    elif name.endswith(".json"):
        yield from records.read_json(file, records=reader)
    elif name.endswith(".parquet"):
        yield from records.read_parquet(
            file,
            records=reader,
            reader=converter.tables,
        )
    else:
        try:
            yield _one_document(file, converter, reader.most)
        except NotTextError as error:
            yield error.rejection(file.source)
        else:
            yield from manuals.documents(file)


def _one_document(
    file: SourceFile,
    converter: Converter,
    most: int,
) -> Document:
    suffix = file.path.suffix.lower()
    convert = {
        ".pdf": converter.pdf,
        ".ipynb": converter.notebook,
        **dict.fromkeys(_HTML_SUFFIXES, converter.html),
        **dict.fromkeys(PANDOC_FORMATS, converter.markup),
    }
    if suffix in convert:
        return convert[suffix](file)
    if is_manual(file.path.name.lower()):
        return converter.manual_page(file)
    if suffix not in _TEXT_SUFFIXES:
        raise NotTextError(
            RejectionReason.UNSUPPORTED_TYPE, printable(suffix) or "no suffix"
        )
    # A character of UTF-32 has four bytes.
    raw = raw_text.decoded(file.read(most=4 * most))
    text = raw_text.cleaned(raw_text.short_enough(raw, most=most))
    title = document_title(text) or printable(file.path.stem)
    return Document(title=title, text=text, source=file.source)
