"""Tasks in files: JSON Lines, and Parquet with the `parquet` extra.

A dataset file holds passages and rubrics: it is for the judge's side and for synthesis.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from rubric_core import parquet
from rubric_core.errors import RubricFileError, SchemaError
from rubric_core.files import read_lines, replacing, write_lines
from rubric_core.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def read_tasks(path: Path | str) -> Iterator[Task]:
    """Read tasks one at a time, in file order, in memory that does not grow with the file.

    Args:
        path: a `.jsonl` file with the paper's JSON on every line (blank lines are skipped), or a
            `.parquet` file with the same columns.

    Raises:
        RubricFileError: at the first line that does not hold a well-formed task, with the path,
            the line and the field; or at once for another suffix.
        MissingExtraError: Parquet without pyarrow.
        OSError: the file cannot be read.
    """
    path = Path(path)
    return _tasks(path, _format_of(path).read(path))


def write_tasks(path: Path | str, tasks: Iterable[Task]) -> int:
    """Write tasks, passages and rubrics included; return how many.

    The file appears under its name only when it is complete and on disk. Whatever goes wrong
    before (a full disk, an error in `tasks`, an interrupt) leaves an older file as it was, and
    nothing else behind.

    Raises:
        RubricFileError: a suffix other than `.jsonl` and `.parquet`.
        MissingExtraError: Parquet without pyarrow.
        OSError: the file cannot be written.
    """
    path = Path(path)
    write = _format_of(path).write
    count = 0

    def rows() -> Iterator[dict[str, object]]:
        nonlocal count
        for task in tasks:
            count += 1
            yield task.to_json(reveal_grounding=True)

    with replacing(path) as file:
        write(file, rows())
    return count


class _Format(NamedTuple):
    read: Callable[[Path], Iterator[tuple[int, dict[str, object]]]]
    write: Callable[[BinaryIO, Iterator[dict[str, object]]], None]


def _format_of(path: Path) -> _Format:
    match path.suffix.lower():
        case ".jsonl":
            return _Format(read_lines, write_lines)
        case ".parquet":
            return _Format(parquet.read_rows, parquet.write_rows)
        case suffix:
            raise RubricFileError(
                f"the suffix is {suffix!r}: tasks are kept in .jsonl or .parquet files", path=path
            )


def _tasks(path: Path, rows: Iterator[tuple[int, dict[str, object]]]) -> Iterator[Task]:
    for line, row in rows:
        try:
            yield Task.from_json(row)
        except SchemaError as error:
            raise RubricFileError(str(error), path=path, line=line, field=error.field) from None
