"""Judges and an endpoint for tests: real code paths, chosen behaviour."""

from __future__ import annotations

from rubric_judge.testing.judges import FailingJudge, ScriptedJudge

__all__ = ["FailingJudge", "ScriptedJudge"]
