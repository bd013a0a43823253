"""Held-out rubric reward: models on questions that no training used, all judged alike.

judged    responses at hand, judged in memory
plan      what is to be evaluated
table     Table 1, and judges side by side
run       models answer, or the folder gives its answers, while judges judge; then the table
"""

from __future__ import annotations

from rubric_eval.heldout.judged import Heldout, judge_heldout
from rubric_eval.heldout.plan import HeldoutPlan, plan_of, spread
from rubric_eval.heldout.run import HeldoutProgress, rejudge_heldout, run_heldout
from rubric_eval.heldout.table import HeldoutRow, HeldoutTable

__all__ = [
    "Heldout",
    "HeldoutPlan",
    "HeldoutProgress",
    "HeldoutRow",
    "HeldoutTable",
    "judge_heldout",
    "plan_of",
    "rejudge_heldout",
    "run_heldout",
    "spread",
]
