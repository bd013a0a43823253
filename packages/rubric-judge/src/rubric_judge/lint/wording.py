"""Criteria that a judge cannot tell apart or make sense of."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from rubric_core import Criterion, Task
from rubric_judge.lint.finding import Finding
from rubric_judge.lint.reading import (
    content,
    content_of_all,
    directive_of,
    is_negated,
    overlap,
    pairs_of,
    terms_of,
)
from rubric_judge.verification import Directive, ProgramCheck

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
        texts = f"{criterion.description}\n{criterion.scoring_guide}"
        # The word first: most texts hold none, and the pattern takes ten times as long.
        if "criteri" in texts.lower() and _ELSEWHERE.search(texts):
            yield Finding(
                code="refers_to_another",
                severity="warning",
                criterion_id=criterion.id,
                what="its text points to another criterion",
                remedy="say it in full: a judge scores each criterion by itself, in any order",
            )
    read = {criterion.id: _read(criterion) for criterion in task.rubric}
    if len({one.terms for one in read.values()}) == len(read):
        return  # no two ask for the same terms
    for one, other in pairs_of(task.rubric.criteria):
        if _alike(read[one.id], read[other.id]):
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


class _Read(NamedTuple):
    """What of a criterion is compared."""

    description: str
    terms: frozenset[str]
    check: Directive | None

    @property
    def words(self) -> frozenset[str]:
        return content(self.description)


def _read(criterion: Criterion) -> _Read:
    return _Read(
        description=criterion.description,
        terms=content_of_all(terms_of(criterion)),
        check=directive_of(criterion),
    )


def _alike(one: _Read, other: _Read) -> bool:
    """Whether two criteria describe the same, of the same terms, checked in the same way.

    The same words or content words, or nearly so where they have terms and those are the same.
    """
    if one.terms != other.terms or is_negated(one.description) != is_negated(other.description):
        return False
    words = one.words, other.words
    fewest = min(map(len, words))
    if words[0] == words[1] and fewest < _FEWEST_WORDS:
        texts = one.description.casefold().split(), other.description.casefold().split()
        alike = bool(texts[0]) and texts[0] == texts[1]
    else:
        near = bool(one.terms) and overlap(*words) >= _NEAR_IDENTICAL
        alike = words[0] == words[1] or (fewest >= _FEWEST_WORDS and near)
    return alike and one.check == other.check
