"""Evaluations side by side.

stages       held-out evaluations in memory, with their controls
folders      evaluations on disk
evaluations  measured values of any number of models, benchmarks and judges, in all and in parts
pairing      which values may be compared, each model's score, and each tested difference
results      what is found: comparison.json
"""

from __future__ import annotations

from rubric_eval.comparison.evaluations import compare_measured
from rubric_eval.comparison.folders import compare_folders
from rubric_eval.comparison.results import (
    AverageDelta,
    CompareSettings,
    EvalComparison,
    ModelScore,
    PairedResult,
    Part,
)
from rubric_eval.comparison.stages import Comparison, ComparisonRow, Difference, compare

__all__ = [
    "AverageDelta",
    "CompareSettings",
    "Comparison",
    "ComparisonRow",
    "Difference",
    "EvalComparison",
    "ModelScore",
    "PairedResult",
    "Part",
    "compare",
    "compare_folders",
    "compare_measured",
]
