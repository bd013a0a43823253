"""Judges that score a response against a rubric.

A judge is a `rubric_core.Judge`: `async judge(view) -> JudgeResult`. It never raises for what a
model or a network does; such things are outcomes with a reason.
"""

from __future__ import annotations

from rubric_judge.chat_model import ChatModel
from rubric_judge.config import (
    HybridConfig,
    JudgeConfig,
    JudgeSpec,
    LexicalConfig,
    PluginConfig,
    SandboxConfig,
    judge_spec,
    read_judge_spec,
)
from rubric_judge.errors import (
    EventLoopError,
    JudgeSetupError,
    JudgeTransportError,
    LedgerError,
    SandboxError,
    VerificationError,
)
from rubric_judge.hybrid import HybridJudge
from rubric_judge.ledger import Ledger, LedgerEntry
from rubric_judge.lexical import LexicalJudge
from rubric_judge.llm.judge import LLMJudge
from rubric_judge.load import load_judge, load_replicas
from rubric_judge.pool import (
    Hedging,
    JudgePool,
    LatencyQuantiles,
    PoolStatistics,
    RayJudgePool,
    ReplicaStatistics,
)
from rubric_judge.provider.chat import ChatClient, ChatReply
from rubric_judge.provider.limits import Limiter, LimiterStatistics, LocalLimiter
from rubric_judge.provider.model_config import LimitsConfig, ModelConfig, Prices
from rubric_judge.provider.served import ModelServer, ServedModel
from rubric_judge.verification import check_executable, parse_verification

__version__ = "0.1.0"

__all__ = [
    "ChatClient",
    "ChatModel",
    "ChatReply",
    "EventLoopError",
    "Hedging",
    "HybridConfig",
    "HybridJudge",
    "JudgeConfig",
    "JudgePool",
    "JudgeSetupError",
    "JudgeSpec",
    "JudgeTransportError",
    "LLMJudge",
    "LatencyQuantiles",
    "Ledger",
    "LedgerEntry",
    "LedgerError",
    "LexicalConfig",
    "LexicalJudge",
    "Limiter",
    "LimiterStatistics",
    "LimitsConfig",
    "LocalLimiter",
    "ModelConfig",
    "ModelServer",
    "PluginConfig",
    "PoolStatistics",
    "Prices",
    "RayJudgePool",
    "ReplicaStatistics",
    "SandboxConfig",
    "SandboxError",
    "ServedModel",
    "VerificationError",
    "check_executable",
    "judge_spec",
    "load_judge",
    "load_replicas",
    "parse_verification",
    "read_judge_spec",
]
