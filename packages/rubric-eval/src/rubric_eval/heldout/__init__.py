"""Held-out rubric reward: models on questions that no training used, all judged alike.

judged    responses at hand, judged in memory
"""

from __future__ import annotations

from rubric_eval.heldout.judged import Heldout, judge_heldout

__all__ = ["Heldout", "judge_heldout"]
