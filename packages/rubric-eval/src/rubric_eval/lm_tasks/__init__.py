"""Tasks for lm-eval, shipped in the package: what a model is asked and how it is scored.

tasks         the YAML files, for `--include_path`
small         a small set written for this package, so that a run can be tried without data
sources       where rows come from, and each as what is asked: called by the YAML files
scoring       from a response to lm-eval's metrics: called by the YAML files
answers       what counts as a response's answer, and as the right one
heldout_task  held-out rubric reward as a task of lm-eval: all responses judged at once
"""

from pathlib import Path
from typing import Final

__all__ = ["SMALL_DATA", "TASKS_PATH"]

TASKS_PATH: Final = Path(__file__).with_name("tasks")
"""Folder of the YAML files, for lm-eval's `--include_path`."""

SMALL_DATA: Final = Path(__file__).with_name("small")
"""Folder of the set that was written for this package."""
