"""Credited units per criterion, from a rubric and a response.

A unit counts in a well-formed sentence that copies neither the question nor the rubric, nor an
earlier sentence of the response, since a repetition would be found in places where it was not put.
Nor does a unit count in a sentence that contradicts the passage. Each sentence earns at most one
unit for every two of its words, over all criteria together, and every share is scaled by the part
that is not repetition.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from rubric_core import Criterion, Rubric
from rubric_judge.checks import deciding, numeric, python_tests
from rubric_judge.checks import directive as directives
from rubric_judge.checks.directive import SentenceScope, StructureChecks
from rubric_judge.checks.phrases import (
    ContainsCheck,
    head,
    is_identifier,
    phrase_pattern,
)
from rubric_judge.judges.lexical import words as english
from rubric_judge.judges.lexical.polarity import Statements, disowns_the_rest
from rubric_judge.judges.lexical.words import (
    FUNCTION_WORDS,
    WORD,
    Sentence,
    read_sentences,
    stem,
)

LONGEST_RESPONSE = 100_000
"""Characters of a response that are read, as if it ended there: some 20,000 words. A longer one is
a loop or an attack, and would only cost time."""

_ECHO_SHARE = 0.8
_LEAD = 2

SentenceTest = Callable[[Sentence], bool]


def exact_term(term: str) -> SentenceTest:
    """Return a test for a required element: whole words, as written.

    Args:
        term: a word, an identifier, a phrase or a formula. A term without a space and with a
            capital or an underscore is an identifier, and its case matters.

    Returns:
        The test of one sentence.
    """
    plain = " ".join(term.replace("`", "").split())
    folded = plain.lower()
    if WORD.fullmatch(plain):
        if is_identifier(plain):
            return lambda sentence: plain in sentence.exact
        return lambda sentence: folded in sentence.folded
    if all(WORD.fullmatch(word) for word in plain.split()):
        phrase = f" {folded} "
        return lambda sentence: phrase in sentence.joined
    search = phrase_pattern(plain).search
    return lambda sentence: search(sentence.text) is not None


def stemmed_term(term: str) -> SentenceTest:
    """Return a test for a keyword or a concept: the stems of its content words, in one sentence.

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


def missing_terms(criterion: Criterion, text: str) -> list[str]:
    """Return the terms of a criterion that no sentence of a text contains, well formed or not.

    Args:
        criterion: the criterion with its required elements, keywords and concepts.
        text: a response.
    """
    sentences = read_sentences(text[:LONGEST_RESPONSE])
    return [
        term for term, is_in in _tests_of(criterion) if not any(map(is_in, sentences))
    ]


def _tests_of(criterion: Criterion) -> list[tuple[str, SentenceTest]]:
    """Return the terms that a criterion asks for, each with its test."""
    tests = [(term, exact_term(term)) for term in criterion.required_elements]
    expected = (*criterion.expected_keywords, *criterion.expected_concepts)
    tests += [(term, stemmed_term(term)) for term in expected]
    return [(term, is_in) for term, is_in in tests if term.strip()]


@lru_cache(maxsize=1024)  # directives name the same few words in rubric after rubric
def _word_or_identifier(term: str) -> SentenceTest:
    """Return a test for a directive's word: an identifier exactly, another word in all forms."""
    return exact_term(term) if is_identifier(term) else stemmed_term(term)


def _any_word(words: tuple[str, ...]) -> SentenceTest:
    """Return a test for any of the words of a directive."""
    tests = tuple(map(_word_or_identifier, words))
    return lambda sentence: any(test(sentence) for test in tests)


class CompiledCriterion(NamedTuple):
    """One criterion, prepared for being scored many times."""

    id: str
    weight: float
    directive: directives.Directive | None
    """The places where terms count, or a check instead of them; None without, or for unit tests."""
    terms: tuple[SentenceTest, ...]
    """Tests that earn credit: the criterion's terms, or the phrases of its check."""
    words: tuple[SentenceTest, ...]
    """Tests for the groups of words of its directive, each for any word of the group."""


