"""Criteria that the passage cannot answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rubric_core import Criterion, Task
from rubric_judge.config import JudgeConfig
from rubric_judge.lint.finding import Finding
from rubric_judge.lint.reading import content, demanded_terms, directive_of, numbers
from rubric_judge.verification.numeric import NumericCheck

if TYPE_CHECKING:
    from rubric_core.groups import FloatArray


_PASSAGE_CHARS: Final[int] = JudgeConfig.model_fields["passage_chars"].default
_FEWEST_EXPECTED: Final = 3
_MOST_ABSENT_FRAC: Final = 0.5

_NUMBER: Final = re.compile(r"(?<![\w.])[-+−]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")


def check_grounding(task: Task) -> Iterator[Finding]:
    """Find `long_passage`, and `not_in_passage`: terms and numbers that it does not hold."""
    whole = task.grounding.reveal()
    if len(whole) > _PASSAGE_CHARS:
        yield Finding(
            code="long_passage",
            severity="warning",
            what=f"the passage has {len(whole)} characters, a judge reads the first "
            f"{_PASSAGE_CHARS} unless it is configured otherwise",
            remedy="shorten it to what the criteria are about, or raise `passage_chars`",
        )
    read = whole[:_PASSAGE_CHARS]
    known = content(read) | numbers(read)
    for criterion in task.rubric:
        problem = _absent(criterion, known) or _unstated(criterion, read)
        if problem:
            yield Finding(
                code="not_in_passage",
                severity="warning",
                criterion_id=criterion.id,
                what=problem,
                remedy="check that the passage answers it: a judge that has only the passage "
                "cannot",
            )


def _absent(criterion: Criterion, known: frozenset[str]) -> str:
    """Say which share of the terms the passage lacks; a word in another form is no lack."""
    demanded = [content(term) | numbers(term) for term in demanded_terms(criterion)]
    missing = sum(1 for words in demanded if words and not words <= known)
    if missing:
        return f"{missing} of {len(demanded)} required elements are not in the passage"
    expected = [
        content(term) for term in (*criterion.expected_keywords, *criterion.expected_concepts)
    ]
    missing = sum(1 for words in expected if words and not words & known)
    if len(expected) >= _FEWEST_EXPECTED and missing > _MOST_ABSENT_FRAC * len(expected):
        return f"{missing} of {len(expected)} expected keywords and concepts are not in the passage"
    return ""


@lru_cache(maxsize=1)
def _stated(passage: str) -> FloatArray:
    import numpy as np  # noqa: PLC0415 - slow to load, and needed here alone

    found = {text.replace(",", "").replace("−", "-") for text in _NUMBER.findall(passage)}
    return np.array([float(text) for text in found])


def _unstated(criterion: Criterion, passage: str) -> str:
    check = directive_of(criterion)
    if not isinstance(check, NumericCheck):
        return ""
    slack = check.tolerance + 1e-9 * max(1.0, abs(check.value))
    if (abs(_stated(passage) - check.value) <= slack).any():
        return ""
    return "the passage states no number within the tolerance of its `numeric:` directive"
