"""A rubric made ready to be scored many times: terms, scopes and checks of every criterion."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from rubric_core import Criterion, Rubric
from rubric_judge.errors import VerificationError
from rubric_judge.lexical.sentences import Sentence, read_sentences
from rubric_judge.lexical.words import FUNCTION_WORDS, WORD, stem
from rubric_judge.verification.directive import SentenceScope, StructureChecks, parse_verification
from rubric_judge.verification.numeric import NumericCheck
from rubric_judge.verification.pattern import RegexCheck
from rubric_judge.verification.phrases import ContainsCheck
from rubric_judge.verification.python_tests import PythonTests
from rubric_judge.verification.schema import SchemaCheck

SentenceTest = Callable[[Sentence], bool]

_IDENTIFIER = re.compile(r"\S*[A-Z_]\S*")


def exact_term(term: str) -> SentenceTest:
    """Look for a required element: whole words, as written.

    Args:
        term: a word, an identifier, a phrase or a formula. One that holds no space and has a
            capital or an underscore is an identifier, and its case matters.

    Returns:
        The test of one sentence.
    """
    plain = " ".join(term.replace("`", "").split())
    is_identifier = _IDENTIFIER.fullmatch(plain) is not None
    if WORD.fullmatch(plain):
        folded = plain.lower()
        if is_identifier:
            return lambda sentence: plain in sentence.exact
        return lambda sentence: folded in sentence.folded
    if all(WORD.fullmatch(word) for word in plain.split()):
        phrase = f" {plain.lower()} "
        return lambda sentence: phrase in sentence.joined
    before = r"(?<!\w)" if WORD.match(plain) else ""
    after = r"(?!\w)" if WORD.match(plain[-1]) else ""
    spaced = r"\s+".join(map(re.escape, plain.split()))
    search = re.compile(
        before + spaced + after, re.NOFLAG if is_identifier else re.IGNORECASE
    ).search
    return lambda sentence: search(sentence.text) is not None


def stemmed_term(term: str) -> SentenceTest:
    """Look for a keyword or a concept: the stems of its content words, in one sentence.

    Args:
        term: one or more words; function words in a phrase do not have to occur.

    Returns:
        The test of one sentence.
    """
    words = WORD.findall(term)
    if not words:
        return exact_term(term)
    content = [word for word in words if word.lower() not in FUNCTION_WORDS] or words
    needed = frozenset(map(stem, content))
    return lambda sentence: needed <= sentence.stems


@lru_cache(maxsize=1024)  # directives name the same few words in rubric after rubric
def word_or_identifier(term: str) -> SentenceTest:
    """Look for a word of a directive: an identifier exactly, any other word in all its forms."""
    return exact_term(term) if _IDENTIFIER.fullmatch(term) else stemmed_term(term)


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
