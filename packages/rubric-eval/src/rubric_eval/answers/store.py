"""Files of answers, to which each answer is appended before it is used."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from rubric_core import Decoding
from rubric_core.files import append_whole, open_file, open_to_append, text_sha256
from rubric_core.strict_json import canonical_json
from rubric_eval.errors import EvalFolderError, EvalWriteError
from rubric_eval.records.files import AnswerRow


class AnswerKeys:
    """Keys of stored answers: equal keys mean the same answer."""

    def __init__(self, fingerprint: str, decoding: Decoding) -> None:
        """Store the settings that all answers have in common.

        Args:
            fingerprint: the model's.
            decoding: how tokens are drawn.
        """
        self._model = json.dumps(fingerprint)
        self._decoding = canonical_json(decoding.model_dump(mode="json"))

    def of(self, prompt: str, *, seed: int, sample: int) -> str:
        """Return the key of one answer.

        Args:
            prompt: hash of the question.
            seed: of the evaluation.
            sample: number of the answer, from 0.

        Returns:
            SHA-256, in hexadecimal, of the canonical JSON of the list of all five.
        """
        parts = (
            f"[{self._model},{json.dumps(prompt)},{self._decoding},{seed:d},{sample:d}]"
        )
        return text_sha256(parts)


def read_answers(path: Path) -> list[AnswerRow]:
    """Return the last word on each answer of a file: the row that came, or else the last failure.

    Args:
        path: a file of answers; one that is not there holds none.

    Returns:
        One row for each task, sample and key, in the order of their first lines.

    Raises:
        EvalFolderError: a line in the middle is damaged.
        OSError: the file cannot be read.
    """
    return list(settled(read_file(path)[0]).values())


def line_of(path: Path, row: AnswerRow) -> int | None:
    """Find the line of an answer, from 1."""
    with open_file(path) as file:
        for number, line in enumerate(file, start=1):
            if _row(line, path, number) == row:
                return number
    return None


def settled(rows: Iterable[AnswerRow]) -> dict[tuple[str, int, str], AnswerRow]:
    """Return the last word on each answer, by task, sample and key.

    It is the first answer that came; one that may be a thought gives way to one that is not.
    """
    last: dict[tuple[str, int, str], AnswerRow] = {}
    for row in rows:
        before = last.get(row.place)
        if (
            before is None
            or before.text is None
            or (before.may_be_thought and row.text is not None)
        ):
            last[row.place] = row
    return last


def read_file(path: Path) -> tuple[list[AnswerRow], int]:
    """Read the rows of a file, in the order of writing; see `read_answers`.

    Returns:
        The rows, and the bytes of the lines that are whole: what follows was torn when its writer
        ended.
    """
    try:
        with open_file(path) as file:
            content = file.read()
    except FileNotFoundError:
        return [], 0
    rows: list[AnswerRow] = []
    whole = offset = 0
    torn: int | None = None
    for number, line in enumerate(BytesIO(content), start=1):
        offset += len(line)
        row = _row(line, path, number)
        if row is None:
            torn = torn or number
            continue
        if torn is not None:
            raise EvalFolderError(
                f"{path}:{torn}: a damaged line, with whole ones after it: restore the file "
                "from a copy, or delete that line, and its answer is asked for again"
            )
        rows.append(row)
        whole = offset
    return rows, whole


def _row(line: bytes, path: Path, number: int) -> AnswerRow | None:
    """Return the row of a line; None for one that was torn."""
    if not line.endswith(b"\n"):
        return None
    try:
        return AnswerRow.model_validate_json(line)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] == "json_invalid":
            return None
        field = ".".join(
            str(part) for part in error.errors(include_url=False)[0]["loc"]
        )
        raise EvalFolderError(
            f"{path}:{number}: no answer of this version (field {field!r}): it was written by "
            "another version or program; choose another folder"
        ) from None


class AnswerFile:
    """Answers of one model with one seed; a context manager.

    A line is handed to the kernel with one write, so that a killed process loses nothing that was
    used. What a kill left half written is moved to a file beside it, and asked for again.
    """

    def __init__(self, path: Path) -> None:
        """Set the path of the file; nothing is opened."""
        self._path = path
        self._descriptor = -1
        self._size = 0
        self._answered: dict[str, AnswerRow] = {}
        self._rows: dict[tuple[str, int, str], AnswerRow] = {}
        self.older: set[str] = set()
        """Keys of requested answers that may be thoughts."""

    def __enter__(self) -> Self:
        """Open and read the file, and create it if it is missing.

        Raises:
            EvalFolderError: a line is damaged.
            EvalWriteError: it cannot be written to.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_CREAT | os.O_APPEND | os.O_RDWR | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o644)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            rows, self._size = read_file(self._path)
            self._set_aside()
        except BaseException as error:
            os.close(self._descriptor)
            if isinstance(error, OSError):
                raise self._unwritable(error) from error
            raise
        for row in settled(rows).values():
            self._note(row)
        return self

    def __exit__(self, *_: object) -> None:
        """Flush the file to disk, and close it."""
        with suppress(OSError):  # a pipe or an odd file system has no disk to wait for
            os.fsync(self._descriptor)
        os.close(self._descriptor)

    def kept(self, key: str) -> AnswerRow | None:
        """Return a stored answer; None for one that failed or is missing.

        None too for one that may be a thought, as an older version stored it: see `older`.
        """
        row = self._answered.get(key)
        if row is not None and row.may_be_thought:
            self.older.add(key)
            return None
        return row

    def holds(self, row: AnswerRow) -> bool:
        """Whether this very row is the last word on its answer."""
        return self._rows.get(row.place) == row

    def append(self, row: AnswerRow) -> None:
        """Write one row.

        Raises:
            EvalWriteError: it could not be written; all earlier ones are whole.
        """
        line = row.model_dump_json().encode() + b"\n"
        try:
            append_whole(self._descriptor, line, size=self._size)
        except OSError as error:
            raise self._unwritable(error) from error
        self._size += len(line)
        self._note(row)

    def _set_aside(self) -> None:
        """Move what follows the last whole line to a file of its own."""
        length = os.fstat(self._descriptor).st_size - self._size
        if length > 0:
            torn = os.pread(self._descriptor, length, self._size)
            with open_to_append(
                self._path.with_name(self._path.name + ".torn")
            ) as aside:
                aside.write(torn + b"\n")
                aside.flush()
                os.fsync(aside.fileno())
            os.ftruncate(self._descriptor, self._size)

    def _note(self, row: AnswerRow) -> None:
        self._rows[row.place] = row
        if row.text is not None:
            self._answered[row.key] = row

    def _unwritable(self, error: OSError) -> EvalWriteError:
        why = error.strerror or type(error).__name__
        n = len(self._answered)
        return EvalWriteError(
            f"cannot write {str(self._path)!r}: {why}; the {n} answers before are kept: make "
            "room, and give the same command again",
            path=self._path,
        )
