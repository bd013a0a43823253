"""Where documents come from: folders, files, data sets and installed packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rubric_synth.config import CollectConfig
from rubric_synth.document import Document
from rubric_synth.errors import SourceError
from rubric_synth.rejection import Rejection
from rubric_synth.sources.folder import read_file, read_folder
from rubric_synth.sources.package import read_package
from rubric_synth.sources.raw_text import in_other_language
from rubric_synth.sources.records import read_hugging_face

__all__ = ["read_source"]

_PACKAGE_PREFIX = "python:"
_DATASET_PREFIX = "hf:"


def read_source(source: str | Path, *, config: CollectConfig) -> Iterator[Document | Rejection]:
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
    if name.startswith(_PACKAGE_PREFIX):
        return read_package(name.removeprefix(_PACKAGE_PREFIX))
    if name.startswith(_DATASET_PREFIX):
        found = read_hugging_face(name.removeprefix(_DATASET_PREFIX), config=config)
        return _in_wanted_languages(found, config)
    path = Path(source)
    if path.is_dir():
        return _in_wanted_languages(read_folder(path, config=config), config)
    if path.is_file():
        return _in_wanted_languages(read_file(path, config=config), config)
    message = (
        f"source {name!r} is neither a folder, a file, `hf:PATH` nor `python:PACKAGE`; "
        "check the path, or write python: before the name of an installed package"
    )
    raise SourceError(message, source=name)


def _in_wanted_languages(
    found: Iterator[Document | Rejection], config: CollectConfig
) -> Iterator[Document | Rejection]:
    for item in found:
        if isinstance(item, Rejection):
            yield item
        else:
            yield in_other_language(item, config=config) or item
