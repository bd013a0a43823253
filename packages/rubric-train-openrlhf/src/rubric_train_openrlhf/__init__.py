"""Group-relative policy optimisation from rubric rewards.

`run_grpo(config)` trains; `TrainConfig` says on what; `rubric-train` is both on a command line.
Axes: P prompts, G responses per prompt, B = P·G rows (prompt-major), M criteria, T tokens.

Names load at their first use: torch and transformers take seconds to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rubric_train_openrlhf.config import TrainConfig, load_config
    from rubric_train_openrlhf.local import run_grpo
    from rubric_train_openrlhf.report import write_report
    from rubric_train_openrlhf.run import HeldoutRow, MetricsRow, RunFolder, RunSummary

_MODULE_OF: Final = {
    "HeldoutRow": "run",
    "MetricsRow": "run",
    "RunFolder": "run",
    "RunSummary": "run",
    "TrainConfig": "config",
    "load_config": "config",
    "run_grpo": "local",
    "write_report": "report",
}

__version__ = "0.1.0"

__all__ = [
    "HeldoutRow",
    "MetricsRow",
    "RunFolder",
    "RunSummary",
    "TrainConfig",
    "load_config",
    "run_grpo",
    "write_report",
]


def __getattr__(name: str) -> object:
    """Load the module of a public name when it is first asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
