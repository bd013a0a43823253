"""Group-relative policy optimisation from rubric rewards.

`run_grpo(config)` trains; `TrainConfig` says on what; `rubric-train` is both on a command line.
Axes: P prompts, G responses per prompt, B = P·G rows (prompt-major), M criteria, T tokens.

Names load at their first use: torch and transformers take seconds to import.
"""

from rubric_core.lazy import attach

__version__ = "0.1.0"

__getattr__, __all__ = attach(__name__, __file__)
