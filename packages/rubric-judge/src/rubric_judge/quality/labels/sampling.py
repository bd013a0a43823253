"""Samples of responses to label: random, over every class, and with their weights.

**N** responses, **C** cells (a response and one of its criteria), **S** strata.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rubric_core import JudgeResult, Outcome, Rubric, RubricFileError, SchemaError
from rubric_core.arrays import FloatArray
from rubric_judge.quality.labels.rows import LabelSource
from rubric_judge.quality.responses import read_judgements

IntArray = NDArray[np.intp]

_LEVELS = 3
"""Bins of the judge's score z in [0, 1]."""
_AT_RANDOM = 0.1
"""Share of the sample that is drawn without regard to strata, so that no response is left out for
certain and no weight is beyond ten times the mean."""
_ROUNDS = 200


@dataclass(frozen=True)
class Drawn:
    """A response that is to be labelled."""

    line: int
    criteria: tuple[str, ...]
    """Ids of the criteria with weight; the others can earn nothing."""
    inclusion: float
    """Probability with which the response was drawn, in (0, 1]."""


def judged_levels(path: Path, source: LabelSource) -> dict[int, dict[str, int]]:
    """Read a judge's scores, each as a level from 0 to 2, by line and criterion.

    Args:
        path: a judgement file; of several judgements of a response the first counts, and one
            without scores is passed over.
        source: the tasks and responses that were judged.

    Raises:
        RubricFileError: a judgement of another task, response or rubric. Says file and line.
        OSError: the file cannot be read.
    """
    levels: dict[int, dict[str, int]] = {}
    for number, row in read_judgements(path):
        view = (source.views or {}).get(row.line)
        if view is None or view.task_id != row.task_id:
            raise RubricFileError(
                f"response {row.line} is not a response to task {row.task_id!r}: give the "
                "judgements of the responses that are to be labelled",
                path=path,
                line=number,
                field="line",
            )
        if row.result.outcome is not Outcome.SCORED:
            continue
        try:
            view.rubric.check_scores(row.result.scores)
        except SchemaError as error:
            raise RubricFileError(str(error), path=path, line=number) from None
        if row.line not in levels:
            levels[row.line] = _levels(row.result, view.rubric)
    return levels


def _levels(result: JudgeResult, rubric: Rubric) -> dict[str, int]:
    """Return the level of each score, by criterion with weight."""
    levels: dict[str, int] = {}
    for criterion in rubric:
        if criterion.weight > 0:
            level = int(_LEVELS * result.scores[criterion.id] / criterion.weight)
            levels[criterion.id] = min(level, _LEVELS - 1)
    return levels


def draw(
    source: LabelSource,
    levels: Mapping[int, Mapping[str, int]],
    *,
    count: int,
    seed: int,
) -> list[Drawn]:
    """Draw the responses whose labels tell most about a judge; `draw_more` with one count."""
    return draw_more(
        source,
        levels,
        counts=[count],
        seed=seed,
    )[-1]


