"""`rehearse`: a production configuration, two steps of it on a CPU, and what would fail."""

from __future__ import annotations

from rubric_train_openrlhf.cluster.rehearse.checking import (
    Finding,
    JudgeChoice,
    Report,
    Request,
    Status,
    failure_text,
    print_report,
)
from rubric_train_openrlhf.cluster.rehearse.rehearsal import rehearse

__all__ = [
    "Finding",
    "JudgeChoice",
    "Report",
    "Request",
    "Status",
    "failure_text",
    "print_report",
    "rehearse",
]
