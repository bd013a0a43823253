"""Many judgements at once, in one process or on Ray."""

from __future__ import annotations

from rubric_judge.pool.pool import JudgePool
from rubric_judge.pool.ray_pool import RayJudgePool
from rubric_judge.pool.schedule import Hedging
from rubric_judge.pool.statistics import LatencyQuantiles, PoolStatistics, ReplicaStatistics

__all__ = [
    "Hedging",
    "JudgePool",
    "LatencyQuantiles",
    "PoolStatistics",
    "RayJudgePool",
    "ReplicaStatistics",
]
