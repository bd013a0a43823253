"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rubric_synth.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping


def json_line(row: Mapping[str, object]) -> str:
    """Return one row of JSONL: same content, same bytes."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write a file whole and return the number of lines.

    Raises:
        OutputError: The file could not be written; what stood there before is untouched.
    """
    count = 0
    with writing([path]) as (file,):
        for line in lines:
            file.write(line)
            count += 1
    return count


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write an indented JSON file whole."""
    write_lines(path, [json.dumps(content, ensure_ascii=False, indent=2) + "\n"])


@contextlib.contextmanager
def writing(paths: list[Path]) -> Generator[list[IO[str]]]:
    """Open one temporary file beside each path; on success they take the paths' places.

    Rows can be written as they come: a run that fails leaves neither a temporary file
    nor a changed one.

    Raises:
        OutputError: A folder or file could not be written.
    """
    files: list[IO[str]] = []
    names: list[str] = []
    path = paths[0]
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            names.append(name)
            files.append(os.fdopen(handle, "w", encoding="utf-8", newline="\n"))
        yield files
        for file in files:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for path, name in zip(paths, names, strict=True):
            Path(name).chmod(0o644)
            Path(name).replace(path)
    except OSError as error:
        message = (
            f"cannot write {str(path)!r}: {error.strerror or type(error).__name__}; "
            "nothing was changed, free the space or choose another folder"
        )
        raise OutputError(message, path=path) from error
    finally:
        for file in files:
            with contextlib.suppress(OSError):
                file.close()
        for name in names:
            Path(name).unlink(missing_ok=True)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
