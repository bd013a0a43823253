"""Tasks in files: JSON Lines, and Parquet with the `parquet` extra.

A dataset file holds passages and rubrics: it is for the judge's side and for synthesis.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeVar

from rubric_core.data import parquet
from rubric_core.errors import ConfigError, RubricFileError, SchemaError
from rubric_core.files import read_each_line, read_lines, replacing, write_lines
from rubric_core.schema.task import Task

_Entry = TypeVar("_Entry")


def read_tasks(path: Path | str) -> Iterator[Task]:
    """Read tasks one at a time, in file order, in memory that does not grow with the file.

    Args:
        path: a `.jsonl` file with the paper's JSON on every line (blank lines are skipped), or a
            `.parquet` file with the same columns.

    Raises:
        RubricFileError: at the first line that does not hold a well-formed task, with the path,
            the line and the field; or at once for an unsupported suffix.
        MissingExtraError: Parquet without pyarrow.
        OSError: the file cannot be read.
    """
    path = Path(path)
    _entry_for(path, READERS)
    return _tasks(path)


def read_each_row(path: Path) -> Iterator[tuple[int, dict[str, object] | SchemaError]]:
    """Yield each row's 1-based number with its object, or with the error if it holds none.

    Raises:
        RubricFileError, MissingExtraError, OSError: as `read_tasks`, except that a bad line is
            yielded, not raised.
    """
    if path.suffix.lower() == ".jsonl":
        return read_each_line(path)
    return _entry_for(path, READERS)(path)


def write_tasks(path: Path | str, tasks: Iterable[Task]) -> int:
    """Write tasks, passages and rubrics included; return their number.

    The file appears under its name only when it is complete and on disk. A failure before that (a
    full disk, an error in `tasks`, an interrupt) leaves an older file as it was, and no other file.

    Raises:
        RubricFileError: a suffix other than `.jsonl` and `.parquet`.
        MissingExtraError: Parquet without pyarrow.
        OSError: the file cannot be written.
    """
    path = Path(path)
    write = _entry_for(path, _WRITERS)
    with replacing(path) as file:
        return write(file, (task.to_json(reveal_grounding=True) for task in tasks))


READERS: dict[str, Callable[[Path], Iterator[tuple[int, dict[str, object]]]]] = {
    ".jsonl": read_lines,
    ".parquet": parquet.read_rows,
}
"""Functions that yield the numbered rows of a file, by its suffix."""
_WRITERS = {".jsonl": write_lines, ".parquet": parquet.write_rows}


def _entry_for(path: Path, table: Mapping[str, _Entry]) -> _Entry:
    """Return the entry of a table for the suffix of a path."""
    suffix = path.suffix.lower()
    entry = table.get(suffix)
    if entry is not None:
        return entry
    if path.is_dir():
        fault = "this is a folder"
    elif suffix:
        fault = f"the suffix is {suffix!r}"
    else:
        fault = "the name has no suffix"
    raise RubricFileError(
        f"{fault}: tasks are kept in .jsonl or .parquet files", path=path
    )


def _tasks(path: Path) -> Iterator[Task]:
    for _, task in read_each_task(path):
        if isinstance(task, RubricFileError):
            raise task
        yield task


def read_each_task(path: Path) -> Iterator[tuple[int, Task | RubricFileError]]:
    """Yield each row's 1-based number with its task, or with the error if it holds none.

    Raises:
        RubricFileError: an unsupported suffix, or a file that is not Parquet.
        MissingExtraError, OSError: as `read_tasks`.
    """
    for line, row in read_each_row(path):
        try:
            if isinstance(row, SchemaError):
                raise row
            yield line, Task.from_json(row)
        except SchemaError as error:
            problem = str(error)
            if isinstance(row, dict) and _is_answer(row):
                problem += "; this is a line of answers; tasks are wanted here"
            file_error = RubricFileError(
                problem, path=path, line=line, field=error.field
            )
            yield line, file_error


def _is_answer(row: dict[str, object]) -> bool:
    return "task_id" in row and ("response" in row or "text" in row)


Split = Literal["train", "validation", "test"]

_HASH_BITS = 64
"""Leading bits of the hash that place a document: more than the 53 that a float resolves."""


def split_of(
    doc_hash: str,
    *,
    train: float = 0.70,
    validation: float = 0.15,
) -> Split:
    """Return the split of a document: the same for all its tasks, in every run and order.

    Args:
        doc_hash: the identifier of the document.
        train: share of documents for training.
        validation: share for validation; the rest is for the test.

    Raises:
        SchemaError: `doc_hash` is not a string, or not encodable as UTF-8.
        ConfigError: shares that are negative or add up to more than 1.

    Source: paper, §4, Dataset.
    """
    if not (train >= 0 and validation >= 0 and train + validation <= 1):
        raise ConfigError(
            f"shares must be ≥ 0 and add up to at most 1, not {train!r} and {validation!r}",
            location="train" if not 0 <= train <= 1 else "validation",
        )
    try:
        digest = hashlib.sha256(doc_hash.encode()).digest()
    except (AttributeError, UnicodeEncodeError):
        raise SchemaError(
            f"doc_hash must be a text that UTF-8 can hold, not {doc_hash!r}",
            field="doc_hash",
        ) from None
    position = int.from_bytes(digest[: _HASH_BITS // 8]) / 2**_HASH_BITS
    if position < train:
        return "train"
    return "validation" if position < train + validation else "test"
