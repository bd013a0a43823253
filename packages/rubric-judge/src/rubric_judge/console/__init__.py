"""What the commands of all packages say while they work, and when they are stopped."""

from __future__ import annotations

from rubric_judge.console.look import Look, said, said_time
from rubric_judge.console.pace import Pace
from rubric_judge.console.progress import Phase, Progress, Steps, current
from rubric_judge.console.stopping import Terminated, sigterm_raised, typed_command

__all__ = [
    "Look",
    "Pace",
    "Phase",
    "Progress",
    "Steps",
    "Terminated",
    "current",
    "said",
    "said_time",
    "sigterm_raised",
    "typed_command",
]
