"""Judges that score a response against a rubric.

A judge is a `rubric_core.Judge`: `async judge(view) -> JudgeResult`. It never raises for what a
model or a network does; such things are outcomes with a reason.
"""

from __future__ import annotations

from rubric_judge.errors import JudgeSetupError, VerificationError
from rubric_judge.lexical import LexicalConfig, LexicalJudge, parse_verification
from rubric_judge.pool import JudgePool, LatencyQuantiles, PoolStatistics

__all__ = [
    "JudgePool",
    "JudgeSetupError",
    "LatencyQuantiles",
    "LexicalConfig",
    "LexicalJudge",
    "PoolStatistics",
    "VerificationError",
    "parse_verification",
]
