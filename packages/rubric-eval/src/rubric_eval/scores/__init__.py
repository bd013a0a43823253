"""Judges at work on answers, and what they gave.

judges    judges by name, from their files
rows      a judgement as rows
desk      answers before a judge, each different one asked about once
scoring   one model before one judge, from the first answer to the files
judged    rows back, answers beside what judges gave them, checked against each other
reading   the same as values to compare
"""

from __future__ import annotations

from rubric_eval.scores.desk import JudgeDesk
from rubric_eval.scores.judges import NamedJudge, read_judges
from rubric_eval.scores.reading import read_heldout
from rubric_eval.scores.rows import judgement_row, score_row
from rubric_eval.scores.scoring import Answered, Scoring

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
