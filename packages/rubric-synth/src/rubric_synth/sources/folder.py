"""Folders of text and Markdown files, and single files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_synth.cleaning import document_title
from rubric_synth.document import Document
from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.sources.raw_text import NotTextError, cleaned, decoded
from rubric_synth.sources.records import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rubric_synth.config import CollectConfig

_TEXT_SUFFIXES: Final = frozenset({".txt", ".md", ".markdown", ".text"})


def read_folder(
    folder: Path, *, config: CollectConfig, only: Path | None = None
) -> Iterator[Document | Rejection]:
    """Yield the files of a folder and of its subfolders in the order of their paths.

    Hidden files and folders are left alone; links to folders are not followed.

    Args:
        folder: Its name becomes the first part of each source.
        config: Limits on size.
        only: Read this one file instead of all.
    """
    files = [only] if only is not None else sorted(_visible_files(folder))
    for path in files:
        source = f"{folder.resolve().name}/{path.relative_to(folder).as_posix()}"
        if path.suffix.lower() == ".jsonl":
            yield from read_records(path, config=config)
        elif path.suffix.lower() not in _TEXT_SUFFIXES:
            unsupported = NotTextError(RejectionReason.UNSUPPORTED_TYPE, path.suffix or "no suffix")
            yield unsupported.rejection(source)
        else:
            yield _read_file(path, source, config=config)


def _visible_files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _visible_files(path)
        elif path.is_file():
            yield path


def _read_file(path: Path, source: str, *, config: CollectConfig) -> Document | Rejection:
    try:
        text = cleaned(decoded(_content(path, most=config.max_document_bytes)))
    except NotTextError as error:
        return error.rejection(source)
    except OSError as error:
        return NotTextError(RejectionReason.UNREADABLE, type(error).__name__).rejection(source)
    return Document(title=document_title(text) or path.stem, text=text, source=source)


def _content(path: Path, *, most: int) -> bytes:
    size = path.stat().st_size
    if size > most:
        raise NotTextError(RejectionReason.TOO_LONG, f"{size} bytes")
    return path.read_bytes()
