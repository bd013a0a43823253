"""Paired differences: each tested, and decided with its family."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from rubric_eval.comparison.found import PairedResult
from rubric_eval.records import Measure
from rubric_eval.statistics import PairedTest, accuracy_test, decide, reward_test

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from rubric_eval.comparison.found import CompareSettings
    from rubric_eval.comparison.pairing import Pair
    from rubric_eval.statistics import Decision


def paired_results(pairs: Sequence[Pair], settings: CompareSettings) -> list[PairedResult]:
    """Test each pair, and decide over its family, in the order given."""
    tests = [paired_test(one, settings) for one in pairs]
    families: defaultdict[Hashable, list[int]] = defaultdict(list)
    for at, one in enumerate(pairs):
        together = (one.a.model, one.b.model, one.a.measure)
        families[together if settings.family == "benchmarks" else None].append(at)
    results: dict[int, PairedResult] = {}
    for members in families.values():
        decisions = decide(
            [tests[at].p_value for at in members],
            settings.correction,
            alpha=1 - settings.confidence,
        )
        for at, decision in zip(members, decisions, strict=True):
            results[at] = _result(pairs[at], tests[at], decision, settings)
    return [results[at] for at in range(len(pairs))]


def paired_test(pair: Pair, settings: CompareSettings) -> PairedTest:
    """Choose the test: bootstrap for rewards, McNemar or sign flips for accuracies."""
    if pair.a.measure is Measure.REWARD:
        return reward_test(
            pair.differences_N, pair.clusters, resamples=settings.resamples, seed=settings.seed
        )
    return accuracy_test(
        pair.differences_N,
        pair.clusters,
        answers=pair.answers,
        resamples=settings.resamples,
        seed=settings.seed,
    )


def _result(
    pair: Pair, test: PairedTest, decision: Decision, settings: CompareSettings
) -> PairedResult:
    low, high = test.limits(settings.confidence) or (None, None)
    decided_low, decided_high = test.limits(1 - decision.level) or (None, None)
    differences_N = np.round(pair.differences_N, 12)
    return PairedResult(
        mean=test.mean,
        ci_low=low,
        ci_high=high,
        n=test.n,
        a=pair.a.model,
        b=pair.b.model,
        benchmark=pair.a.benchmark,
        measure=pair.a.measure,
        judge=pair.a.judge,
        a_mean=float(pair.a_N.mean()),
        b_mean=float(pair.b_N.mean()),
        clusters=test.clusters,
        left_out=pair.left_out,
        won=int(np.sum(differences_N > 0)),
        lost=int(np.sum(differences_N < 0)),
        test=test.name,
        p=test.p_value,
        p_adjusted=decision.p_adjusted,
        is_significant=decision.is_significant,
        level=decision.level,
        decided_low=decided_low,
        decided_high=decided_high,
        detectable=test.detectable(alpha=decision.level, power=settings.power),
    )
