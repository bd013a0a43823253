"""Questions that hold their own answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rubric_core import Criterion, Task
from rubric_core.leak import leaked_ngrams
from rubric_judge.lint.finding import Finding
from rubric_judge.lint.reading import content, content_of_all, directive_of, terms_of
from rubric_judge.verification.scope import SentenceScope, StructureChecks

_MOST_ECHO_SHARE: Final = 0.5
_QUOTED: Final = re.compile(r"`([^`]+)`")


def check_leaks(task: Task) -> Iterator[Finding]:
    """Find `leak`, `rubric_leak`, `given_away` and `echo_pays`."""
    for overlap in leaked_ngrams(task):
        in_passage = overlap.source == "passage"
        yield Finding(
            code="leak" if in_passage else "rubric_leak",
            severity="error" if in_passage else "warning",
            criterion_id="" if in_passage else overlap.source.removeprefix("criterion "),
            what=f"the question shares {overlap.count} runs of 8 words with "
            f"{'the passage' if in_passage else 'the criterion'}",
            remedy="reword the question: the policy reads there what only the judge may see"
            if in_passage
            else "reword one of them, unless the criterion only restates what is asked; training "
            "refuses such a task",
        )
    asked = content(task.question)
    quoted = content(" ".join(_QUOTED.findall(task.question)))
    echoed = 0.0
    for criterion in task.rubric:
        terms = _words_that_pay(criterion)
        if not terms or not terms <= asked:
            continue
        echoed += criterion.weight
        # A name that the question has to give, to say what it asks about, is no secret.
        if not terms <= quoted:
            yield Finding(
                code="given_away",
                severity="warning",
                criterion_id=criterion.id,
                what="the question holds every term that the criterion pays for",
                remedy="reword the question, or ask for what it does not say",
            )
    share = echoed / task.rubric.total_weight
    if share > _MOST_ECHO_SHARE:
        yield Finding(
            code="echo_pays",
            severity="warning",
            what=f"{share:.0%} of the weight is for terms that the question holds",
            remedy="ask for more than the question says: an echo of it would earn this",
        )


def _words_that_pay(criterion: Criterion) -> frozenset[str]:
    """Return the content words of the terms of a criterion that pays for nothing else."""
    match directive_of(criterion):
        case StructureChecks() | SentenceScope(presence=True):
            return frozenset()
        case _:
            return content_of_all(terms_of(criterion))
