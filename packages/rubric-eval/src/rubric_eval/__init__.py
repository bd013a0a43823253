"""Held-out evaluation with confidence intervals.

`judge_heldout` gives the held-out reward of one policy, `compare` sets several side by side with
paired intervals, and `controls` holds what a gain must be checked against before it is claimed.
Axes: N questions, K responses to each.
"""

from __future__ import annotations

from rubric_eval.comparison import Comparison, ComparisonRow, Difference, compare
from rubric_eval.controls import best_temperature, blind_pairing
from rubric_eval.errors import (
    ComparisonError,
    EvalError,
    EvalFolderError,
    EvalShapeError,
    HeldoutAbortError,
    SelectionLeakError,
)
from rubric_eval.heldout import Heldout, judge_heldout
from rubric_eval.statistics import Interval, mean_interval, paired_interval

__all__ = [
    "Comparison",
    "ComparisonError",
    "ComparisonRow",
    "Difference",
    "EvalError",
    "EvalFolderError",
    "EvalShapeError",
    "Heldout",
    "HeldoutAbortError",
    "Interval",
    "SelectionLeakError",
    "best_temperature",
    "blind_pairing",
    "compare",
    "judge_heldout",
    "mean_interval",
    "paired_interval",
]
