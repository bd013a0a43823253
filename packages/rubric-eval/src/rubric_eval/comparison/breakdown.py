"""Where a difference lies: by criterion and by field. Exploratory, and marked so."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, Literal

from rubric_eval.comparison.found import Part
from rubric_eval.comparison.levels import FEWEST_QUESTIONS, criterion_values
from rubric_eval.statistics import mean_interval

if TYPE_CHECKING:
    from rubric_eval.comparison.found import CompareSettings
    from rubric_eval.comparison.pairing import Pair

_MOST_RESAMPLES: Final = 1999
"""Parts are many, and nothing is decided by them."""


def breakdown(pair: Pair, settings: CompareSettings) -> tuple[list[Part], int]:
    """Take a − b apart.

    Returns:
        The parts that enough questions have, and how many parts were too small.
    """
    clusters = dict(zip(pair.ids, pair.clusters, strict=True))
    parts: list[Part] = []
    small = 0
    for (kind, name), by_question in {**_fields(pair), **_criteria(pair)}.items():
        if len(by_question) < FEWEST_QUESTIONS:
            small += 1
            continue
        interval = mean_interval(
            list(by_question.values()),
            clusters_N=[clusters[question] for question in by_question],
            confidence=settings.confidence,
            resamples=min(settings.resamples, _MOST_RESAMPLES),
            seed=settings.seed,
        )
        parts.append(
            Part(
                **interval.model_dump(),
                kind=kind,
                name=name,
                a=pair.a.model,
                b=pair.b.model,
                benchmark=pair.a.benchmark,
                judge=pair.a.judge,
            )
        )
    return parts, small


_Parts = dict[tuple[Literal["criterion", "field"], str], dict[str, float]]


def _fields(pair: Pair) -> _Parts:
    fields = dict(zip(pair.a.ids, pair.a.fields, strict=False))
    found: defaultdict[tuple[Literal["criterion", "field"], str], dict[str, float]]
    found = defaultdict(dict)
    for question, difference in zip(pair.ids, pair.differences_N, strict=True):
        if fields.get(question):
            found["field", fields[question]][question] = float(difference)
    return dict(sorted(found.items()))


def _criteria(pair: Pair) -> _Parts:
    of_a, of_b = criterion_values(pair.a), criterion_values(pair.b)
    paired = set(pair.ids)
    return {
        ("criterion", name): {
            question: z - of_b[name][question]
            for question, z in by_question.items()
            if question in of_b[name] and question in paired
        }
        for name, by_question in of_a.items()
        if name in of_b
    }