def draw_more(
    source: LabelSource,
    levels: Mapping[int, Mapping[str, int]],
    *,
    counts: Sequence[int],
    seed: int,
) -> list[list[Drawn]]:
    """Draw the responses whose labels tell most about a judge, and then more of them.

    Whole responses are drawn, since to read one is what takes the time. Their inclusion
    probabilities π maximise Σ_s log Σ_{c in s} π_c over strata s, where c are cells and a stratum
    is a criterion at one level of the judge's score: labels are shared out among strata as evenly
    as whole responses allow. The draw is systematic, so that each response is drawn with exactly
    its π, and 1 / π weighs it in an estimate for all responses.

    A further count adds a draw of its own, independent of those before. With π of the draws so far
    and π' wanted for the larger count, it has the probabilities p = max(π' − π, 0) / (1 − π), so
    that a response is in one of them with probability π + (1 − π) p = max(π', π).

    Args:
        source: with the responses.
        levels: levels from `judged_levels`; unjudged cells form a level of their own.
        counts: labels wanted from each rater, at first and then in all; about as many are drawn,
            and at least one response.
        seed: seed of the draws.

    Returns:
        After each count, the responses drawn so far, in the order of their lines.

    Source: Horvitz & Thompson, JASA 47 (1952); Madow, Ann. Math. Statist. 20 (1949).
    """
    criteria = {
        line: tuple(criterion.id for criterion in view.rubric if criterion.weight > 0)
        for line, view in (source.views or {}).items()
    }
    lines = list(criteria)
    sizes_N = np.array([len(ids) for ids in criteria.values()], np.float64)
    strata: list[list[tuple[str, int]]] = []
    for line in lines:
        of_line = levels.get(line, {})
        strata.append([(name, of_line.get(name, -1)) for name in criteria[line]])
    stratum_of_cell = [stratum for row in strata for stratum in row]
    places = {
        stratum: place for place, stratum in enumerate(sorted(set(stratum_of_cell)))
    }
    stratum_C = np.array([places[stratum] for stratum in stratum_of_cell], np.intp)
    row_C = np.repeat(np.arange(len(lines)), sizes_N.astype(np.intp))
    pi_N = np.zeros(len(lines))
    drawn = set[int]()
    draws: list[list[Drawn]] = []
    for k, count in enumerate(counts):
        expected = max(float(count), sizes_N.max(initial=1))
        expected = min(expected, sizes_N.sum())
        pi_wanted_N = _inclusion(row_C, stratum_C, sizes_N, expected=expected)
        target_N = np.minimum(pi_wanted_N, 1.0)
        gain_N = np.maximum(target_N - pi_N, 0.0)
        further_N = np.divide(
            gain_N,
            1 - pi_N,
            out=np.zeros_like(pi_N),
            where=pi_N < 1,
        )
        generator = random.Random(f"draw {seed} {k}" if k else f"draw {seed}")
        order = sorted(range(len(lines)), key=lambda n: (strata[n], generator.random()))
        chosen = _systematic(further_N[order], start=generator.random())
        drawn |= {order[i] for i in chosen}
        pi_N = np.maximum(target_N, pi_N)
        draws.append(
            [Drawn(lines[n], criteria[lines[n]], float(pi_N[n])) for n in sorted(drawn)]
        )
    return draws


def in_order(drawn: list[Drawn], *, rater: str, seed: int) -> list[tuple[int, str]]:
    """Return a rater's order of (line, criterion): responses shuffled, and criteria in each."""
    generator = random.Random(f"order {seed} {rater}")
    responses = generator.sample(drawn, len(drawn))
    return [
        (response.line, name)
        for response in responses
        for name in generator.sample(response.criteria, len(response.criteria))
    ]


def _inclusion(
    row_C: IntArray, stratum_C: IntArray, sizes_N: FloatArray, *, expected: float
) -> FloatArray:
    """Return π, shape [N]: multiplied by its gradient repeatedly, and scaled to the count."""
    even_N = _scaled_to(np.ones_like(sizes_N), sizes_N, expected)
    pi_N = even_N
    for _ in range(_ROUNDS):
        expected_S = np.bincount(stratum_C, weights=pi_N[row_C])
        gain_N = np.bincount(row_C, weights=1 / expected_S[stratum_C]) / sizes_N
        pi_N = _scaled_to(pi_N * gain_N, sizes_N, expected)
    return (1 - _AT_RANDOM) * pi_N + _AT_RANDOM * even_N


def _scaled_to(pi_N: FloatArray, sizes_N: FloatArray, expected: float) -> FloatArray:
    """Scale π until Σ π · size is the expected number, none above 1."""
    certain_N = np.zeros(len(pi_N), np.bool_)
    while not certain_N.all():
        remaining = expected - sizes_N[certain_N].sum()
        scaled_N = pi_N * remaining / (pi_N * sizes_N)[~certain_N].sum()
        above_N = ~certain_N & (scaled_N >= 1)
        certain_N |= above_N
        if not above_N.any():
            return np.where(certain_N, 1.0, scaled_N)
    return np.ones_like(pi_N)


def _systematic(pi_N: FloatArray, *, start: float) -> list[int]:
    """Draw places with probabilities π: at start, start + 1, … in their running sum."""
    sum_N = np.cumsum(pi_N)
    whole = round(sum_N[-1])
    if whole and abs(sum_N[-1] - whole) < 1e-6:  # noqa: PLR2004  # rounding only
        sum_N *= whole / sum_N[-1]
    points = np.arange(start, sum_N[-1], 1.0)
    return [int(place) for place in np.searchsorted(sum_N, points, side="right")]
