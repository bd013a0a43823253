"""A question that already holds its passage, its rubric or its answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rubric_core import leaked_ngrams
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rubric_core import Task
    from rubric_synth.config import QualityConfig

_WORD: Final = re.compile(r"\w+")
_SENTENCE: Final = re.compile(r"[.!?]\s+|\n")
_FEWEST_WORDS: Final = 3
"""A shorter answer, "Yes" or a name, may well be part of the question."""


def check_leaks(task: Task, config: QualityConfig) -> None:
    """Check that the question shares no long run of words with what only the judge may see.

    Raises:
        StageRefusal: It does, or it holds a sentence of the reference answer or all of it.
    """
    leaks = sum(leaked.count for leaked in leaked_ngrams(task, n=config.leak_words))
    if leaks:
        detail = f"{leaks} runs of as many words as {config.limit('leak_words')}"
        raise StageRefusal(RejectionReason.LEAK, detail)
    answer = task.reference_answer or ""
    if _tells(task.question, answer, config.leak_words):
        raise StageRefusal(RejectionReason.LEAK, "the reference answer in the question")


def _tells(question: str, answer: str, fewest_words: int) -> bool:
    """Whether a question holds an answer, or a sentence of it that is no mere phrase."""
    asked = _plain(_words(question))
    told = [_words(sentence) for sentence in _SENTENCE.split(answer)]
    whole = _plain(word for words in told for word in words)
    if whole in asked and whole.count(" ") > _FEWEST_WORDS:
        return True
    return any(len(words) >= fewest_words and _plain(words) in asked for words in told)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _plain(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "
