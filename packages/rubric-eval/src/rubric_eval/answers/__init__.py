"""Answers of models to questions, kept line by line, so that none is generated twice.

planning    which answers are wanted, and whose each one is
store       a file of answers that grows, and what it holds, after a kill too
weights     which weights a server answered with, so that no others go on
collecting  asking for what is missing
"""

from __future__ import annotations

from rubric_eval.answers.collecting import (
    AnswerProgress,
    Answers,
    SeededAnswer,
    collect_answers,
    stream_answers,
)
from rubric_eval.answers.planning import (
    AnswerKeys,
    Question,
    answer_key,
    prompt_sha256,
    text_sha256,
)
from rubric_eval.answers.store import line_of, read_answers
from rubric_eval.answers.weights import check_weights

__all__ = [
    "AnswerKeys",
    "AnswerProgress",
    "Answers",
    "Question",
    "SeededAnswer",
    "answer_key",
    "check_weights",
    "collect_answers",
    "line_of",
    "prompt_sha256",
    "read_answers",
    "stream_answers",
    "text_sha256",
]
