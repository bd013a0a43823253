"""Group-relative policy optimisation from rubric rewards.

`run_grpo(config)` trains; `TrainConfig` says on what; `rubric-train` is both on a command line.
Axes: P prompts, G responses per prompt, B = P·G rows (prompt-major), M criteria, T tokens.
"""

from rubric_train_openrlhf.config import TrainConfig, load_config
from rubric_train_openrlhf.local import run_grpo
from rubric_train_openrlhf.run import HeldoutRow, MetricsRow, RunFolder, RunSummary

__all__ = [
    "HeldoutRow",
    "MetricsRow",
    "RunFolder",
    "RunSummary",
    "TrainConfig",
    "load_config",
    "run_grpo",
]
