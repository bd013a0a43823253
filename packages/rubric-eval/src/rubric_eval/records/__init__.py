"""What an evaluation leaves behind, as types: every part writes and reads these alone.

run       what was evaluated, on what, how: run.json
rows      one line per answer, judgement or benchmark item
measured  values of one model on one set of questions, ready to be compared
files     how they are read and written
digests   what the files were at an evaluation's end
edits     what is not as it was then, refused or accepted
joining   what a folder holds already, and whether something may be added
lifetime  an evaluation under way, and its end
planning  what every plan is held to
inputs    what a derived file was made from, by content
layout    where each of them lies in an evaluation's folder
"""

from __future__ import annotations

from rubric_eval.records.inputs import (
    InputFile,
    changed_inputs,
    evaluation_files,
    hashed_inputs,
    path_from,
)
from rubric_eval.records.layout import EvalFolder
from rubric_eval.records.measured import Measure, Measured
from rubric_eval.records.rows import AnswerRow, ItemRow, JudgementRow, QuestionRow, ScoreRow
from rubric_eval.records.run import EvalRun, JudgeEntry, ModelEntry, Questions

__all__ = [
    "AnswerRow",
    "EvalFolder",
    "EvalRun",
    "InputFile",
    "ItemRow",
    "JudgeEntry",
    "JudgementRow",
    "Measure",
    "Measured",
    "ModelEntry",
    "QuestionRow",
    "Questions",
    "ScoreRow",
    "changed_inputs",
    "evaluation_files",
    "hashed_inputs",
    "path_from",
]
