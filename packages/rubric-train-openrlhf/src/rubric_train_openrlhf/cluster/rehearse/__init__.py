"""`rehearse`: a production configuration, two steps of it on a CPU, and what would fail."""

from __future__ import annotations

from rubric_train_openrlhf.cluster.rehearse.finding import Finding, Report, Status
from rubric_train_openrlhf.cluster.rehearse.rehearsal import rehearse
from rubric_train_openrlhf.cluster.rehearse.subject import JudgeChoice, Request
from rubric_train_openrlhf.cluster.rehearse.table import failure_text, print_report

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
