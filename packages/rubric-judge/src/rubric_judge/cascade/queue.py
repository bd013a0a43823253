"""What people should label next: a line for each criterion that a cascade's judges differ on."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictStr

from rubric_core import JudgeView
from rubric_core.files import open_to_append, read_growing
from rubric_judge.ledger.entry import hash_text


class LabelRequest(BaseModel):
    """One line of a label queue."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    task_id: StrictStr
    response_sha256: StrictStr
    criterion: StrictStr
    line: Annotated[int, Field(strict=True, ge=1)] | None = None
    """The response's line in its own file, where that is known."""


def ask_for_labels(path: Path, view: JudgeView, criteria: Sequence[str]) -> None:
    """Add a line for each criterion; they are on the disk on return.

    Any number of processes may write to the file, and a judgement that is made again, as after a
    kill, asks again: `read_queue` leaves out what stands twice.

    Raises:
        OSError: it cannot be written.
    """
    response = hash_text(view.response)
    rows = [
        LabelRequest(task_id=view.task_id, response_sha256=response, criterion=name)
        for name in criteria
    ]
    lines = "".join(f"{json.dumps(row.model_dump(exclude_none=True))}\n" for row in rows).encode()
    with open_to_append(path) as file:
        # One write at the end of the file: no other process's line comes between.
        if os.write(file.fileno(), lines) < len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(file.fileno())


def read_queue(path: Path) -> list[LabelRequest]:
    """Read what is to be labelled, in the order in which it was asked for, each once.

    Raises:
        RubricFileError: a line that is no request; or the file cannot be read.
    """
    return list(dict.fromkeys(row for _, row in read_growing(path, LabelRequest)))
