"""Words of criteria that checks compare: content, negation, demands and directive.

Pairs of criteria are chosen here too, and the check that not all were compared.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, combinations, islice

from rubric_core import Criterion, Task
from rubric_core.files import toml_beside
from rubric_judge.checks.deciding import QuickCheck
from rubric_judge.checks.directive import (
    Directive,
    StructureChecks,
    parse_verification,
)
from rubric_judge.checks.phrases import ContainsCheck
from rubric_judge.errors import VerificationError
from rubric_judge.judges.lexical.words import FUNCTION_WORDS, WORD, stem
from rubric_judge.quality.lint.findings import Finding, as_warning

_WORDS = toml_beside(__file__, "words.toml")
PHRASES = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in _WORDS["phrases"].items()
}
"""Turns of phrase, by name."""
_NEGATION = PHRASES["negation"]
_ENDING = re.compile(r"(?:n['’]t|['’]s)\b")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?!\w)")

_FRAME = frozenset(stem(word) for word in _WORDS["frame"].split())
_SUBJECT = frozenset(stem(word) for word in _WORDS["subject"].split())


@lru_cache(maxsize=4096)
def content(text: str) -> frozenset[str]:
    """Return the stems of a text's content: no function words, no frame of a criterion."""
    return _stems(text) - _FRAME


@lru_cache(maxsize=4096)
def statement(text: str) -> frozenset[str]:
    """Return the stems of what a text says, its verb included: negated and not, they are equal."""
    bare = _NEGATION.sub(
        lambda match: "mention" if "mention" in match[0].lower() else " ", text
    )
    return _stems(bare) - _SUBJECT


def _stems(text: str) -> frozenset[str]:
    lowered = text.lower()
    if "'" in lowered or "’" in lowered:
        lowered = _ENDING.sub("", lowered)
    return frozenset(
        stem(word) for word in WORD.findall(lowered) if word not in FUNCTION_WORDS
    )


def overlap(first: frozenset[str], second: frozenset[str]) -> float:
    """Return |A ∩ B| / |A ∪ B|; 0 where both are empty, or where each has a word of its own.

    Parallel criteria differ in one word: "the gain at 10 Hz", "the gain at 20 Hz".
    """
    if first - second and second - first:
        return 0.0
    return len(first & second) / len(first | second) if first or second else 0.0


@lru_cache(maxsize=4096)
def is_negated(text: str) -> bool:
    """Return whether a description forbids rather than demands; "avoid … fails to" demands."""
    return len(_NEGATION.findall(text)) % 2 == 1


def numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text, as written but for their separators."""
    return frozenset(number.replace(",", "") for number in _NUMBER.findall(text))


@lru_cache(maxsize=4096)
def _parsed(method: str) -> Directive | None:
    try:
        return parse_verification(method)
    except VerificationError:
        return None  # `check_reach` reports it


def directive_of(criterion: Criterion) -> Directive | None:
    """Return the directive of a criterion; None where there is none, or none that can be read."""
    return _parsed(criterion.verification_method)


def demanded_terms(criterion: Criterion) -> tuple[str, ...]:
    """Return the texts that an answer must hold: required elements, and phrases demanded."""
    check = directive_of(criterion)
    phrases = check.phrases if isinstance(check, ContainsCheck) and check.every else ()
    return tuple(
        term for term in (*criterion.required_elements, *phrases) if term.strip()
    )


def content_of_all(texts: Iterable[str]) -> frozenset[str]:
    """Return the content of several texts together."""
    return content("\n".join(texts))


def terms_of(criterion: Criterion) -> tuple[str, ...]:
    """Return every term that earns credit: those demanded, keywords and concepts."""
    expected = (*criterion.expected_keywords, *criterion.expected_concepts)
    written = tuple(term for term in expected if term.strip())
    return demanded_terms(criterion) + written


def has_no_words(criterion: Criterion) -> bool:
    """Return whether the lexical judge has nothing to look for, and so scores 0."""
    directive = directive_of(criterion)
    is_checked = isinstance(directive, StructureChecks | QuickCheck)
    return not is_checked and not terms_of(criterion)


_MOST_PAIRS = 10_000
"""Most pairs to compare, in about .1 s; a rubric of 141 criteria is compared in full."""


def check_size(task: Task) -> Iterator[Finding]:
    """Find `many_criteria`: a rubric that is not compared in full."""
    n_pairs = math.comb(len(task.rubric), 2)
    if n_pairs > _MOST_PAIRS:
        compared = len(pairs_of(task.rubric.criteria))
        yield as_warning(
            "many_criteria",
            f"has {len(task.rubric)} criteria, and {compared} of their {n_pairs} pairs "
            "were compared, those of the rarest words first: repetitions and "
            "contradictions among the others are not found",
            remedy="split the task: no judge reads so long a rubric with care",
        )


@lru_cache(maxsize=1)
def pairs_of(criteria: tuple[Criterion, ...]) -> Sequence[tuple[Criterion, Criterion]]:
    """Return the pairs to compare, in the rubric's order; at most `_MOST_PAIRS`.

    Where there are more, pairs that share a word are taken, the rarest words first.
    """
    if math.comb(len(criteria), 2) <= _MOST_PAIRS:
        return tuple(combinations(criteria, 2))
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, criterion in enumerate(criteria):
        texts = (
            criterion.description,
            criterion.verification_method,
            *terms_of(criterion),
        )
        # Also as written, for descriptions without content words.
        written = criterion.description.casefold().strip()
        for word in content_of_all(texts) | {written}:
            places[word].append(place)
    # Words of the same criteria pair them once.
    distinct = {tuple(sharing) for sharing in places.values()}
    groups = sorted(distinct, key=len)
    likely = chain.from_iterable(combinations(group, 2) for group in groups)
    chosen = set(islice(likely, _MOST_PAIRS))
    return tuple(
        (criteria[first], criteria[second]) for first, second in sorted(chosen)
    )
