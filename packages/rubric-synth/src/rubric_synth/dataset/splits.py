"""One split in two files: JSON lines, and the same rows as Parquet."""

from __future__ import annotations

import hashlib
import io
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from rubric_core.parquet import task_schema
from rubric_synth.errors import DatasetFolderError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_GROUP_ROWS: Final = 1_000
_GROUP_BYTES: Final = 4_000_000


def can_write_parquet() -> bool:
    """Whether pyarrow is installed."""
    return find_spec("pyarrow") is not None


class HashedFile:
    """A file open for writing that knows the SHA-256 of what was written."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to `file` from here on; whoever opened it closes it."""
        self._file = file
        self._hash = hashlib.sha256()
        self._size = 0
        self._is_muted = False
        self.closed = False

    @property
    def sha256(self) -> str:
        """Of all bytes so far."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> int:
        """Write all of it."""
        self._hash.update(data)
        self._size += len(data)
        return len(data) if self._is_muted else self._file.write(data)

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return self._size

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        if not self._is_muted:
            self._file.flush()

    def mute(self) -> None:
        """Write nothing from here on: the file is given up."""
        self._is_muted = True


class ParquetRows:
    """Rows of JSONL gathered into row groups of a Parquet file with the schema of tasks."""

    def __init__(self, file: HashedFile, path: Path) -> None:
        """Begin a file; `path` is its name in errors."""
        parquet: Any = import_module("pyarrow.parquet")
        self._arrow_errors: type[Exception] = import_module("pyarrow").ArrowException
        self._file = file
        self._path = path
        self._is_finished = False
        self._writer: Any = parquet.ParquetWriter(file, task_schema())
        self._lines: list[bytes] = []
        self._bytes = 0

    def add(self, line: bytes) -> None:
        """Add one row.

        Raises:
            DatasetFolderError: It or one shortly before it is no task.
        """
        self._lines.append(line)
        self._bytes += len(line)
        if len(self._lines) >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def finish(self) -> None:
        """Write what is left and the foot of the file.

        Raises:
            DatasetFolderError: A row is no task.
        """
        if self._lines:
            self._write_group()
        self._writer.close()
        self._is_finished = True

    def close(self) -> None:
        """Give an unfinished file up; else its foot would be written when memory is freed."""
        if not self._is_finished:
            self._file.mute()
            self._writer.close()

    def _write_group(self) -> None:
        lines, self._lines, self._bytes = self._lines, [], 0
        try:
            table = table_of(lines)
        except self._arrow_errors:
            message = (
                f"a row for {str(self._path)!r} does not have the fields of a task; "
                "what made it has a fault: nothing was written"
            )
            raise DatasetFolderError(message, path=self._path) from None
        self._writer.write_table(table)


def table_of(lines: Sequence[bytes]) -> Any:
    """Return lines of JSONL as a table with the schema of tasks.

    pyarrow reads the very bytes of the lines, which takes a seventh of the time that it takes to
    convert Python objects and leaves no way for the two files to differ.

    Raises:
        ArrowException: A line is no JSON, or does not have the fields of a task.
    """
    reader: Any = import_module("pyarrow.json")
    content = b"".join(lines)
    return reader.read_json(
        io.BytesIO(content),
        read_options=reader.ReadOptions(use_threads=False, block_size=len(content) + 1),
        parse_options=reader.ParseOptions(
            explicit_schema=task_schema(), unexpected_field_behavior="error"
        ),
    )
