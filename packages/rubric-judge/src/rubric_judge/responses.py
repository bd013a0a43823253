"""Responses to judge, and the judgements of them, in JSON Lines.

A judgement file holds results and rewards, not the responses, passages or rubrics; a judge's
reasoning may quote them, so it is for the judge's side.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictInt,
    StrictStr,
    ValidationError,
)

from rubric_core import (
    JudgeResult,
    JudgeView,
    Outcome,
    RubricFileError,
    SchemaError,
    Task,
    normalized_reward,
)
from rubric_core.strict_json import decode

__all__ = [
    "JudgedResponse",
    "JudgementRow",
    "ResponseRow",
    "read_judgements",
    "read_responses",
    "read_rows",
    "response_rows",
    "write_judgements",
]

_Row = TypeVar("_Row", bound=BaseModel)


class ResponseRow(BaseModel):
    """One line of a file of responses."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    task_id: StrictStr
    response: StrictStr


class JudgementRow(BaseModel):
    """One line of a judgement file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    line: StrictInt
    """The response's line in its own file."""
    task_id: StrictStr
    reward: float | None
    result: JudgeResult
    origin: dict[str, JsonValue] = Field(default_factory=dict)
    """Of a judgement made anew: the response's id in its source and the judgement of before."""


@dataclass(frozen=True, slots=True)
class JudgedResponse:
    """The line that a response stands in, and what became of it."""

    line: int
    view: JudgeView
    result: JudgeResult
    origin: Mapping[str, object] = field(default_factory=dict[str, object])
    """Where it was stored and how it was judged before; written beside the judgement."""

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
    for line, row in response_rows(path):
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


def response_rows(path: Path) -> Iterator[tuple[int, ResponseRow]]:
    """Yield (1-based line, its row) of a file of responses; blank lines are skipped.

    Raises:
        RubricFileError: a line that is not such an object.
        OSError: the file cannot be read.
    """
    return read_rows(path, ResponseRow, form='{"task_id": "…", "response": "…"}')


def read_judgements(path: Path) -> Iterator[tuple[int, JudgementRow]]:
    """Yield (1-based line, its row) of a judgement file; blank lines are skipped.

    Raises:
        RubricFileError: a line that is no judgement.
        OSError: the file cannot be read.
    """
    form = '{"line": 1, "task_id": "…", "reward": 0.5, "result": {…}}'
    return read_rows(path, JudgementRow, form=form)


def read_rows(path: Path, model: type[_Row], *, form: str) -> Iterator[tuple[int, _Row]]:
    """Yield (1-based line, its row) of a file that holds one kind of row.

    Args:
        path: a JSON Lines file; blank lines are skipped.
        model: the rows' model; it hides its input in errors.
        form: what a line looks like, for the error.

    Raises:
        RubricFileError: a line that is not such a row; shows no value of it.
        OSError: the file cannot be read.
    """
    for line, text in enumerate(path.read_bytes().splitlines(), 1):
        if not text.strip():
            continue
        try:
            row = model.model_validate_json(text)
            decode(text.decode())  # pydantic would take the last of two equal keys
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
            name = ".".join(str(part) for part in problem["loc"]) or None
            where = f"field {name!r}: " if name else ""
            raise RubricFileError(
                f"{where}{problem['msg']}; a line is {form}", path=path, line=line, field=name
            ) from None
        except SchemaError as error:  # two equal keys, or a result that contradicts itself
            raise RubricFileError(str(error), path=path, line=line, field=error.field) from None
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
    row: dict[str, object] = {
        "line": judged.line,
        "task_id": judged.view.task_id,
        "reward": judged.reward,
        "result": judged.result.model_dump(mode="json"),
    }
    if judged.origin:
        row["origin"] = dict(judged.origin)
    return row