class CompiledRubric(NamedTuple):
    """All criteria in the rubric's order, and the rubric's own sentences."""

    criteria: tuple[CompiledCriterion, ...]
    own_sentences: frozenset[tuple[str, ...]]
    """Sentences of the criteria's texts, as lower-case words: copies of them earn nothing."""


def compile_rubric(rubric: Rubric) -> CompiledRubric:
    """Compile every criterion.

    Args:
        rubric: the rubric.

    Returns:
        The rubric as the lexical judge uses it.

    Raises:
        VerificationError: a verification method starts as a directive and does not parse; the error
            the criterion.
    """
    texts: list[str] = []
    for criterion in rubric:
        texts += (criterion.description, criterion.scoring_guide)
    own_sentences = read_sentences("\n".join(texts))  # a line break ends a sentence
    return CompiledRubric(
        criteria=tuple(map(_compile_criterion, rubric)),
        own_sentences=frozenset(sentence.lowered for sentence in own_sentences),
    )


def _compile_criterion(criterion: Criterion) -> CompiledCriterion:
    directive = directives.read_directive(criterion)
    terms = tuple(is_in for _, is_in in _tests_of(criterion))
    groups: tuple[tuple[str, ...], ...] = ()
    match directive:
        case ContainsCheck(phrases=phrases):
            terms = tuple(map(exact_term, phrases))
        case SentenceScope(words=words):
            groups = (words,)
        case StructureChecks(order=order):
            groups = order
        case numeric.NumericCheck(where=None):
            directive = replace(directive, where="any")  # this judge knows no answers
        case python_tests.PythonTests():
            directive = (
                None  # this judge runs no code: it reads the words, as of free text
            )
        case _:
            pass
    words = tuple(map(_any_word, groups))
    return CompiledCriterion(criterion.id, criterion.weight, directive, terms, words)


class Credit(NamedTuple):
    """Units credited to a criterion, and the number of its units."""

    earned: int
    units: int
    note: str = ""
    """A remark on the credit."""


@dataclass(slots=True)
class Reading:
    """A response while it is scored; `capacity` falls as sentences earn."""

    text: str
    sentences: list[Sentence]
    live: list[int]
    """Positions of the sentences that can earn."""
    capacity: list[int]
    """Units that each sentence can still earn."""
    original_share: float
    """1 − the share of repeated three-word runs."""
    flaws: Counter[str]
    """Number of sentences that cannot earn, by reason."""

    def earn(self, term: SentenceTest, where: Sequence[int]) -> bool:
        """Credit a term to the first sentence that holds it and can still earn."""
        for position in where:
            if self.capacity[position] > 0 and term(self.sentences[position]):
                self.capacity[position] -= 1
                return True
        return False


def read_response(
    rubric: CompiledRubric, *, question: str, response: str, passage: Statements
) -> Reading:
    """Split a response and find the sentences that can earn credit.

    Args:
        rubric: the compiled rubric, for its own sentences.
        question: the question; its repetition earns nothing.
        response: the policy's text.
        passage: statements of the source; denying them earns nothing.

    Returns:
        The reading that all criteria of the rubric draw their credit from.
    """
    sentences = read_sentences(head(response, LONGEST_RESPONSE))
    asked = _framed_runs(question)
    first_at: dict[tuple[str, ...], int] = {}
    for position, sentence in enumerate(sentences):
        first_at.setdefault(sentence.lowered, position)
    disowned = "disowned" if any(map(disowns_the_rest, sentences)) else None
    flaws = [
        disowned
        or sentence.flaw
        or (sentence.lowered in rubric.own_sentences and "copied from the rubric")
        or (_repeats(sentence, asked) and "copied from the question")
        or (first_at[sentence.lowered] != position and "said before")
        or (passage.contradicted_by(sentence) and "against the passage")
        or None
        for position, sentence in enumerate(sentences)
    ]
    return Reading(
        text=response,
        sentences=sentences,
        live=[position for position, flaw in enumerate(flaws) if flaw is None],
        capacity=[sentence.capacity for sentence in sentences],
        original_share=1 - english.repeated_share(sentences),
        flaws=Counter(flaw for flaw in flaws if flaw is not None),
    )


