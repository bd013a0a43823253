"""Criteria that a judge cannot tell apart or make sense of."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from rubric_core import Criterion, Task
from rubric_judge.lint.finding import Finding
from rubric_judge.lint.pairs import pairs_of
from rubric_judge.lint.reading import (
    content,
    content_of_all,
    directive_of,
    is_negated,
    overlap,
    terms_of,
)
from rubric_judge.verification import ProgramCheck

__all__ = ["check_wording"]

_NEAR_IDENTICAL: Final = 0.85
_FEWEST_WORDS: Final = 3
"""Descriptions of fewer content words are alike by chance."""

_ELSEWHERE: Final = re.compile(
    r"\b(?:previous|preceding|above|earlier|other)[- ](?:mentioned )?criteri(?:on|a)\b"
    r"|\bcriteri(?:on|a) (?:above|below|\d+)\b",
    re.IGNORECASE,
)


def check_wording(task: Task) -> Iterator[Finding]:
    """Find what is empty, what is there twice, ids that differ in case, and references."""
    yield from _similar_ids(task)
    for criterion in task.rubric:
        yield from _empty(criterion)
        if _ELSEWHERE.search(f"{criterion.description}\n{criterion.scoring_guide}"):
            yield Finding(
                code="refers_to_another",
                severity="warning",
                criterion_id=criterion.id,
                what="its text points to another criterion",
                remedy="say it in full: a judge scores each criterion by itself, in any order",
            )
    for one, other in pairs_of(task.rubric.criteria):
        if _alike(one, other):
            yield Finding(
                code="duplicate_criterion",
                severity="warning",
                criterion_id=other.id,
                what=f"asks for nearly the same as {one.id!r}",
                remedy="leave one out, or say what parts them: the same thing is paid for twice",
            )


def _similar_ids(task: Task) -> Iterator[Finding]:
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    for name in task.rubric.ids:
        spellings["".join(name.split()).casefold()].append(name)
    for names in spellings.values():
        if len(names) > 1:
            yield Finding(
                code="similar_ids",
                severity="error",
                criterion_id=names[1],
                what=f"differs from {names[0]!r} in case or spaces only",
                remedy="rename one: a model that misspells an id makes the judgement invalid",
            )


def _empty(criterion: Criterion) -> Iterator[Finding]:
    described = criterion.description.strip() or criterion.scoring_guide.strip()
    if described or isinstance(directive_of(criterion), ProgramCheck):
        return
    if criterion.verification_method.strip() or terms_of(criterion):
        yield Finding(
            code="no_description",
            severity="warning",
            criterion_id=criterion.id,
            what="has neither description nor scoring guide",
            remedy="say in a sentence what is asked",
        )
    else:
        yield Finding(
            code="empty_criterion",
            severity="error",
            criterion_id=criterion.id,
            what="has no text but its id and name",
            remedy="say what is asked, or leave it out: a judge can only guess",
        )


def _alike(one: Criterion, other: Criterion) -> bool:
    """Whether two criteria describe the same, of the same terms, checked in the same way.

    The same words or content words, or nearly so where they have terms and those are the same.
    """
    if is_negated(one.description) != is_negated(other.description):
        return False
    terms = content_of_all(terms_of(one)), content_of_all(terms_of(other))
    if terms[0] != terms[1]:
        return False
    words = content(one.description), content(other.description)
    if words[0] == words[1] and min(map(len, words)) < _FEWEST_WORDS:
        texts = one.description.casefold().split(), other.description.casefold().split()
        alike = bool(texts[0]) and texts[0] == texts[1]
    else:
        near = bool(terms[0]) and overlap(*words) >= _NEAR_IDENTICAL
        alike = words[0] == words[1] or (min(map(len, words)) >= _FEWEST_WORDS and near)
    return alike and directive_of(one) == directive_of(other)
