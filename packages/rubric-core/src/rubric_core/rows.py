"""Rows of JSON Lines files, each of one model: their errors, and files that a run is writing."""

import os
from collections.abc import Callable, Iterable, Iterator
from io import BufferedWriter
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core.configuration import needed
from rubric_core.errors import RubricFileError
from rubric_core.files import append_whole, open_file, read_file

_Model = TypeVar("_Model", bound=BaseModel)


class ClosedRow(BaseModel):
    """A frozen row that refuses unknown fields, and shows no value in its errors."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True
    )


class OpenRow(BaseModel):
    """A frozen row that passes over unknown fields, and shows no value in its errors."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="ignore", hide_input_in_errors=True
    )


def row_error(
    error: ValidationError, remedy: str, *, path: Path, line: int | None = None
) -> RubricFileError:
    """Return an error for the first problem that pydantic found in a file or line, without values.

    Args:
        error: the error of the model that was to be read.
        remedy: what to do.
        path: the file.
        line: 1-based line, where the model is one of many.

    Returns:
        The error, for the caller to raise.
    """
    first = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    place = f"field {field!r}: " if field else ""
    return RubricFileError(
        f"{place}{needed(first)}; {remedy}", path=path, line=line, field=field or None
    )


def read_model(path: Path, model: type[_Model], *, remedy: str) -> _Model:
    """Read a file that holds one model as JSON.

    Args:
        path: the file.
        model: the model of its content.
        remedy: what to do with a file that holds something else.

    Raises:
        RubricFileError: it holds something else.
        OSError: it cannot be read.
    """
    try:
        return model.model_validate_json(read_file(path))
    except ValidationError as error:
        raise row_error(error, remedy, path=path) from None


def read_growing(
    path: Path, model: type[_Model], *, notes: list[str] | None = None
) -> Iterator[tuple[int, _Model]]:
    """Yield (1-based line, its row) of a JSON Lines file that a run may be writing.

    Args:
        path: the file; a missing file has no rows. Blank lines are skipped.
        model: the model of the rows.
        notes: gets a sentence on a torn last line, which is left out.

    Raises:
        RubricFileError: a broken row, with its place; or the file cannot be read.
    """
    if not path.exists():
        return
    try:
        file = open_file(path)
    except OSError as error:
        raise RubricFileError(f"cannot be read: {error.strerror}", path=path) from None
    with file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = model.model_validate_json(line)
            except ValidationError as error:
                if line.endswith(b"\n"):
                    raise row_error(
                        error, "repair or remove the row", path=path, line=number
                    ) from None
                if notes is not None:
                    notes.append(
                        f"The last line of {path.name} is incomplete and was left out: "
                        "the run was writing it, or was stopped while it did."
                    )
                return
            yield number, row


def end_last_line(
    file: BufferedWriter, model: type[BaseModel], *, is_torn: Callable[[bytes], bool]
) -> int:
    """End the last line of a file that grows by lines, or cut it off where a kill tore it.

    Args:
        file: a file of `open_to_append` that nobody else writes to.
        model: the model of a whole line.
        is_torn: whether a last line that does not fit the model is torn; others stay for readers
            to report.

    Returns:
        The size of the file then.
    """
    descriptor = file.fileno()
    size = os.fstat(file.fileno()).st_size
    if os.pread(descriptor, 1, max(0, size - 1)) in {b"", b"\n"}:
        return size
    last = os.pread(descriptor, size, 0).rpartition(b"\n")[2]
    try:
        model.model_validate_json(last)
    except ValidationError:
        if is_torn(last):
            os.ftruncate(descriptor, size - len(last))
    else:
        append_whole(descriptor, b"\n", size=size)
    os.fsync(descriptor)
    return os.fstat(descriptor).st_size


class _HasStep(Protocol):
    @property
    def step(self) -> int: ...


_Step = TypeVar("_Step", bound=_HasStep)


def rising_steps(rows: Iterable[tuple[int, _Step]], *, path: Path) -> tuple[_Step, ...]:
    """Return the rows of a file with at most one row a step.

    Args:
        rows: each with its 1-based line.
        path: the file.

    Raises:
        RubricFileError: a step that is not after the one before.
    """
    steps: list[_Step] = []
    for line, row in rows:
        if steps and row.step <= steps[-1].step:
            raise RubricFileError(
                f"step {row.step} after step {steps[-1].step}; steps must rise, so remove the rows "
                "that a restart has repeated",
                path=path,
                line=line,
                field="step",
            )
        steps.append(row)
    return tuple(steps)
