"""The average difference over benchmarks, of which some share items."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from rubric_eval.comparison.found import AverageDelta
from rubric_eval.records import Measure
from rubric_eval.statistics.joint import Sample, joint_draws
from rubric_eval.transfer.suites import SuiteName, suite_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.comparison.found import CompareSettings
    from rubric_eval.comparison.pairing import Pair

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
