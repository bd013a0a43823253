"""The label queue: a line for each criterion that a cascade's judges differ on."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictStr

from rubric_core import ConfigError, FolderLockError, JudgeView
from rubric_core.files import append_whole, open_to_append, text_sha256
from rubric_core.locks import file_lock
from rubric_core.rows import ClosedRow, end_last_line, read_growing


class LabelRequest(ClosedRow):
    """One line of a label queue."""

    task_id: StrictStr
    response_sha256: StrictStr
    criterion: StrictStr
    line: Annotated[int, Field(strict=True, ge=1)] | None = None
    """The response's line in its own file, where that is known."""


def require_queue(path: Path) -> None:
    """Refuse a queue that cannot be written, before anything is paid for; makes no file.

    Raises:
        ConfigError: the queue cannot be written; gives the reason.
    """
    problem = _unwritable(path)
    if problem:
        raise ConfigError(
            f"label_queue: {str(path)!r} cannot be written ({problem}): name a file that can, "
            "or leave it out",
            location="label_queue",
        )


def _unwritable(path: Path) -> str:
    """Return the reason why the file, or the lock beside it, cannot be written; "" for none."""
    folder = path.resolve().parent
    if not folder.is_dir():
        return "its folder is not there"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "its folder lets nothing be written"
    if not path.exists():
        return ""
    try:
        open_to_append(path).close()
    except OSError as error:
        return error.strerror or "unknown"
    return "" if path.is_file() else "it is no regular file"


def ask_for_labels(path: Path, view: JudgeView, criteria: Sequence[str]) -> None:
    """Add a line for each criterion; they are on the disk on return.

    Any number of processes may write to the file, and a judgement that is made again, as after a
    kill, asks again: `read_queue` leaves out what stands twice. A last line that a kill tore is cut
    off, for its judgement was not kept either.

    Raises:
        OSError: it cannot be written.
    """
    response = text_sha256(view.identity)
    rows = [
        LabelRequest(task_id=view.task_id, response_sha256=response, criterion=name)
        for name in criteria
    ]
    dumps = [row.model_dump(exclude_none=True) for row in rows]
    lines = "".join(f"{json.dumps(dump)}\n" for dump in dumps).encode()
    try:
        with file_lock(path, wait=True), open_to_append(path) as file:
            size = end_last_line(file, LabelRequest, is_torn=bool)
            append_whole(file.fileno(), lines, size=size, on_disk=True)
    except FolderLockError as error:
        raise error.__cause__ or OSError(0, str(error), str(path)) from None


def read_queue(path: Path) -> list[LabelRequest]:
    """Read the requests for labels in order, each once.

    Raises:
        RubricFileError: a line that is not a valid request; or the file cannot be read.
    """
    rows = [row for _, row in read_growing(path, LabelRequest)]
    return list(dict.fromkeys(rows))
