"""Configuration of a training run: one frozen tree, checked once."""

from __future__ import annotations

from rubric_train_openrlhf.config.cluster import (
    ClusterConfig,
)
from rubric_train_openrlhf.config.loading import dump_config, load_config, parse_config, read_values
from rubric_train_openrlhf.config.sections import (
    JudgingConfig,
    OptimConfig,
    PathModel,
    RolloutConfig,
    ShapingConfig,
    TinyModel,
    ValidationConfig,
)
from rubric_train_openrlhf.config.train import TrainConfig

__all__ = [
    "ClusterConfig",
    "JudgingConfig",
    "OptimConfig",
    "PathModel",
    "RolloutConfig",
    "ShapingConfig",
    "TinyModel",
    "TrainConfig",
    "ValidationConfig",
    "dump_config",
    "load_config",
    "parse_config",
    "read_values",
]
