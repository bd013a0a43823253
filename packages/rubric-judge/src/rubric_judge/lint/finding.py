"""One thing that is wrong with a task. It never repeats a text of the passage or the rubric."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from rubric_core import Task

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, and what to do."""

    code: str
    """The kind of finding, such as `zero_weight`."""
    severity: Severity
    """An error spoils the reward, or spends on a criterion that cannot be judged; a warning wants
    to be looked at."""
    what: str
    """What was found: ids, numbers and counts."""
    remedy: str
    """What to do about it."""
    criterion_id: str = ""
    """The criterion; empty for a finding about the whole task."""
    task_id: str = ""
    """Empty for a line that is no task."""
    line: int = 0
    """Line of the task file (row, in a Parquet file), from 1."""


Check = Callable[[Task], Iterator[Finding]]
"""Looks at one task; knows nothing of the file."""
