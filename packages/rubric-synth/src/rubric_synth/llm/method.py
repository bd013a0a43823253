"""Verification methods of models: words stay words, and only a typed check is a directive."""

from __future__ import annotations

import re
from typing import Final

from rubric_judge.verification.directive import HEADS

_LOOKS_LIKE_DIRECTIVE: Final = re.compile(rf"\s*(?:{'|'.join(HEADS)})\s*:")
_TO_THE_END: Final = ("python_tests:", "json_schema:")


def in_words(method: str) -> str:
    """Return a method that no judge takes for a directive.

    A program would execute one that the model wrote into free text, perhaps because the document
    told it to; and one that does not parse would make the whole rubric unusable.
    """
    return f"In words: {method}" if _LOOKS_LIKE_DIRECTIVE.match(method) else method


def runs_to_the_end(method: str) -> bool:
    """Whether a method begins with a directive that goes on to its end: nothing may follow."""
    return method.startswith(_TO_THE_END)
