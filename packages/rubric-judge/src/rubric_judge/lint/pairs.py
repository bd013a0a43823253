"""Which criteria of a rubric are compared with each other: all, or of many the likeliest alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, islice
from typing import Final

from rubric_core import Criterion, Task
from rubric_judge.lint.finding import Finding
from rubric_judge.lint.reading import content_of_all, terms_of

_MOST_PAIRS: Final = 10_000
"""About a tenth of a second. A rubric of 141 criteria is compared in full."""


def check_size(task: Task) -> Iterator[Finding]:
    """Find `many_criteria`: a rubric that is not compared in full."""
    possible = _possible(task.rubric.criteria)
    compared = len(pairs_of(task.rubric.criteria))
    if possible > _MOST_PAIRS:
        yield Finding(
            code="many_criteria",
            severity="warning",
            what=f"has {len(task.rubric)} criteria, and {compared} of their {possible} pairs were "
            "compared, those of the rarest words first: repetitions and contradictions among the "
            "others are not found",
            remedy="split the task: no judge reads so long a rubric with care",
        )


@lru_cache(maxsize=1)
def pairs_of(criteria: tuple[Criterion, ...]) -> Sequence[tuple[Criterion, Criterion]]:
    """Return the pairs to compare, in the rubric's order; at most `_MOST_PAIRS`."""
    if _possible(criteria) <= _MOST_PAIRS:
        return tuple(combinations(criteria, 2))
    found = set(islice(_likely(criteria), _MOST_PAIRS))
    return tuple((criteria[one], criteria[other]) for one, other in sorted(found))


def _possible(criteria: Sequence[Criterion]) -> int:
    return len(criteria) * (len(criteria) - 1) // 2


def _likely(criteria: Sequence[Criterion]) -> Iterator[tuple[int, int]]:
    """Yield pairs that share a word, the rarest words first; a pair may come again."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, criterion in enumerate(criteria):
        for word in _words(criterion):
            places[word].append(place)
    # Words that stand in the very same criteria pair them once.
    for together in sorted({tuple(found) for found in places.values()}, key=len):
        yield from combinations(together, 2)


def _words(criterion: Criterion) -> frozenset[str]:
    texts = (criterion.description, criterion.verification_method, *terms_of(criterion))
    # As written also, for descriptions that hold no word of content.
    return content_of_all(texts) | {criterion.description.casefold().strip()}
