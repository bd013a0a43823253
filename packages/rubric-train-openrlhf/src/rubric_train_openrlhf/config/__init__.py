"""Configuration of a training run: one frozen tree, checked once."""

from __future__ import annotations

from rubric_train_openrlhf.config.cluster import (
    ClusterConfig,
    DeepspeedConfig,
    EngineConfig,
    LoraConfig,
    RayConfig,
    WarmStartConfig,
)
from rubric_train_openrlhf.config.loading import dump_config, load_config, parse_config, read_values
from rubric_train_openrlhf.config.sections import (
    CheckpointConfig,
    DataConfig,
    DynamicSamplingConfig,
    JudgingConfig,
    LengthPenaltyConfig,
    OptimConfig,
    PathModel,
    RolloutConfig,
    ShapingConfig,
    TinyModel,
    ValidationConfig,
)
from rubric_train_openrlhf.config.train import TrainConfig

__all__ = [
    "CheckpointConfig",
    "ClusterConfig",
    "DataConfig",
    "DeepspeedConfig",
    "DynamicSamplingConfig",
    "EngineConfig",
    "JudgingConfig",
    "LengthPenaltyConfig",
    "LoraConfig",
    "OptimConfig",
    "PathModel",
    "RayConfig",
    "RolloutConfig",
    "ShapingConfig",
    "TinyModel",
    "TrainConfig",
    "ValidationConfig",
    "WarmStartConfig",
    "dump_config",
    "load_config",
    "parse_config",
    "read_values",
]
