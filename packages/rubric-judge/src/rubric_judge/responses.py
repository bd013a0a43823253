"""Responses to judge, and the judgements of them, in JSON Lines.

A judgement file holds results and rewards, not the responses, passages or rubrics; a judge's
reasoning may quote them, so it is for the judge's side.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError

from rubric_core import (
    JudgeResult,
    JudgeView,
    Outcome,
    RubricFileError,
    Task,
    normalized_reward,
)
from rubric_core.errors import RepeatedKeyError
from rubric_core.strict_json import decode

__all__ = ["JudgedResponse", "read_responses", "write_judgements"]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    task_id: StrictStr
    response: StrictStr


@dataclass(frozen=True, slots=True)
class JudgedResponse:
    """The line that a response stands in, and what became of it."""

    line: int
    view: JudgeView
    result: JudgeResult

    @property
    def reward(self) -> float | None:
        """The normalised reward; None where the judge was not reached."""
        if self.result.outcome is Outcome.UNAVAILABLE:
            return None
        return normalized_reward(self.result, self.view.rubric)


def read_responses(path: Path, tasks: Mapping[str, Task]) -> list[tuple[int, JudgeView]]:
    """Read `{"task_id": …, "response": …}` lines and join them with their tasks.

    Args:
        path: a JSON Lines file; blank lines are skipped.
        tasks: tasks by id.

    Returns:
        Line numbers, from 1, and what the judge will see.

    Raises:
        RubricFileError: a line that is not such an object, or that names an unknown task.
        OSError: the file cannot be read.
    """
    views: list[tuple[int, JudgeView]] = []
    for line, row in _rows(path):
        task = tasks.get(row.task_id)
        if task is None:
            raise RubricFileError(
                f"no task has the id {row.task_id!r}; the task file holds {len(tasks)} others. "
                "Take ids from `Task.task_id`, and the task file that they came from",
                path=path,
                line=line,
                field="task_id",
            )
        views.append((line, task.judge_view(row.response)))
    return views


def _rows(path: Path) -> Iterator[tuple[int, _Row]]:
    for line, text in enumerate(path.read_bytes().splitlines(), 1):
        if not text.strip():
            continue
        try:
            row = _Row.model_validate_json(text)
            decode(text.decode())  # pydantic would take the last of two equal keys
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(str(part) for part in problem["loc"]) or None
            where = f"field {field!r}: " if field else ""
            raise RubricFileError(
                f'{where}{problem["msg"]}; a line is {{"task_id": "…", "response": "…"}}',
                path=path,
                line=line,
                field=field,
            ) from None
        except RepeatedKeyError as error:
            raise RubricFileError(str(error), path=path, line=line) from None
        yield line, row


def write_judgements(path: Path, judged: Iterable[JudgedResponse]) -> None:
    """Write one line for each response; the file appears when it is complete.

    Args:
        path: the file; an older one is replaced.
        judged: the judgements, in the order to write.

    Raises:
        OSError: the file cannot be written; an older one is still there.

    What is no regular file, such as a pipe, is written straight to.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as stream:
            stream.writelines(f"{json.dumps(_judgement(row))}\n" for row in judged)
        return
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        unfinished = Path(file.name)
        try:
            file.writelines(f"{json.dumps(_judgement(row))}\n" for row in judged)
            file.flush()
        except BaseException:
            unfinished.unlink()
            raise
    unfinished.replace(path)


def _judgement(judged: JudgedResponse) -> dict[str, object]:
    return {
        "line": judged.line,
        "task_id": judged.view.task_id,
        "reward": judged.reward,
        "result": judged.result.model_dump(mode="json"),
    }
