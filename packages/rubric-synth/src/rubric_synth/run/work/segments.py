"""Append-only files of checked lines, which keep the results of a run as they come.

A line is handed to the kernel with one write before it is used, so that a killed process
loses nothing that was used. A power cut may take the last seconds: nothing here waits for a disk.
"""

import os
import re
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rubric_core.files import append_whole, open_file
from rubric_synth import errors, events, files

_OPENING = b'{"sum":"%08x","body":'
_OPENING_BYTES = len(_OPENING % 0)
_CLOSING = b"}\n"
KEPT = "what was done until now is kept, make room and give the same command again"
_FILES_OPEN = 16


class Place(NamedTuple):
    """Place of a line."""

    segment: int
    """Number of the file."""
    offset: int
    """Bytes before the line."""
    length: int
    """Bytes of the line."""


class Segments:
    """Files `NAME-00000.jsonl`, `NAME-00001.jsonl` and so on; one process writes.

    A process never goes on in a file of an earlier one, which may end with half a line.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        lines_per_file: int,
    ) -> None:
        """Look for existing files; nothing is written."""
        self._folder = folder
        self._name = name
        self._lines_per_file = lines_per_file
        self._writing: int | None = None
        self._number = max(self.numbers(), default=-1)
        self._lines = 0
        self._offset = 0
        self._reading: OrderedDict[int, int] = OrderedDict()

    def numbers(self) -> list[int]:
        """Return the numbers of the files that are there, in order."""
        pattern = re.compile(rf"{re.escape(self._name)}-(\d{{5,}})\.jsonl")
        matches = (pattern.fullmatch(path.name) for path in self._folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def path(self, segment: int) -> Path:
        """Return the path of a file."""
        return self._folder / f"{self._name}-{segment:05}.jsonl"

    def append(self, body: bytes) -> Place:
        """Write one line.

        Args:
            body: JSON without a line break.

        Raises:
            OutputError: It could not be written; all earlier lines are whole.
        """
        line = b"".join((_OPENING % zlib.crc32(body), body, _CLOSING))
        try:
            self._write(line)
        except OSError as error:
            raise files.unwritable(self.path(self._number), error, KEPT) from error
        place = Place(self._number, self._offset, len(line))
        self._lines += 1
        self._offset += len(line)
        if self._lines >= self._lines_per_file:
            self._close_writing()
        return place

    def read(self, place: Place) -> bytes:
        """Return the body of a line.

        Raises:
            WorkFolderError: The line is not as it was written.
        """
        try:
            line = os.pread(self._descriptor(place.segment), place.length, place.offset)
        except OSError as error:
            problem = f"cannot be read ({error.strerror})"
            raise self._damaged(place.segment, problem) from error
        body = _body(line) if len(line) == place.length else None
        if body is None:
            raise self._damaged(place.segment, f"byte {place.offset}: a damaged line")
        return body

    def scan(self, known_bytes: Mapping[int, int]) -> Iterator[tuple[Place, bytes]]:
        """Yield the lines that lie beyond the known bytes of each file, in the order of writing.

        A last line without an end is left out: its writer was killed before it went on. A damaged
        line in between is left out with a warning: its work is done again.

        Raises:
            WorkFolderError: A file is missing, or shorter than known.
        """
        numbers = self.numbers()
        missing = known_bytes.keys() - set(numbers)
        if missing:
            raise self._damaged(min(missing), "the file is missing")
        for segment in numbers:
            known = known_bytes.get(segment, 0)
            size = self.path(segment).stat().st_size
            if size < known:
                problem = f"{size} bytes, of which there were {known}"
                raise self._damaged(segment, problem)
            if size > known:
                yield from self._scan_file(segment, known)

    def close(self) -> None:
        """Close all files."""
        self._close_writing()
        while self._reading:
            os.close(self._reading.popitem()[1])

    def _write(self, line: bytes) -> None:
        if self._writing is None:
            path = self.path(self._number + 1)
            flags = os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY
            self._writing = os.open(path, flags, 0o644)
            self._number += 1
            self._lines = 0
            self._offset = 0
        append_whole(self._writing, line, size=self._offset)

    def _scan_file(self, segment: int, known: int) -> Iterator[tuple[Place, bytes]]:
        with open_file(self.path(segment)) as file:
            file.seek(known)
            offset = known
            damaged = 0
            for line in file:
                if not line.endswith(b"\n"):
                    break
                body = _body(line)
                if body is None:
                    damaged += 1
                else:
                    yield Place(segment, offset, len(line)), body
                offset += len(line)
        if damaged:
            path = str(self.path(segment))
            events.log_warning(
                "synth.work.damaged_lines_left_out", file=path, lines=damaged
            )

    def _descriptor(self, segment: int) -> int:
        if segment in self._reading:
            self._reading.move_to_end(segment)
            return self._reading[segment]
        if len(self._reading) >= _FILES_OPEN:
            os.close(self._reading.popitem(last=False)[1])
        self._reading[segment] = os.open(self.path(segment), os.O_RDONLY)
        return self._reading[segment]

    def _close_writing(self) -> None:
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None

    def _damaged(self, segment: int, problem: str) -> errors.WorkFolderError:
        path = self.path(segment)
        return errors.WorkFolderError(
            f"{str(path)!r}: {problem}. Restore the file from a copy; or delete "
            f"{str(self._folder)!r}/index.sqlite* and no other file: the index is made again "
            "from all lines that are whole, and only the others are asked for again",
            path=path,
        )


def _body(line: bytes) -> bytes | None:
    """Return the body of a line; None where the line is not as it was written."""
    body = line[_OPENING_BYTES : -len(_CLOSING)]
    is_whole = line.endswith(_CLOSING) and line.startswith(_OPENING % zlib.crc32(body))
    return body if is_whole else None
