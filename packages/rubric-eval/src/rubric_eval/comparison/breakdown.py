"""Where a difference lies: over benchmarks, by criterion and by field."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from rubric_eval.comparison.found import AverageDelta, Part
from rubric_eval.comparison.pairing import FEWEST_QUESTIONS, criterion_values
from rubric_eval.records import Measure
from rubric_eval.statistics import mean_interval
from rubric_eval.statistics.bootstrap import Sample, joint_draws
from rubric_eval.transfer.suites import SuiteName, suite_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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


_Group = tuple[str, str, SuiteName | None]
"""Two models, and a suite of benchmarks."""


def averages(pairs: Sequence[Pair], settings: CompareSettings) -> list[AverageDelta]:
    """Average a − b over the benchmarks of each two models that have several of one suite.

    The suites ask the same items in other words: together they would be an average over prompts.
    """
    groups: defaultdict[_Group, list[Pair]] = defaultdict(list)
    for one in pairs:
        if one.a.measure is Measure.ACCURACY:
            groups[one.a.model, one.b.model, suite_of(one.a.benchmark)].append(one)
    return [
        _average(group, members, settings) for group, members in groups.items() if len(members) > 1
    ]


def _average(group: _Group, members: Sequence[Pair], settings: CompareSettings) -> AverageDelta:
    samples = [Sample(one.differences_N, one.clusters) for one in members]
    low, high = None, None
    # Draws of differences that are all equal are a point, which says nothing of their spread.
    varies = any(np.ptp(sample.values_N) > 0 for sample in samples)
    if varies and all(sample.clusters_count > 1 for sample in samples):
        draws = joint_draws(samples, resamples=settings.resamples, seed=settings.seed)
        tail = (1 - settings.confidence) / 2
        low, high = (float(one) for one in np.quantile(draws / len(members), [tail, 1 - tail]))
    return AverageDelta(
        mean=float(np.mean([one.differences_N.mean() for one in members])),
        ci_low=low,
        ci_high=high,
        n=len(members),
        a=group[0],
        b=group[1],
        suite=group[2] or "",
        benchmarks=tuple(one.a.benchmark for one in members),
    )
