"""Tasks for lm-eval, shipped in the package, with their data, prompts and scoring.

tasks         the YAML files, for `--include_path`
small         a small set written for this package, so that a run can be tried without data
sources       readers of a benchmark's rows, which the YAML files call
scoring       lm-eval's metrics of a response, which the YAML files call
answers       extraction of a response's answer, and its comparison with the target
heldout_task  held-out rubric reward as a task of lm-eval: all responses judged at once
"""

from pathlib import Path

__all__ = ["SMALL_DATA", "TASKS_PATH"]

TASKS_PATH = Path(__file__).with_name("tasks")
"""Folder of the YAML files, for lm-eval's `--include_path`."""

SMALL_DATA = Path(__file__).with_name("small")
"""Folder of the set that was written for this package."""
