"""Held-out evaluation with confidence intervals.

`judge_heldout` gives the held-out reward of one policy, `compare` sets several side by side with
paired intervals, and `controls` holds what a gain must be checked against before it is claimed.
Axes: N questions, K responses to each.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from rubric_eval.errors import (
    ComparisonError,
    EvalEditedError,
    EvalError,
    EvalFolderError,
    EvalShapeError,
    HeldoutAbortError,
    SelectionLeakError,
)

# The rest loads SciPy and the judges, which a command's --help can do without.
if TYPE_CHECKING:
    from rubric_eval.comparison import Comparison, ComparisonRow, Difference, compare
    from rubric_eval.controls import best_temperature, blind_pairing
    from rubric_eval.heldout import Heldout, judge_heldout
    from rubric_eval.statistics import Interval, mean_interval, paired_interval

_MODULE_OF: Final = {
    **dict.fromkeys(("Comparison", "ComparisonRow", "Difference", "compare"), "comparison"),
    **dict.fromkeys(("best_temperature", "blind_pairing"), "controls"),
    **dict.fromkeys(("Heldout", "judge_heldout"), "heldout"),
    **dict.fromkeys(("Interval", "mean_interval", "paired_interval"), "statistics"),
}

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "ComparisonError",
    "ComparisonRow",
    "Difference",
    "EvalEditedError",
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


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
