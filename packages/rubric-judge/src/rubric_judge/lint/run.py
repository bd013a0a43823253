"""The list of checks, and a task file through all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from rubric_core import SchemaError, Task, parquet, read_tasks
from rubric_core.files import read_each_line
from rubric_judge.lint.contradictions import check_contradictions
from rubric_judge.lint.finding import Check, Finding
from rubric_judge.lint.grounding import check_grounding, check_leaks
from rubric_judge.lint.reach import check_reach, check_weights
from rubric_judge.lint.reading import check_size
from rubric_judge.lint.wording import check_wording

CHECKS: Final[tuple[Check, ...]] = (
    check_weights,
    check_wording,
    check_contradictions,
    check_size,
    check_reach,
    check_grounding,
    check_leaks,
)
"""One for each family of findings."""


def lint_task(task: Task) -> Iterator[Finding]:
    """Yield what every check finds in one task."""
    for check in CHECKS:
        for finding in check(task):
            yield replace(finding, task_id=task.task_id)


def lint_tasks(path: Path) -> Iterator[tuple[int, tuple[Finding, ...]]]:
    """Yield (line, its findings) for every task of a file, in file order.

    A line that is no task is a finding, so that one run names them all.

    Raises:
        RubricFileError: another suffix than .jsonl and .parquet, or no Parquet inside.
        OSError: the file cannot be read.
    """
    seen: dict[str, int] = {}
    for line, task in _tasks(path):
        if isinstance(task, Finding):
            yield line, (replace(task, line=line),)
            continue
        findings = [replace(finding, line=line) for finding in lint_task(task)]
        first = seen.setdefault(task.task_id, line)
        if first != line:
            findings.append(_repeated(task, line=line, first=first))
        yield line, tuple(findings)


def _tasks(path: Path) -> Iterator[tuple[int, Task | Finding]]:
    match path.suffix.lower():
        case ".jsonl":
            rows = read_each_line(path)
        case ".parquet":
            rows = parquet.read_rows(path)
        case _:
            yield from enumerate(read_tasks(path), 1)  # says which suffixes there are
            return
    for line, row in rows:
        try:
            yield line, _task(row)
        except SchemaError as error:
            yield line, _no_task(error, row)


def _task(row: dict[str, object] | SchemaError) -> Task:
    if isinstance(row, SchemaError):
        raise row
    return Task.from_json(row)


def _no_task(error: SchemaError, row: dict[str, object] | SchemaError) -> Finding:
    hint = ""
    if isinstance(row, dict) and _has_penalty(row):
        hint = (
            "; a penalty is a criterion of positive weight that an answer meets by avoiding the "
            "fault, and `rubric-judge import` turns it into one"
        )
    return Finding(
        code="no_task",
        severity="error",
        what=f"{error}{hint}",
        remedy="correct the line: nothing can read this file as it is",
    )


def _has_penalty(row: dict[str, object]) -> bool:
    criteria = row.get("criteria")
    if not isinstance(criteria, list):
        return False
    weights = [
        cast("dict[str, object]", one).get("weight")
        for one in cast("list[object]", criteria)
        if isinstance(one, dict)
    ]
    return any(isinstance(weight, float) and weight < 0 for weight in weights)


def _repeated(task: Task, *, line: int, first: int) -> Finding:
    return Finding(
        code="repeated_task",
        severity="error",
        what=f"is the task of line {first} again",
        remedy="leave one out: both have the same id",
        task_id=task.task_id,
        line=line,
    )
