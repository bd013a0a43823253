"""Answers of models to questions, kept line by line, so that none is generated twice.

planning    which answers are wanted, whose each one is, and which weights gave them
store       a file of answers that grows, and what it holds, after a kill too
collecting  asking for what is missing
"""

from __future__ import annotations

from rubric_eval.answers.collecting import stream_answers
from rubric_eval.answers.planning import AnswerKeys, check_weights, prompt_sha256
from rubric_eval.answers.store import line_of, read_answers
from rubric_eval.records.inputs import text_sha256

__all__ = [
    "AnswerKeys",
    "check_weights",
    "line_of",
    "prompt_sha256",
    "read_answers",
    "stream_answers",
    "text_sha256",
]
