"""What the commands of all packages say while they work, and when they are stopped."""

from __future__ import annotations

from rubric_judge.console.command import Terminated, sigterm_raised, typed_command
from rubric_judge.console.display import Pace, PhaseSnapshot, duration_text, phase_line
from rubric_judge.console.progress import Phase, Progress, Steps, current

__all__ = [
    "Pace",
    "Phase",
    "PhaseSnapshot",
    "Progress",
    "Steps",
    "Terminated",
    "current",
    "duration_text",
    "phase_line",
    "sigterm_raised",
    "typed_command",
]
