"""Where documents come from: folders, record files and installed packages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rubric_synth.errors import SourceError
from rubric_synth.sources.folder import read_folder
from rubric_synth.sources.package import read_package
from rubric_synth.sources.records import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_synth.config import CollectConfig
    from rubric_synth.document import Document
    from rubric_synth.rejection import Rejection

__all__ = ["read_source"]

_PACKAGE_PREFIX = "python:"


def read_source(source: str | Path, *, config: CollectConfig) -> Iterator[Document | Rejection]:
    """Yield every document of a source, or the reason why it could not be read, in a fixed order.

    Args:
        source: A folder, a `.jsonl`, `.md` or `.txt` file, or `python:PACKAGE`.
        config: Limits on size.

    Raises:
        SourceError: The source itself is missing or of an unknown kind.
    """
    name = str(source)
    if name.startswith(_PACKAGE_PREFIX):
        return read_package(name.removeprefix(_PACKAGE_PREFIX))
    path = Path(source)
    if path.is_dir():
        return read_folder(path, config=config)
    if path.is_file() and path.suffix.lower() == ".jsonl":
        return read_records(path, config=config)
    if path.is_file():
        return read_folder(path.parent, config=config, only=path)
    message = (
        f"source {name!r} is neither a folder, a file nor `python:PACKAGE`; "
        "check the path, or write python: before the name of an installed package"
    )
    raise SourceError(message, source=name)
