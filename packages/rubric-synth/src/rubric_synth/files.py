"""Files that appear whole or not at all, several of them together."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from rubric_core.files import check_writable, remove_unfinished, replacing
from rubric_synth.errors import OutputError

_Model = TypeVar("_Model", bound=BaseModel)

UNCHANGED = "nothing was changed, free the space or choose another folder"


def json_line(row: Mapping[str, object]) -> bytes:
    """Return one row of JSONL as UTF-8: same content, same bytes.

    A lone surrogate, which JSON can spell and UTF-8 cannot, stays in its spelling.
    """
    try:
        return _line(row, ensure_ascii=False)
    except UnicodeEncodeError:
        return _line(row, ensure_ascii=True)


def _line(row: Mapping[str, object], *, ensure_ascii: bool) -> bytes:
    text = json.dumps(row, ensure_ascii=ensure_ascii, allow_nan=False)
    return f"{text}\n".encode()


def parsed_line(kind: type[_Model], line: bytes) -> _Model:
    """Return what a line of JSON holds, read once more where a lone surrogate in it is spelled out.

    Raises:
        ValueError: It is no JSON, or not of this kind.
    """
    try:
        return kind.model_validate_json(line)
    except ValidationError:
        return kind.model_validate(json.loads(line))


def json_page(content: Mapping[str, object]) -> bytes:
    """Return an indented JSON file as UTF-8: same content, same bytes."""
    text = json.dumps(content, ensure_ascii=False, indent=2)
    return f"{text}\n".encode(errors="replace")


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write a file whole and return the number of lines.

    Raises:
        OutputError: The file could not be written; what stood there before is untouched.
    """
    count = 0
    with writing([path]) as (file,):
        for count, line in enumerate(lines, start=1):  # noqa: B007 - returned
            file.write(line.encode())
    return count


class HashedFile:
    """A file open for writing that knows the SHA-256 of what was written."""

    closed = False
    """Attribute that writing libraries ask for; the caller that opened the file closes it."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to `file` from here on."""
        self._file = file
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """SHA-256 of all bytes so far."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> int:
        """Write all of it."""
        self._hash.update(data)
        return self._file.write(data)


@contextlib.contextmanager
def writing(paths: list[Path]) -> Generator[list[HashedFile]]:
    """Open files that take the places of all paths together, once all of them are on disk.

    Rows can be written as they come: a run that fails leaves neither a temporary file
    nor a changed one.

    Raises:
        OutputError: A folder or file could not be written.
    """
    files: list[BinaryIO] = []
    replaced: list[Path] = []
    path = paths[0]
    try:
        with contextlib.ExitStack() as stack:
            for path in reversed(paths):  # left in the order of `paths`
                path.parent.mkdir(parents=True, exist_ok=True)
                files.insert(0, stack.enter_context(_counted(path, replaced)))
            yield list(map(HashedFile, files))
            for path, file in zip(paths, files, strict=True):  # noqa: B007 - named by the error
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        changed = UNCHANGED
        if replaced:
            path = paths[len(replaced)]
            changed = (
                f"{len(replaced)} of {len(paths)} files are new already and the others are of "
                "an earlier run: make room for it, and give the same command again"
            )
        raise unwritable(path, error, changed) from error


@contextlib.contextmanager
def _counted(path: Path, replaced: list[Path]) -> Generator[BinaryIO]:
    with replacing(path) as file:
        yield file
    replaced.append(path)


def require_writable(paths: Iterable[Path]) -> None:
    """Refuse what could not be written at the end, before anything is spent on it.

    Args:
        paths: Files or folders, which are made with the folders above them.

    Raises:
        OutputError: One of them could not.
    """
    for path in paths:
        try:
            check_writable(path, makes_folders=True)
        except OSError as error:
            raise unwritable(path, error, UNCHANGED) from error


def unwritable(path: Path, error: Exception, advice: str) -> OutputError:
    """Return the error that names a file and what the system or SQLite says of it."""
    problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return OutputError(f"cannot write {str(path)!r}: {problem}; {advice}", path=path)


def remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Remove the temporary files of writers that were killed; none may be at work.

    Args:
        folder: Where they wrote.
        names: Of the files that they were to become.
    """
    with contextlib.suppress(OSError):
        remove_unfinished(folder, "|".join(map(re.escape, names)))
