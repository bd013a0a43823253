"""What the commands of all packages say while they work; `command` has what makes one of them."""

from __future__ import annotations

from rubric_judge.console.progress import Phase, Progress, Steps, current
from rubric_judge.console.snapshot import Pace, PhaseSnapshot, duration_text, phase_line

__all__ = [
    "Pace",
    "Phase",
    "PhaseSnapshot",
    "Progress",
    "Steps",
    "current",
    "duration_text",
    "phase_line",
]
