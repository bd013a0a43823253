"""Findings on a task, and the checks that make them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from rubric_core import Task

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a task file, its place, and its remedy."""

    code: str
    """Kind of the finding, such as `zero_weight`."""
    severity: Severity
    """An error spoils the reward, or spends on a criterion that cannot be judged; a warning wants
    to be looked at."""
    what: str
    """Description of the problem: ids, numbers and counts."""
    remedy: str
    """Remedy of the problem."""
    criterion_id: str = ""
    """Id of the criterion; empty for a finding about the whole task."""
    task_id: str = ""
    """Id of the task; empty for a line that is not a valid task."""
    line: int = 0
    """Line of the task file (row, in a Parquet file), from 1."""


def as_error(code: str, what: str, *, remedy: str, criterion_id: str = "") -> Finding:
    """Return a finding that spoils the reward, or spends on what cannot be judged."""
    return Finding(code, "error", what, remedy, criterion_id)


def as_warning(code: str, what: str, *, remedy: str, criterion_id: str = "") -> Finding:
    """Return a finding that wants to be looked at."""
    return Finding(code, "warning", what, remedy, criterion_id)


Check = Callable[[Task], Iterator[Finding]]
"""Checks one task, without its file."""
