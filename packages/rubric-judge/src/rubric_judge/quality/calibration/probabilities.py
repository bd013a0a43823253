"""The worth of a cheap judge's readings: what a strong one says, by pool of criteria."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rubric_core import (
    ConfigError,
    Criterion,
    JudgeResult,
    JudgeView,
    Outcome,
    Pool,
    Pooling,
)
from rubric_judge.judges.cascade.record import GroupCalibration, ReliabilityMap
from rubric_judge.judges.cascade.uncertainty import HALF, measured

FEWEST_PAIRS = 50
"""Fewest criteria that both judges scored, for a map."""
_HIGHEST = 0.95


class Pair(NamedTuple):
    """One criterion of one response, as both judges scored it."""

    task_id: str
    response: str
    criterion: Criterion
    reading: float
    """Mean share of the weight by the cheap judge's answers."""
    strong: float
    """Share of the weight by the strong judge."""


def pairs_of(
    view: JudgeView, cheap: Sequence[JudgeResult], strong: JudgeResult
) -> list[Pair]:
    """Return the criteria of a response that both judges scored; none where either failed."""
    if any(result.outcome is not Outcome.SCORED for result in (*cheap, strong)):
        return []
    return [
        Pair(
            view.task_id,
            view.response,
            criterion,
            min(measured(cheap, criterion, "margin").score / criterion.weight, 1.0),
            min(strong.scores[criterion.id] / criterion.weight, 1.0),
        )
        for criterion in view.rubric
        if criterion.weight
    ]


def group_calibration(pairs: Sequence[Pair], pooling: Pooling) -> GroupCalibration:
    """Fit the maps: of each pool with enough pairs, and of all criteria.

    Args:
        pairs: of labelled responses.
        pooling: which criteria are measured together.

    Raises:
        ConfigError: fewer than 50 pairs.
    """
    if len(pairs) < FEWEST_PAIRS:
        raise ConfigError(
            f"`decide: group` needs {FEWEST_PAIRS} criteria that both judges scored, and here are "
            f"{len(pairs)}: label more responses",
            location="labels",
        )
    by_pool: defaultdict[Pool, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_pool[pooling.pool(pair.criterion)].append(pair)
    pooled = fitted(pairs)
    maps = {
        pool.name: fitted(some, pool=pool)
        for pool, some in sorted(by_pool.items(), key=lambda item: item[0].name)
        if len(some) >= FEWEST_PAIRS
    }
    calibration = GroupCalibration(pooled=pooled, criteria=maps)

    def centred(pair: Pair) -> float:
        return pair.strong - calibration.map_of(pair.criterion).base

    def same(pair: Pair) -> float:
        expected = calibration.map_of(pair.criterion).value(pair.reading)
        return 1 - abs(pair.strong - float(expected >= HALF))

    def error(pair: Pair) -> float:
        return pair.strong - calibration.map_of(pair.criterion).value(pair.reading)

    return calibration.model_copy(
        update={
            "alike": intraclass(_cells(pairs, centred, _of_criterion)),
            "shared": intraclass(_cells(pairs, same, _of_criterion)),
            "together": intraclass(_cells(pairs, error, _of_response)),
        }
    )


def fitted(pairs: Iterable[Pair], *, pool: Pool | None = None) -> ReliabilityMap:
    """Fit a map that never falls, by pooling adjacent violators.

        m_b = (Σ z + ½) / (n_b + 1)

    Half a met and half an unmet verdict are added to each block, so that no reading is certain.

    Args:
        pairs: at least one.
        pool: the pool that they are of; None for all.

    Source: Ayer et al., An empirical distribution function for sampling with incomplete
        information, Annals of Mathematical Statistics 26 (1955).
    """
    chosen = list(pairs)
    reading_N = np.array([pair.reading for pair in chosen])
    strong_N = np.array([pair.strong for pair in chosen])
    readings, place_N, count_B = np.unique(
        reading_N, return_inverse=True, return_counts=True
    )
    sums_B = np.bincount(place_N, weights=strong_N)
    # Each block: number, sum of values, sum of readings.
    blocks: list[tuple[int, float, float]] = []
    for reading, count, total in zip(readings, count_B, sums_B, strict=True):
        block = (int(count), float(total), float(reading * count))
        while blocks and blocks[-1][1] / blocks[-1][0] >= block[1] / block[0]:
            last = blocks.pop()
            block = (last[0] + block[0], last[1] + block[1], last[2] + block[2])
        blocks.append(block)
    values = [(total + HALF) / (count + 1) for count, total, _ in blocks]
    variance = float(np.var(strong_N))
    mean = float(np.mean(strong_N))
    is_verdict = bool(np.isin(strong_N, (0.0, 1.0)).all())
    most = mean * (1 - mean)
    return ReliabilityMap(
        pool=pool,
        readings=tuple(min(total / count, 1.0) for count, _, total in blocks),
        # Smoothing may turn two blocks of different size around.
        values=tuple(np.maximum.accumulate(values).tolist()),
        counts=tuple(count for count, _, _ in blocks),
        base=mean,
        dispersion=1.0 if is_verdict or most <= 0 else min(variance / most, 1.0),
    )


def intraclass(cells: Iterable[Sequence[float]]) -> float:
    """Return the intraclass correlation of values in cells.

        ρ = Σ_c Σ_{i≠k} e_i e_k / Σ_c (n_c − 1) Σ_i e_i²,   e = value less the mean of all

    Args:
        cells: values that may be alike: those of a criterion of a task, or of a response.

    Returns:
        Between 0 and .95; 0 where no cell has two values, or all values are equal.

    Source: Fleiss, The Design and Analysis of Clinical Experiments (1986), ch. 1.
    """
    several = [np.asarray(cell, dtype=np.float64) for cell in cells]
    mean = float(np.concatenate(several).mean())
    products = 0.0
    squares = 0.0
    for cell in several:
        own = float(((cell - mean) ** 2).sum())
        products += float((cell - mean).sum()) ** 2 - own
        squares += (len(cell) - 1) * own
    if squares <= 0 or not math.isfinite(products / squares):
        return 0.0
    return min(max(products / squares, 0.0), _HIGHEST)


def _of_criterion(pair: Pair) -> tuple[str, str]:
    return pair.task_id, pair.criterion.id


def _of_response(pair: Pair) -> tuple[str, str]:
    return pair.task_id, pair.response


def _cells(
    pairs: Iterable[Pair],
    value: Callable[[Pair], float],
    cell: Callable[[Pair], tuple[str, str]],
) -> Iterable[Sequence[float]]:
    cells: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for pair in pairs:
        cells[cell(pair)].append(value(pair))
    return cells.values()
