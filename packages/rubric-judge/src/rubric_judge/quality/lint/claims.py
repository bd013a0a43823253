"""Criteria that state no claim, or an empty one."""

from collections.abc import Iterator

from rubric_core import Task
from rubric_judge.config import JudgeSpec
from rubric_judge.judges.claims.claim import claim_of, is_empty
from rubric_judge.judges.load import word_matchers
from rubric_judge.quality.lint.criterion_words import directive_of
from rubric_judge.quality.lint.findings import Finding, as_warning


def check_empty_claims(task: Task) -> Iterator[Finding]:
    """Find `empty_claim`: "Says that", and nothing that an answer could be held to."""
    for criterion in task.rubric:
        claim = claim_of(criterion)
        if claim and is_empty(claim):
            yield as_warning(
                "empty_claim",
                "its claim holds fewer than two words that tell something, so that any "
                "answer or none states it",
                remedy="say what a full answer states: which value, which condition, "
                "which cause",
                criterion_id=criterion.id,
            )


def check_claims(task: Task) -> Iterator[Finding]:
    """Find `no_claim`, which matters only to the claim judge.

    "Explains why …" is a criterion for people and language models: they know what the reason is.
    """
    for criterion in task.rubric:
        if not claim_of(criterion) and directive_of(criterion) is None:
            yield as_warning(
                "no_claim",
                "states no claim, so that the judge of claims can look for its words "
                "alone",
                remedy="write what a full answer states, as “Says that …”, or take a "
                "language model as judge",
                criterion_id=criterion.id,
            )


def looks_for_words(spec: JudgeSpec) -> bool:
    """Tell whether a configuration's judge, or one that it hands criteria to, looks for words.

    Args:
        spec: the configuration.

    Raises:
        PluginError: as `reads_claims`.
    """
    return any(word_matchers(spec))


def reads_claims(spec: JudgeSpec) -> bool:
    """Tell whether a configuration's judge, or one that it hands criteria to, reads claims.

    Args:
        spec: the configuration.

    Raises:
        PluginError: no installed package registers a plugin, or what it makes is not a judge.
    """
    return any(judge.reads_claims for judge in word_matchers(spec))
