"""Paired differences: each tested, decided with its family, and averaged over benchmarks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from rubric_eval.comparison.found import AverageDelta, PairedResult
from rubric_eval.records import Measure
from rubric_eval.statistics import PairedTest, accuracy_test, decide, reward_test
from rubric_eval.statistics.bootstrap import bootstrap_mean

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from rubric_eval.comparison.found import CompareSettings
    from rubric_eval.comparison.pairing import Pair
    from rubric_eval.statistics import Decision
    from rubric_eval.statistics.intervals import FloatArray


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


def averages(pairs: Sequence[Pair], settings: CompareSettings) -> list[AverageDelta]:
    """Average a − b over the benchmarks of each two models that have several."""
    by_models: defaultdict[tuple[str, str], list[Pair]] = defaultdict(list)
    for one in pairs:
        if one.a.measure is Measure.ACCURACY:
            by_models[one.a.model, one.b.model].append(one)
    return [
        _average(names, members, settings)
        for names, members in by_models.items()
        if len(members) > 1
    ]


def _average(
    names: tuple[str, str], members: Sequence[Pair], settings: CompareSettings
) -> AverageDelta:
    rng = np.random.default_rng(settings.seed)
    means = [float(one.differences_N.mean()) for one in members]
    total_R: FloatArray = np.zeros(settings.resamples)
    is_known = True
    for one, mean in zip(members, means, strict=True):
        drawn = bootstrap_mean(
            one.differences_N, one.clusters, resamples=settings.resamples, seed=settings.seed
        )
        is_known = is_known and drawn.clusters > 1
        # The draws come sorted, and benchmarks are independent of each other.
        total_R += rng.permutation(drawn.draws) if drawn.draws.size else mean
    tail = (1 - settings.confidence) / 2
    low, high = np.quantile(total_R / len(members), [tail, 1 - tail])
    return AverageDelta(
        mean=float(np.mean(means)),
        ci_low=float(low) if is_known else None,
        ci_high=float(high) if is_known else None,
        n=len(members),
        a=names[0],
        b=names[1],
        benchmarks=tuple(one.a.benchmark for one in members),
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
