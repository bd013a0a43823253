"""What is wrong with a task file, before anything is spent on it."""

from __future__ import annotations

from rubric_judge.lint.reading import Finding, Severity
from rubric_judge.lint.run import CHECKS, lint_task, lint_tasks

__all__ = ["CHECKS", "Finding", "Severity", "lint_task", "lint_tasks"]
