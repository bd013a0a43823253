"""What a file of answers holds, also after its writer was killed."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from rubric_core.files import open_file
from rubric_eval.errors import EvalFolderError
from rubric_eval.records import AnswerRow
from rubric_eval.records.files import is_of_another

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from pathlib import Path


class ReadAnswers(NamedTuple):
    """The rows of a file, and where they end."""

    rows: list[AnswerRow]
    whole_bytes: int
    """Bytes of the lines that are whole; what follows was torn when its writer ended."""


def read_answers(path: Path, *, only: Container[str] | None = None) -> list[AnswerRow]:
    """Return the last word on each answer of a file: the row that came, or else the last failure.

    Args:
        path: a file of answers; one that is not there holds none.
        only: tasks whose answers are wanted; lines of others are not looked into.

    Returns:
        One row for each task, sample and key, in the order of their first lines.

    Raises:
        EvalFolderError: a line in the middle is damaged.
        OSError: the file cannot be read.
    """
    return list(settled(read_file(path, only=only).rows).values())


def line_of(path: Path, row: AnswerRow) -> int | None:
    """Find the line of an answer, from 1."""
    with open_file(path) as file:
        for number, line in enumerate(file, start=1):
            if _row(line, path, number) == row:
                return number
    return None


def settled(rows: Iterable[AnswerRow]) -> dict[tuple[str, int, str], AnswerRow]:
    """Return the last word on each answer, by task, sample and key."""
    last: dict[tuple[str, int, str], AnswerRow] = {}
    for row in rows:
        place = (row.task_id, row.sample, row.key)
        if place not in last or last[place].text is None:
            last[place] = row
    return last


def read_file(path: Path, *, only: Container[str] | None = None) -> ReadAnswers:
    """Read the rows of a file, in the order of writing; see `read_answers`."""
    try:
        with open_file(path) as file:
            content = file.read()
    except FileNotFoundError:
        return ReadAnswers([], 0)
    rows: list[AnswerRow] = []
    whole = offset = 0
    torn: int | None = None
    for number, line in enumerate(BytesIO(content), start=1):
        offset += len(line)
        if only is not None and is_of_another(line, only):
            continue
        row = _row(line, path, number)
        if row is None:
            torn = torn or number
            continue
        if torn is not None:
            raise EvalFolderError(
                f"{path}:{torn}: a damaged line, with whole ones after it: restore the file from a "
                "copy, or delete that line, and its answer is asked for again"
            )
        rows.append(row)
        whole = offset
    return ReadAnswers(rows, whole)


def _row(line: bytes, path: Path, number: int) -> AnswerRow | None:
    """Return the row of a line; None for one that was torn."""
    if not line.endswith(b"\n"):
        return None
    try:
        return AnswerRow.model_validate_json(line)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] == "json_invalid":
            return None
        field = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"])
        raise EvalFolderError(
            f"{path}:{number}: no answer of this version (field {field!r}): it was written by "
            "another version or program; choose another folder"
        ) from None
