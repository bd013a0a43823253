"""Tasks for lm-eval, shipped in the package: what a model is asked and how it is scored.

tasks         the YAML files, for `--include_path`
small         a small set written for this package, so that a run can be tried without data
items         a row of a benchmark as what is asked: question, target, group
sources       where rows come from: a folder of local files, the small set, or the Hub
choices       the order of GPQA's choices, drawn once for each question
documents     what lm-eval loads: called by the YAML files
scoring       from a response to lm-eval's metrics: called by the YAML files
answers       what counts as a response's answer, and as the right one
heldout_task  held-out rubric reward as a task of lm-eval: all responses judged at once
verdicts      a judgement as lm-eval may log it: no passage, no judge's words
ranks         the held-out task shared by several processes
event_loop    running what judges from lm-eval, which is synchronous
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["SMALL_DATA", "TASKS_PATH"]

TASKS_PATH: Final = Path(__file__).with_name("tasks")
"""Folder of the YAML files, for lm-eval's `--include_path`."""

SMALL_DATA: Final = Path(__file__).with_name("small")
"""Folder of the set that was written for this package."""
