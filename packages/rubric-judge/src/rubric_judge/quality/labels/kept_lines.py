"""A file of rows that one process writes: each key once, and safe against a kill."""

import os
import re
import threading
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel

from rubric_core.errors import RubricFileError
from rubric_core.files import (
    append_whole,
    open_to_append,
    remove_unfinished,
    replacing,
    sync,
)
from rubric_core.locks import file_lock
from rubric_core.rows import end_last_line
from rubric_core.strict_json import breaks_off


class _Line(Protocol):
    def line_of_file(self) -> bytes: ...


Key = TypeVar("Key", bound=Hashable)
Row = TypeVar("Row", bound=_Line)


class KeptLines(Generic[Key, Row]):
    """The rows of a file, which holds each key once at every moment.

    New rows are appended; where one changes or goes, the file is written anew beside the old one,
    which it then replaces. The rows are on the disk when a method returns.
    """

    def __init__(self, path: Path, rows: Mapping[Key, Row]) -> None:
        """Take the rows that the file holds; `open_lines` reads and locks it first."""
        self.path = path.resolve()
        """The file itself, also where a link was named."""
        self.mutex = threading.RLock()
        """Held while rows are looked at and then changed."""
        self._rows = dict(rows)
        self._open()

    def _open(self) -> None:
        self._file = open_to_append(self.path)
        self._known = os.fstat(self._file.fileno())
        sync(self.path.parent)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def rows(self) -> Mapping[Key, Row]:
        """The rows of the file, in order; not to be changed."""
        return self._rows

    def put(self, rows: Mapping[Key, Row]) -> None:
        """Keep rows, each in place of an older one of its key: all of them or none.

        Raises:
            RubricFileError: another program has changed the file.
            OSError: it could not be written; the file is as it was.
        """
        with self.mutex:
            if self._rows.keys() & rows.keys():
                self.keep_only({**self._rows, **rows})
            else:
                self._append(rows.values())
                self._rows.update(rows)

    def remove(self, key: Key) -> None:
        """Take a row back; one that is not there is no error.

        Raises:
            RubricFileError, OSError: as `put`.
        """
        with self.mutex:
            if key in self._rows:
                self.keep_only(
                    {
                        row_key: row
                        for row_key, row in self._rows.items()
                        if row_key != key
                    }
                )

    def keep_only(self, rows: Mapping[Key, Row]) -> None:
        """Keep these rows and no others.

        Raises:
            RubricFileError, OSError: as `put`.
        """
        with self.mutex:
            self._refuse_changed()
            with replacing(self.path) as file:
                file.writelines(row.line_of_file() for row in rows.values())
            self._rows = dict(rows)
            self._file.close()
            self._open()

    def _append(self, rows: Iterable[Row]) -> None:
        self._refuse_changed()
        descriptor = self._file.fileno()
        lines = b"".join(row.line_of_file() for row in rows)
        try:
            append_whole(descriptor, lines, size=self._known.st_size, on_disk=True)
        finally:
            self._known = os.fstat(descriptor)

    def _refuse_changed(self) -> None:
        with suppress(FileNotFoundError):
            now = self.path.stat()
            is_same_file = os.path.samestat(now, self._known)
            if is_same_file and _state(now) == _state(self._known):
                return
        problem = (
            "another program has changed this file, and nothing more is written to it"
        )
        raise RubricFileError(
            f"{problem}: stop the command and start it again", path=self.path
        )


@contextmanager
def open_lines(
    path: Path,
    model: type[BaseModel],
    *,
    start: bytes,
    read: Callable[[], Mapping[Key, Row]],
) -> Generator[KeptLines[Key, Row]]:
    """Open a file of rows, made if it is missing, for this process alone.

    Args:
        path: the file; a last line that a crash has torn is cut off.
        model: model of the rows.
        start: the first bytes of every line that this package writes.
        read: reads and checks the rows, once nobody else writes the file.

    Raises:
        FolderLockError: another process has the file open so.
        RubricFileError: as `read`.
        OSError: it cannot be read or written.
    """

    def is_torn(last: bytes) -> bool:
        # Nobody was told that the line is kept. `read` refuses a whole JSON text that is no row,
        # and a line that this package did not write.
        return (last.startswith(start) or start.startswith(last)) and breaks_off(last)

    with file_lock(path):
        target = path.resolve()
        remove_unfinished(target.parent, re.escape(target.name))
        with open_to_append(path) as file:
            end_last_line(file, model, is_torn=is_torn)
        lines = KeptLines(path, read())
        try:
            yield lines
        finally:
            lines.close()


def _state(status: os.stat_result) -> tuple[int, int]:
    """Return size and time of change, which show also an edit that keeps the size."""
    return status.st_size, status.st_mtime_ns
