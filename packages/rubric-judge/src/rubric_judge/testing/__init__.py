"""Judges and an endpoint for tests: real code paths, chosen behaviour."""

from __future__ import annotations

from rubric_judge.testing.endpoint import Award, FakeCall, FakeEndpoint
from rubric_judge.testing.faults import Fault, Latency, log_normal
from rubric_judge.testing.judges import FailingJudge, Script, ScriptedJudge

__all__ = [
    "Award",
    "FailingJudge",
    "FakeCall",
    "FakeEndpoint",
    "Fault",
    "Latency",
    "Script",
    "ScriptedJudge",
    "log_normal",
]
