"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from rubric_core.files import open_file
from rubric_synth.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

_PART: Final = ".part"


def json_line(row: Mapping[str, object]) -> bytes:
    """Return one row of JSONL as UTF-8: same content, same bytes.

    A lone surrogate, which JSON can spell and UTF-8 cannot, stays in its spelling.
    """
    try:
        return (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(row, ensure_ascii=True, allow_nan=False) + "\n").encode()


def json_page(content: Mapping[str, object]) -> bytes:
    """Return an indented JSON file as UTF-8: same content, same bytes."""
    text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    return text.encode(errors="replace")


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
    write_lines(path, [json_page(content).decode()])


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
    replaced = 0
    path = paths[0]
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_PART)
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
            replaced += 1
    except OSError as error:
        message = (
            f"cannot write {str(path)!r}: {error.strerror or type(error).__name__}; "
            f"{_what_changed(replaced, paths)}"
        )
        raise OutputError(message, path=path) from error
    finally:
        for file in files:
            with contextlib.suppress(OSError):
                file.close()
        for name in names:
            Path(name).unlink(missing_ok=True)


def remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Remove the temporary files of writers that were killed; none may be at work.

    Args:
        folder: Where they wrote.
        names: Of the files that they were to become.
    """
    for name in names:
        for left in folder.glob(f".{name}.*{_PART}"):
            with contextlib.suppress(OSError):
                left.unlink()


def _what_changed(replaced: int, paths: list[Path]) -> str:
    if not replaced:
        return "nothing was changed, free the space or choose another folder"
    return (
        f"{replaced} of {len(paths)} files are new already and the others are of an earlier run: "
        "make room for it, and give the same command again"
    )


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
