"""Judges and an endpoint for tests: real code paths, chosen behaviour."""

from __future__ import annotations

from rubric_judge.testing.calls import (
    Award,
    CallRecord,
    FakeCall,
    Keep,
    Mark,
    marked,
    marked_share,
    numbered_share,
)
from rubric_judge.testing.endpoint import FakeEndpoint
from rubric_judge.testing.faults import (
    HOSTILE_TEXTS,
    Fault,
    FaultMix,
    Faults,
    HostileText,
    Latency,
    log_normal,
    read_json_test_suite,
)
from rubric_judge.testing.judges import FailingJudge, Script, ScriptedJudge
from rubric_judge.testing.process import FakeEndpointProcess
from rubric_judge.testing.replies import ServedModel

__all__ = [
    "HOSTILE_TEXTS",
    "Award",
    "CallRecord",
    "FailingJudge",
    "FakeCall",
    "FakeEndpoint",
    "FakeEndpointProcess",
    "Fault",
    "FaultMix",
    "Faults",
    "HostileText",
    "Keep",
    "Latency",
    "Mark",
    "Script",
    "ScriptedJudge",
    "ServedModel",
    "log_normal",
    "marked",
    "marked_share",
    "numbered_share",
    "read_json_test_suite",
]