@lru_cache(maxsize=4096)
def _framed_runs(question: str) -> frozenset[tuple[str, str, str]]:
    return frozenset(
        run for sentence in read_sentences(question) for run in sentence.framed_runs
    )


def echoes(sentence: Sentence, question: str) -> bool:
    """Tell whether a sentence repeats the question's wording, with its names in any order.

    Args:
        sentence: a sentence of a response.
        question: the question.
    """
    return _repeats(sentence, _framed_runs(question))


def _repeats(sentence: Sentence, asked: frozenset[tuple[str, str, str]]) -> bool:
    # Names listed in the question's order are an answer; the wording around them is an echo.
    runs = sentence.framed_runs
    if not runs:
        return False
    return sum(run in asked for run in runs) >= _ECHO_SHARE * len(runs)


def credit_criterion(
    criterion: CompiledCriterion,
    reading: Reading,
    *,
    verdict: deciding.CheckResult | None,
) -> Credit:
    """Credit one criterion and spend the capacity of the sentences that earned it.

    Args:
        criterion: the compiled criterion.
        reading: the response; changed.
        verdict: the verdict of its check, if it has one that does not work by sentences.

    Returns:
        Credited units and units; 0 of 0 for a criterion with nothing to look for.
    """
    if verdict is not None:
        return Credit(int(verdict.share), 1, note=verdict.note)
    match criterion.directive:
        case ContainsCheck(every=every):
            before = reading.capacity.copy()
            passes = (reading.earn(phrase, reading.live) for phrase in criterion.terms)
            is_met = all(passes) if every else any(passes)
            if not is_met:
                reading.capacity = before
            return Credit(is_met, 1)
        case SentenceScope() as scope:
            where = _in_scope(scope, criterion.words[0], reading)
            earned = sum(reading.earn(term, where) for term in criterion.terms)
            # On its own, `presence` would pay for any sentence with the right opening.
            passed = [bool(earned)] if scope.presence else []
        case directive:
            passed = []
            if isinstance(directive, StructureChecks):
                passed = _structure(directive, criterion.words, reading)
            earned = sum(reading.earn(term, reading.live) for term in criterion.terms)
    return Credit(earned + sum(passed), len(criterion.terms) + len(passed))


def _in_scope(
    scope: SentenceScope, holds_word: SentenceTest, reading: Reading
) -> list[int]:
    end = len(reading.sentences)
    places = {"first": range(1), "lead": range(_LEAD), "last": range(end - 1, end)}
    allowed = places.get(scope.place, range(end))
    where: list[int] = []
    for position in reading.live:
        if position not in allowed or (scope.skip_first and position == 0):
            continue
        if scope.place != "with" or holds_word(reading.sentences[position]):
            where.append(position)
    return where[:1] if scope.one else where


def _structure(
    checks: StructureChecks, groups: tuple[SentenceTest, ...], reading: Reading
) -> list[bool]:
    passed: list[bool] = []
    n_live = len(reading.live)
    n_sentences = len(reading.sentences)
    if checks.order:
        remaining = (reading.sentences[position] for position in reading.live)
        # One shared iterator: each group is looked for after the sentence of the one before.
        passed.append(all(any(map(holds_word, remaining)) for holds_word in groups))
    if checks.count is not None:
        low, high = checks.count
        passed.append(n_live == n_sentences and low <= n_sentences <= high)
    if checks.clean_end:
        passed.append(bool(reading.live) and reading.live[-1] == n_sentences - 1)
    return passed
