"""What to do after a calibration: commands and settings."""

from __future__ import annotations

from typing import NamedTuple

from rubric_judge.calibration.record import Calibration, Verdict
from rubric_judge.page.tables import counted

_SHOWN = 8
"""Criteria that a step names."""


class Files(NamedTuple):
    """Files of a calibration, as they were named."""

    tasks: str = "TASKS"
    responses: str = "RESPONSES"
    calibration: str = "calibration.json"


class Step(NamedTuple):
    """One thing to do."""

    what: str
    how: str = ""
    """A command, or lines of a configuration; empty where a person has to think."""


def next_steps(found: Calibration, files: Files) -> list[Step]:
    """Return what the verdicts ask for, in the order in which to do it."""
    steps: list[Step] = []
    if named := _named(found, Verdict.MORE_LABELS):
        command = f"rubric-judge label {files.tasks} {files.responses} --out LABELS"
        steps.append(Step(f"label more, then calibrate on it: {named}", command))
    if named := _named(found, Verdict.REWRITE):
        steps.append(Step(f"word anew, then label and calibrate: {named}"))
    if named := _named(found, Verdict.STRONGER_JUDGE):
        steps.append(Step(f"calibrate a stronger judge: {named}"))
    if any(one.factor for one in found.criteria):
        setting = f"judge:\n  calibration: {files.calibration}"
        steps.append(Step("train on what is admitted: beside judge.spec of rubric-train", setting))
    return steps


def _named(found: Calibration, verdict: Verdict) -> str:
    names = [one.criterion for one in found.criteria if one.verdict is verdict]
    others = len(names) - _SHOWN
    more = f" and {counted(others, 'other')}" if others > 0 else ""
    return ", ".join(names[:_SHOWN]) + more
