"""Judges at work on answers, and what they gave.

scoring   judges by name; one model before one judge, each different answer asked about once
judged    rows back, answers beside what judges gave them, checked; the same as values to compare
"""

from __future__ import annotations

from rubric_eval.scores.judged import read_heldout
from rubric_eval.scores.scoring import Answered, JudgeDesk, NamedJudge, Scoring, read_judges

__all__ = ["Answered", "JudgeDesk", "NamedJudge", "Scoring", "read_heldout", "read_judges"]
