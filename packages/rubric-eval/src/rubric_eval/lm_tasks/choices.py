"""The order of a question's choices, drawn once from the question itself.

lm-eval's own GPQA tasks draw it anew each time their documents are mapped, so what is scored may be
another order than the one that was shown.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def shuffled(question: str, correct: str, wrong: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Return the choices in the order of this question, and where the correct one is.

    The same question has the same order in every process, on every machine, in every subset.

    Args:
        question: text of the question.
        correct: the correct choice.
        wrong: the others.
    """
    choices = [_tidy(choice) for choice in (correct, *wrong)]
    digest = hashlib.sha256(json.dumps([question, *choices]).encode()).digest()
    order = list(range(len(choices)))
    random.Random(int.from_bytes(digest[:8], "big")).shuffle(order)
    return tuple(choices[index] for index in order), order.index(0)


def _tidy(choice: str) -> str:
    return re.sub(r"\s+", " ", choice.replace(" [title]", ". ")).strip()
