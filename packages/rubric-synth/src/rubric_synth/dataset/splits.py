"""One split in two files, JSON lines and Parquet; and a dataset folder read back."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Final

from pydantic import ValidationError

from rubric_core import read_tasks
from rubric_core.data.parquet import task_schema
from rubric_core.files import open_file, read_file
from rubric_synth.collect.folder import DOCUMENTS_FILE
from rubric_synth.dataset.manifest import MANIFEST_FILE, SPLITS, WORK_FOLDER, Manifest
from rubric_synth.errors import DatasetFolderError
from rubric_synth.files import json_line
from rubric_synth.rejection import Rejection

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


def read_manifest(dataset: Path) -> Manifest:
    """Return the manifest of a dataset folder.

    Raises:
        DatasetFolderError: The folder is missing, is no dataset, or is not finished.
    """
    _check_is_dataset(dataset)
    path = dataset / MANIFEST_FILE
    try:
        return Manifest.model_validate_json(read_file(path))
    except OSError as error:
        message = f"{str(path)!r} cannot be read; write the dataset with `rubric-synth run`"
        raise DatasetFolderError(message, path=path) from error
    except ValidationError as error:
        message = (
            f"{str(path)!r} is no manifest of a dataset ({error.error_count()} faults); "
            "write the dataset with `rubric-synth run`"
        )
        raise DatasetFolderError(message, path=path) from None


def split_path(dataset: Path, split: str) -> Path:
    """Return the file of a split.

    Raises:
        DatasetFolderError: The split is unknown, or the folder does not hold it.
    """
    if split not in SPLITS:
        message = f"split {split!r} is unknown; choose one of {', '.join(SPLITS)}"
        raise DatasetFolderError(message, path=dataset)
    path = dataset / f"{split}.jsonl"
    if not path.is_file():
        _check_is_dataset(dataset)
        raise _not_there(path)
    return path


def read_rejections(path: Path) -> Iterator[tuple[int, Rejection | None]]:
    """Yield (1-based line, its rejection), and None for a line that holds none.

    Raises:
        DatasetFolderError: The file is missing, cannot be read, or is no regular one.
    """
    if not path.is_file():  # to open a pipe is to wait for whoever writes into it
        raise _not_there(path)
    try:
        with open_file(path) as lines:
            for number, line in enumerate(lines, start=1):
                yield number, _rejection(line)
    except OSError as error:
        message = f"{str(path)!r} cannot be read: {error.strerror}"
        raise DatasetFolderError(message, path=path) from error


def _not_there(path: Path) -> DatasetFolderError:
    wrong = "is no regular file" if path.exists() else "is missing"
    message = f"{str(path)!r} {wrong}; write the dataset with `rubric-synth run`"
    return DatasetFolderError(message, path=path)


def _rejection(line: bytes) -> Rejection | None:
    try:
        return Rejection.model_validate_json(line)
    except ValidationError:
        pass
    try:  # a draft may hold a lone surrogate, which pydantic's reader of JSON refuses
        return Rejection.model_validate(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _check_is_dataset(dataset: Path) -> None:
    if (dataset / MANIFEST_FILE).is_file() and not (dataset / DOCUMENTS_FILE).is_file():
        return
    shown = str(dataset)
    if not dataset.exists():
        message = f"{shown!r} does not exist; write a dataset with `rubric-synth run`"
    elif not dataset.is_dir():
        message = f"{shown!r} is a file; name the folder that `rubric-synth run` wrote"
    elif (dataset / DOCUMENTS_FILE).is_file():
        message = (
            f"{shown!r} is a folder of collected documents, not a dataset; "
            f"make one of it with `rubric-synth run {dataset} --out DATASET`"
        )
    elif (dataset / WORK_FOLDER).is_dir():
        message = (
            f"{shown!r} holds the work of a run that has not ended, and no dataset yet; "
            f"go on with `rubric-synth run COLLECTED --out {dataset}`"
        )
    else:
        message = f"{shown!r} holds no {MANIFEST_FILE}; write the dataset with `rubric-synth run`"
    raise DatasetFolderError(message, path=dataset)


def question_lines(dataset: Path, *, split: str = "test") -> Iterator[str]:
    """Yield one line of JSON with `task_id` and `question` for each task of a split.

    Args:
        dataset: Folder written by `synthesise`.
        split: "train", "validation" or "test".

    Raises:
        DatasetFolderError: The split is unknown, missing or empty.
        RubricFileError: A row is not a task.
    """
    path = split_path(dataset, split)
    count = 0
    for count, task in enumerate(read_tasks(path), start=1):  # noqa: B007 - whether there was one
        view = task.policy_view()
        yield json_line({"task_id": view.task_id, "question": view.question}).decode()
    if not count:
        message = f"{str(path)!r} holds no task; choose another split or collect more documents"
        raise DatasetFolderError(message, path=path)
