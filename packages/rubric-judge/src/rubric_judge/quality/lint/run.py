"""The list of checks, and their run over a task file."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from rubric_core import SchemaError, Task
from rubric_core.data.dataset import read_each_row
from rubric_judge.quality.lint import claims, grounding, reach, wording
from rubric_judge.quality.lint.criterion_words import check_size
from rubric_judge.quality.lint.findings import Check, Finding, as_error

CHECKS: tuple[Check, ...] = (
    reach.check_weights,
    wording.check_wording,
    wording.check_contradictions,
    claims.check_empty_claims,
    check_size,
    reach.check_reach,
    grounding.check_grounding,
    grounding.check_leaks,
)
"""Checks, one for each family of findings."""


def lint_task(task: Task, *, by_claims: bool = False) -> Iterator[Finding]:
    """Yield the findings of all checks on one task.

    Args:
        task: a task of any kind.
        by_claims: whether the claim judge will score its answers.
    """
    task_id = task.task_id  # a hash of the whole rubric
    checks = (*CHECKS, claims.check_claims) if by_claims else CHECKS
    for finding in chain.from_iterable(check(task) for check in checks):
        yield replace(finding, task_id=task_id)


def lint_tasks(
    path: Path,
    *,
    by_claims: bool = False,
    on_task: Callable[[Task], None] | None = None,
) -> Iterator[tuple[int, tuple[Finding, ...]]]:
    """Yield (line, its findings) for every task of a file, in file order.

    A line that is not a valid task is a finding, so that one run names them all.

    Args:
        path: the file.
        by_claims: as `lint_task` takes it.
        on_task: called with each task that could be read.

    Raises:
        RubricFileError: another suffix than .jsonl and .parquet, or no Parquet inside.
        OSError: the file cannot be read.
    """
    lines: dict[str, int] = {}
    for line, row in read_each_row(path):
        try:
            if isinstance(row, SchemaError):
                raise row
            task = Task.from_json(row)
        except SchemaError as error:
            unreadable = as_error(
                "no_task",
                str(error),
                remedy="correct the line: nothing can read this file as it is",
            )
            findings = [unreadable]
        else:
            if on_task is not None:
                on_task(task)
            findings = list(lint_task(task, by_claims=by_claims))
            first = lines.setdefault(task.task_id, line)
            if first != line:
                repeated = as_error(
                    "repeated_task",
                    f"is the task of line {first} again",
                    remedy="leave one out: both have the same id",
                )
                findings.append(replace(repeated, task_id=task.task_id))
        yield line, tuple(replace(finding, line=line) for finding in findings)
