"""A rubric made ready to be scored many times: terms, scopes and checks of every criterion."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from rubric_core import Criterion, Rubric
from rubric_judge.errors import VerificationError
from rubric_judge.lexical.matching import (
    SentenceTest,
    exact_term,
    stemmed_term,
    word_or_identifier,
)
from rubric_judge.lexical.sentences import read_sentences
from rubric_judge.verification.directive import parse_verification
from rubric_judge.verification.numeric import NumericCheck
from rubric_judge.verification.pattern import RegexCheck
from rubric_judge.verification.phrases import ContainsCheck
from rubric_judge.verification.python_tests import PythonTests
from rubric_judge.verification.schema import SchemaCheck
from rubric_judge.verification.scope import SentenceScope, StructureChecks

_EVERYWHERE = SentenceScope()


class CompiledCriterion(NamedTuple):
    """One criterion: its terms where they count, or the check that replaces them."""

    id: str
    weight: float
    terms: tuple[SentenceTest, ...]
    scope: SentenceScope = _EVERYWHERE
    scope_tests: tuple[SentenceTest, ...] = ()
    structure: StructureChecks | None = None
    order_tests: tuple[tuple[SentenceTest, ...], ...] = ()
    phrases: tuple[SentenceTest, ...] = ()
    check: ContainsCheck | RegexCheck | NumericCheck | SchemaCheck | None = None
    """An all-or-nothing check: the criterion is this check alone."""


class CompiledRubric(NamedTuple):
    """All criteria in the rubric's order, and the rubric's own sentences."""

    criteria: tuple[CompiledCriterion, ...]
    own_sentences: frozenset[tuple[str, ...]]
    """Sentences of the criteria's texts, as lower-case words: a copy of one earns nothing."""


def compile_rubric(rubric: Rubric) -> CompiledRubric:
    """Compile every criterion.

    Args:
        rubric: the rubric.

    Returns:
        What the lexical judge scores with.

    Raises:
        VerificationError: a verification method starts as a directive and does not parse; names
            the criterion.
    """
    texts = "\n".join(
        text for criterion in rubric for text in (criterion.description, criterion.scoring_guide)
    )
    return CompiledRubric(
        criteria=tuple(_compile_criterion(criterion) for criterion in rubric),
        # Read together, for a line break ends a sentence.
        own_sentences=frozenset(sentence.lowered for sentence in read_sentences(texts)),
    )


def _compile_criterion(criterion: Criterion) -> CompiledCriterion:
    try:
        directive = parse_verification(criterion.verification_method)
    except VerificationError as error:
        raise VerificationError(error.problem, criterion_id=criterion.id) from None
    name, weight, terms = criterion.id, criterion.weight, _terms(criterion)
    match directive:
        case None | PythonTests():  # runs no code: it reads the words, as of free text
            return CompiledCriterion(id=name, weight=weight, terms=terms)
        case SentenceScope():
            tests = tuple(map(word_or_identifier, directive.words))
            return CompiledCriterion(
                id=name, weight=weight, terms=terms, scope=directive, scope_tests=tests
            )
        case StructureChecks():
            order = tuple(tuple(map(word_or_identifier, group)) for group in directive.order)
            return CompiledCriterion(
                id=name, weight=weight, terms=terms, structure=directive, order_tests=order
            )
        case ContainsCheck():
            phrases = tuple(map(exact_term, directive.phrases))
            return CompiledCriterion(
                id=name, weight=weight, terms=(), phrases=phrases, check=directive
            )
        case NumericCheck():
            # It sees words and no answers.
            anywhere = replace(directive, where=directive.where or "any")
            return CompiledCriterion(id=name, weight=weight, terms=(), check=anywhere)
        case RegexCheck() | SchemaCheck():
            return CompiledCriterion(id=name, weight=weight, terms=(), check=directive)


def _terms(criterion: Criterion) -> tuple[SentenceTest, ...]:
    required = [exact_term(term) for term in criterion.required_elements if term.strip()]
    expected = (*criterion.expected_keywords, *criterion.expected_concepts)
    return (*required, *(stemmed_term(term) for term in expected if term.strip()))
