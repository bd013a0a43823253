"""How often a calibrated cascade breaks its promise, with planted judges; for calibration_coverage.

A cheap judge is planted whose answers are right with a known probability on easy, hard and blind
items; on the blind ones it is wrong in nearly every answer, which no measure of uncertainty sees.
Each repetition draws labelled responses, finds the threshold as `rubric-judge calibrate --cascade`
does, and looks up the true risk there, which follows from the plant exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from scipy import optimize, stats

from rubric_core import Criterion, JudgeResult, Rubric
from rubric_core.arrays import FloatArray
from rubric_judge.judges.cascade.uncertainty import HALF, measured
from rubric_judge.quality.calibration.thresholds import GRID, p_value

K = 5
AUDIT_FRAC = 0.05
ALPHA, DELTA = 0.1, 0.05
KNOWN = "known error"
"""The plant whose calls to the last judge must fall by half."""
LAST_ERROR = 0.03
"""Share of the labels that the last judge contradicts."""


@dataclass(frozen=True)
class Plant:
    """A cheap judge: how many items are of each kind, and how often an answer is right there."""

    shares: tuple[float, float, float]
    """Easy, hard, blind."""
    right: tuple[float, float, float]
    responses: int
    """Labelled in each calibration."""
    criteria: int = 1
    """Of each response; all are of its kind, so that their errors are correlated."""
    of_document: int = 1
    """Responses of a document, which is the unit that calibration takes for independent."""
    together: float = 0.0
    """Intraclass correlation of the kind of a document's responses."""

    def risk(self, threshold: float | None) -> float:
        """Return the probability that the cascade contradicts the label."""
        wrong_kept, _ = self._kept(threshold, wrong=True)
        kept, _ = self._kept(threshold, wrong=False)
        return wrong_kept + (1 - kept) * LAST_ERROR

    def escalated(self, threshold: float | None) -> float:
        """Return the probability that a response is put to the last judge, audits included."""
        return 1 - self._kept(threshold, wrong=False)[1]

    def _kept(self, threshold: float | None, *, wrong: bool) -> tuple[float, float]:
        """Return the probability of a criterion, and of all of a response, to be kept."""
        counts = np.arange(K + 1)
        passes = _is_kept(counts, threshold) & (~_is_right(counts) | (not wrong))
        by_kind = [
            float(stats.binom.pmf(counts, K, q)[passes].sum()) for q in self.right
        ]
        unaudited = np.array(by_kind) * (1 - AUDIT_FRAC)
        shares = np.array(self.shares)
        return float(shares @ unaudited), float(shares @ unaudited**self.criteria)


def _uncertainties() -> FloatArray:
    """Return the uncertainty by the number of right answers, as the judge measures it."""
    criterion = Criterion(id="c", weight=1.0)
    rubric = Rubric(criteria=(criterion,))
    met, unmet = (
        JudgeResult.scored(rubric, {"c": z}, judge="planted") for z in (1.0, 0.0)
    )
    answers = ([met] * n + [unmet] * (K - n) for n in range(K + 1))
    return np.array(
        [measured(one, criterion, "consistency").uncertainty for one in answers]
    )


_UNCERTAINTY = _uncertainties()


def _is_kept(counts: Any, threshold: float | None) -> Any:
    return (
        np.zeros_like(counts, bool)
        if threshold is None
        else _UNCERTAINTY[counts] <= threshold
    )


def _is_right(counts: Any) -> Any:
    return counts >= HALF * K


def threshold_found(plant: Plant, rng: np.random.Generator) -> float | None:
    """Draw labelled responses and return the threshold they allow; raise where none does."""
    shape = plant.responses, plant.criteria
    kind_N = rng.choice(3, size=plant.responses, p=plant.shares)
    of_document_N = np.arange(plant.responses) // plant.of_document * plant.of_document
    # Two responses are of their document's kind at once in `together` of the pairs.
    is_shared_N = rng.random(plant.responses) < np.sqrt(plant.together)
    document_kind_N = rng.choice(3, size=plant.responses, p=plant.shares)[of_document_N]
    kind_N = np.where(is_shared_N, document_kind_N, kind_N)
    counts = rng.binomial(K, np.array(plant.right)[kind_N][:, None], size=shape)
    audited, last_wrong = rng.random(shape) < AUDIT_FRAC, rng.random(shape) < LAST_ERROR

    def p_values() -> Iterator[float]:
        for threshold in GRID:
            kept = _is_kept(counts, threshold) & ~audited
            losses = np.where(kept, ~_is_right(counts), last_wrong)
            yield p_value(
                losses.reshape(-1, plant.of_document * plant.criteria).mean(axis=1),
                ALPHA,
            )

    passed = sum(1 for _ in takewhile(lambda value: value <= DELTA, p_values()))
    # Where even the last judge is refused, nothing is promised and everything stays with it.
    return GRID[passed - 1] if passed else None


def at_the_edge(
    responses: int, *, criteria: int = 1, of_document: int = 1, together: float = 0.0
) -> Plant:
    """Return a plant whose risk is just above α at a threshold, where a violation is likeliest."""

    def plant(blind: float) -> Plant:
        shares, right = (0.8 - blind, 0.2, blind), (0.99, 0.6, 0.1)
        return Plant(shares, right, responses, criteria, of_document, together)

    def excess(blind: float) -> float:
        return plant(blind).risk(0.85) - ALPHA - 1e-6

    return plant(float(optimize.brentq(excess, 0.0, 0.3)))


def check_cascade(
    repetitions: int, rng: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Calibrate planted cascades again and again.

    Args:
        repetitions: calibrations of each plant.
        rng: draws everything.

    Returns:
        For each plant `violations`, the share of calibrations whose true risk is above α; the mean
        `risk`; and `escalated`, the mean share of responses that are put to the last judge.
    """
    known_error = Plant((0.72, 0.2, 0.08), (0.99, 0.6, 0.1), responses=500)
    plants = {
        KNOWN: known_error,
        "at the edge": at_the_edge(500),
        "at the edge, few labels": at_the_edge(80),
        "at the edge, four criteria": at_the_edge(500, criteria=4),
        "at the edge, 50 documents of 10": at_the_edge(
            500, of_document=10, together=0.3
        ),
        "at the edge, 150 documents of 4": at_the_edge(
            600, of_document=4, together=0.3
        ),
    }
    found: dict[str, dict[str, float]] = {}
    for name, plant in plants.items():
        thresholds = [threshold_found(plant, rng) for _ in range(repetitions)]
        risk = {threshold: plant.risk(threshold) for threshold in set(thresholds)}
        escalated = {threshold: plant.escalated(threshold) for threshold in risk}
        found[name] = {
            "violations": float(np.mean([risk[one] > ALPHA for one in thresholds])),
            "risk": float(np.mean([risk[one] for one in thresholds])),
            "escalated": float(np.mean([escalated[one] for one in thresholds])),
        }
    return found
