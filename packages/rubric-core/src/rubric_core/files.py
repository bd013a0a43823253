"""Files of JSON rows: read line by line, written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rubric_core.errors import RepeatedKeyError, RubricFileError
from rubric_core.strict_json import decode

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (1-based line, its object) of a JSON Lines file; blank lines are skipped.

    Raises:
        RubricFileError: a line that is no JSON object, with its place.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            if raw.isspace():
                continue
            try:
                row = decode(raw.decode().rstrip("\r\n"))
            except (UnicodeDecodeError, json.JSONDecodeError, RepeatedKeyError) as error:
                raise RubricFileError(broken(error), path=path, line=line) from None
            except RecursionError:
                raise RubricFileError("nested too deeply", path=path, line=line) from None
            if not isinstance(row, dict):
                raise RubricFileError(
                    f"a line must hold one JSON object, not {type(row).__name__}",
                    path=path,
                    line=line,
                )
            yield line, row


def broken(error: UnicodeDecodeError | json.JSONDecodeError | RepeatedKeyError) -> str:
    """Say what keeps a text from being read as JSON."""
    match error:
        case UnicodeDecodeError():
            return f"not UTF-8 at byte {error.start}"
        case json.JSONDecodeError():
            return f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        case _:
            return f"not usable: {error}"


def write_lines(file: BinaryIO, rows: Iterable[dict[str, object]]) -> None:
    """Write one line for each row."""
    file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


@contextmanager
def replacing(path: Path) -> Generator[BinaryIO]:
    """Open a file that takes the place of `path` when the block ends well, and vanishes if not.

    What is no regular file, such as a pipe, is written straight to; a link stays one.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
