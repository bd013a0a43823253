"""The records of an evaluation on disk: rows in JSON Lines, and the manifest."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pydantic import BaseModel, ValidationError

from rubric_core import RubricFileError
from rubric_core.files import read_file, replacing
from rubric_eval.errors import EvalFolderError
from rubric_eval.records.digests import (
    Edits,
    check_content,
    check_identities,
    file_digests,
    sealed,
)
from rubric_eval.records.run import FORMAT, EvalRun
from rubric_judge.responses import read_rows as numbered_rows

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator
    from pathlib import Path

    from rubric_eval.records.inputs import EvalFolder


_TASK: Final = b'{"task_id":"'
_Row = TypeVar("_Row", bound=BaseModel)


def read_rows(path: Path, model: type[_Row]) -> list[_Row]:
    """Read a file of rows of one kind.

    Args:
        path: JSON Lines.
        model: kind of the rows.

    Returns:
        The rows, in the order of the file.

    Raises:
        RubricFileError: a line that is not such a row; shows no value of it.
        OSError: the file cannot be read.
    """
    return [row for _, row in iterate_rows(path, model)]


def iterate_rows(
    path: Path, model: type[_Row], *, only: Container[str] | None = None
) -> Iterator[tuple[int, _Row]]:
    """Yield the rows of a file one by one, each with its line; see `read_rows`.

    Args:
        path: JSON Lines.
        model: kind of the rows.
        only: tasks whose rows are wanted; lines of others are not looked into.
    """
    skips = None if only is None else partial(is_of_another, tasks=only)
    return numbered_rows(path, model, form=f"a row as `{model.__name__}` has it", skips=skips)


def is_of_another(line: bytes, tasks: Container[str]) -> bool:
    """Tell a line that is of none of some tasks without reading it; false where that takes reading.

    Args:
        line: of a file of rows whose first field is the task, as they are written here.
        tasks: ids.
    """
    if not line.startswith(_TASK):
        return False
    id_, quote, _ = line[len(_TASK) :].partition(b'"')
    return bool(quote) and b"\\" not in id_ and id_.decode("utf-8", "replace") not in tasks


def write_rows(path: Path, rows: Iterable[BaseModel], *, private: bool = False) -> None:
    """Write a file of rows, whole or not at all; folders are made.

    Args:
        path: the file; an older one is replaced.
        rows: one line each.
        private: only its owner may read it.

    Raises:
        OSError: the file cannot be written; an older one is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        if private and hasattr(os, "fchmod"):  # not on Windows
            os.fchmod(file.fileno(), 0o600)
        file.writelines(row.model_dump_json().encode() + b"\n" for row in rows)


def write_json(path: Path, content: BaseModel) -> None:
    """Write one model as a file for people and programs, whole or not at all.

    Raises:
        OSError: the file cannot be written; an older one is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        text = json.dumps(content.model_dump(mode="json"), indent=1, ensure_ascii=False)
        file.write(f"{text}\n".encode())


def read_run(folder: EvalFolder, *, edits: Edits | None = None) -> EvalRun:
    """Read the manifest of an evaluation, however it ended.

    Args:
        folder: of the evaluation.
        edits: where it is noted that the manifest of a finished one was edited.

    Raises:
        EvalFolderError: the folder holds no evaluation.
        RubricFileError: its run.json is damaged, or of another version.
        OSError: the file cannot be read.
    """
    try:
        text = read_file(folder.run)
    except FileNotFoundError:
        raise EvalFolderError(
            f"{folder.root} holds no evaluation: there is no {folder.run.name} in it; name the "
            "folder that was given as --out"
        ) from None
    try:
        run = EvalRun.model_validate_json(text)
    except ValidationError as error:
        _refuse_newer(folder.run, text)
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in problem["loc"]) or None
        place = f"field {field!r}: " if field else ""
        raise RubricFileError(
            f"{place}{problem['msg']}; restore the file, or evaluate into a new folder",
            path=folder.run,
            field=field,
        ) from None
    if edits is not None and run.status == "finished":
        check_content(folder.run, run, text, edits)
        check_identities(folder.run, run, edits)
    return run


def _refuse_newer(path: Path, text: bytes) -> None:
    """Tell a manifest of a later version from a damaged one."""
    try:
        content: Any = json.loads(text)
    except ValueError:
        return
    held = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    found = held.get("format")
    if isinstance(found, int) and found > FORMAT:
        writers = held.get("versions")
        writer = cast("dict[str, Any]", writers) if isinstance(writers, dict) else {}
        version = writer.get("rubric-eval")
        by = f", written by rubric-eval {version}" if isinstance(version, str) else ""
        raise RubricFileError(
            f"field 'format': {found}{by}, is newer than this version reads ({FORMAT}): use that "
            "version, or a later one; the folder is as it was",
            path=path,
            field="format",
        )


def read_finished_run(folder: EvalFolder, *, edits: Edits | None = None) -> EvalRun:
    """Read the manifest of an evaluation that ran to its end.

    Args:
        folder: of the evaluation.
        edits: where it is noted that it was edited; refused at once when left out.

    Raises:
        EvalFolderError: there is none, or it runs still, was stopped, or failed.
        EvalEditedError: it was edited.
        RubricFileError, OSError: as `read_run`.
    """
    noted = Edits() if edits is None else edits
    run = read_run(folder, edits=noted)
    if run.status != "finished":
        why = f": {run.error}" if run.error else ""
        raise EvalFolderError(
            f"the evaluation in {folder.root} is {run.status}, not finished{why}; run the command "
            "that started it again, which goes on where it was"
        )
    if edits is None:
        noted.refuse()
    return run


def write_run(folder: EvalFolder, run: EvalRun) -> None:
    """Write the manifest; the folder is made.

    Raises:
        OSError: the file cannot be written; an older one is still there.
    """
    write_json(folder.run, run)


def write_finished_run(folder: EvalFolder, run: EvalRun) -> None:
    """Write the manifest of an evaluation whose other files are all there, with their digests.

    Raises:
        OSError: a file cannot be read or written; an older manifest is still there.
    """
    write_run(folder, sealed(run.model_copy(update={"files": file_digests(folder)})))
