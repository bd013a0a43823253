"""Criteria that the passage cannot answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from rubric_core import Criterion, Task, leaked_ngrams
from rubric_core.formats.draft import NO_PASSAGE
from rubric_judge.checks.directive import SentenceScope, StructureChecks
from rubric_judge.checks.numeric import NumericCheck
from rubric_judge.config import JudgeConfig
from rubric_judge.quality.lint.criterion_words import (
    content,
    content_of_all,
    demanded_terms,
    directive_of,
    numbers,
    terms_of,
)
from rubric_judge.quality.lint.findings import Finding, as_error, as_warning

if TYPE_CHECKING:
    from rubric_core.arrays import FloatArray

_PASSAGE_CHARS: int = JudgeConfig.model_fields["passage_chars"].default
_FEWEST_EXPECTED = 3
_MOST_ABSENT_FRAC = 0.5

_NUMBER = re.compile(r"(?<![\w.])[-+−]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")


def lacks_passage(task: Task) -> bool:
    """Return whether a task came from a rubric with neither passage nor reference answer."""
    return task.grounding.reveal() == NO_PASSAGE


def check_grounding(task: Task) -> Iterator[Finding]:
    """Find `long_passage`, and `not_in_passage`: terms and numbers that it does not hold.

    A task without a passage has neither.
    """
    if lacks_passage(task):
        return
    whole = task.grounding.reveal()
    if len(whole) > _PASSAGE_CHARS:
        yield as_warning(
            "long_passage",
            f"the passage has {len(whole)} characters, a judge reads the first "
            f"{_PASSAGE_CHARS} unless it is configured otherwise",
            remedy="shorten it to what the criteria are about, or raise `passage_chars`",
        )
    start = whole[:_PASSAGE_CHARS]
    known = content(start) | numbers(start)
    for criterion in task.rubric:
        problem = _absent(criterion, known) or _unstated(criterion, start)
        if problem:
            yield as_warning(
                "not_in_passage",
                problem,
                remedy="check that the passage answers it: a judge that has only the "
                "passage cannot",
                criterion_id=criterion.id,
            )


def _absent(criterion: Criterion, known: frozenset[str]) -> str:
    """Return the problem of terms that the passage lacks; a word in another form is no lack."""
    demanded = [
        [content(form) | numbers(form) for form in term.split("|")]  # alternatives
        for term in demanded_terms(criterion)
    ]
    missing = sum(not any(words <= known for words in forms) for forms in demanded)
    if missing:
        return f"{missing} of {len(demanded)} required elements are not in the passage"
    terms = (*criterion.expected_keywords, *criterion.expected_concepts)
    expected = [content(term) for term in terms]
    missing = sum(bool(words) and not words & known for words in expected)
    most_missing = _MOST_ABSENT_FRAC * len(expected)
    if len(expected) >= _FEWEST_EXPECTED and missing > most_missing:
        return f"{missing} of {len(expected)} expected keywords and concepts are not in the passage"
    return ""


@lru_cache(maxsize=1)
def _stated(passage: str) -> FloatArray:
    import numpy as np  # slow to load, and needed here alone

    texts = {
        text.replace(",", "").replace("−", "-") for text in _NUMBER.findall(passage)
    }
    return np.array([float(text) for text in texts])


def _unstated(criterion: Criterion, passage: str) -> str:
    check = directive_of(criterion)
    if not isinstance(check, NumericCheck):
        return ""
    slack = check.tolerance + 1e-9 * max(1.0, abs(check.value))
    distances = abs(_stated(passage) - check.value)
    if (distances <= slack).any():
        return ""
    return (
        "the passage states no number within the tolerance of its `numeric:` directive"
    )


_MOST_ECHO_SHARE = 0.5
_QUOTED = re.compile(r"`([^`]+)`")


def check_leaks(task: Task) -> Iterator[Finding]:
    """Find `leak`, `rubric_leak`, `context_leak`, `given_away` and `echo_pays`."""
    for overlap in leaked_ngrams(task):
        name = overlap.source.removeprefix("criterion ")
        if overlap.held_by == "context":
            yield as_error(
                "context_leak",
                f"the context shares {overlap.count} runs of 8 words with the "
                f"{overlap.source}, and the passage does not",
                remedy="leave that section out: the policy reads there what only the "
                "judge may see; training refuses such a task",
            )
        elif name == "passage":
            yield as_error(
                "leak",
                f"the question shares {overlap.count} runs of 8 words with the passage",
                remedy="reword the question: the policy reads there what only the judge "
                "may see",
            )
        else:
            yield as_warning(
                "rubric_leak",
                f"the question shares {overlap.count} runs of 8 words with the criterion",
                remedy="reword one of them, unless the criterion only restates what is "
                "asked; training refuses such a task",
                criterion_id=name,
            )
    question_words = content(task.question)
    quoted = content(" ".join(_QUOTED.findall(task.question)))
    echoed = 0.0
    for criterion in task.rubric:
        terms = _words_that_pay(criterion)
        if not terms or not terms <= question_words:
            continue
        echoed += criterion.weight
        # A name that the question must give, as its subject, is not a secret.
        if not terms <= quoted:
            yield as_warning(
                "given_away",
                "the question holds every term that the criterion pays for",
                remedy="reword the question, or ask for what it does not say",
                criterion_id=criterion.id,
            )
    share = echoed / task.rubric.total_weight
    if share > _MOST_ECHO_SHARE:
        yield as_warning(
            "echo_pays",
            f"{share:.0%} of the weight is for terms that the question holds",
            remedy="ask for more than the question says: an echo of it would earn this",
        )


def _words_that_pay(criterion: Criterion) -> frozenset[str]:
    """Return the content words of a criterion's terms, where it pays for terms alone."""
    check = directive_of(criterion)
    if isinstance(check, StructureChecks) or (
        isinstance(check, SentenceScope) and check.presence
    ):
        return frozenset()
    return content_of_all(terms_of(criterion))
