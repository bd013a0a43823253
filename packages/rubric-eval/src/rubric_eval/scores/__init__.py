"""Judges at work on answers, and what they gave.

judges    judges by name, from their files
scoring   one model before one judge, each different answer asked about once
judged    rows back, answers beside what judges gave them, checked against each other
reading   the same as values to compare
"""

from __future__ import annotations

from rubric_eval.scores.judges import NamedJudge, read_judges
from rubric_eval.scores.reading import read_heldout
from rubric_eval.scores.scoring import Answered, JudgeDesk, Scoring, judgement_row, score_row

__all__ = [
    "Answered",
    "JudgeDesk",
    "NamedJudge",
    "Scoring",
    "judgement_row",
    "read_heldout",
    "read_judges",
    "score_row",
]
