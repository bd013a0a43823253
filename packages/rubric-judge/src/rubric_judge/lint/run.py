"""The list of checks, and a task file through all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from rubric_core import SchemaError, Task, read_tasks
from rubric_core.files import read_lines
from rubric_judge.lint.contradictions import check_contradictions
from rubric_judge.lint.finding import Check, Finding
from rubric_judge.lint.grounding import check_grounding
from rubric_judge.lint.leaks import check_leaks
from rubric_judge.lint.reach import check_reach
from rubric_judge.lint.weights import check_weights
from rubric_judge.lint.wording import check_wording

__all__ = ["CHECKS", "lint_task", "lint_tasks"]

CHECKS: Final[tuple[Check, ...]] = (
    check_weights,
    check_wording,
    check_contradictions,
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

    A line that is JSON and no task is a finding, so that one run names them all.

    Raises:
        RubricFileError: a line that is no JSON, or another suffix than .jsonl and .parquet.
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
    if path.suffix.lower() != ".jsonl":
        yield from enumerate(read_tasks(path), 1)
        return
    for line, row in read_lines(path):
        try:
            yield line, Task.from_json(row)
        except SchemaError as error:
            yield (
                line,
                Finding(
                    code="no_task",
                    severity="error",
                    what=str(error),
                    remedy="correct the line: nothing can read this file as it is",
                ),
            )


def _repeated(task: Task, *, line: int, first: int) -> Finding:
    return Finding(
        code="repeated_task",
        severity="error",
        what=f"is the task of line {first} again",
        remedy="leave one out: both have the same id",
        task_id=task.task_id,
        line=line,
    )
