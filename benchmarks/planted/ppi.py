"""How often the interval of a bias-corrected mean reward holds the truth; for calibration_coverage.

A planted judge is generous, noisy and right of the middle only in part; labels of a few responses
correct its mean over many. Each design draws everything anew `repetitions` times: the share of
intervals that hold the planted mean must be near 95 %, and a population whose residual is another
must be refused.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rubric_judge.calibration.correction import Tuning, check_population, corrected_mean
from rubric_judge.calibration.record import RewardPair

BIAS: Final = 0.12
"""Of the planted judge, which is generous."""


class Design(NamedTuple):
    """What is drawn."""

    judged: int
    labelled: int
    tuning: Tuning
    shift: float = 0.0
    """How much better the judged population is than the labelled one."""
    each: int = 1
    """Responses to a document."""


DESIGNS: Final = {
    "same_power_50": Design(400, 50, "power"),
    "same_power_200": Design(400, 200, "power"),
    "same_power_documents": Design(400, 120, "power", each=4),
    "same_regression_100": Design(400, 100, "regression"),
    "shifted_regression_100": Design(400, 100, "regression", shift=0.1),
    "shifted_regression_documents": Design(300, 160, "regression", shift=0.1, each=4),
}


def _drawn(
    n: int, rng: np.random.Generator, *, shift: float, each: int, bias: float = BIAS
) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
    """Labels and the judge's rewards, E[Y | f] linear: (f, Y, document of each)."""
    count = -(-n // each)
    documents = np.repeat(np.arange(count), each)[:n]
    difficulty = 0.1 * rng.standard_normal(count)[documents]
    judge = 0.5 + bias + shift + difficulty + 0.15 * rng.standard_normal(n)
    shared = 0.06 * rng.standard_normal(count)[documents]
    label = 0.5 + 0.6 * (judge - bias - 0.5) + shared + 0.12 * rng.standard_normal(n)
    return judge, label, [str(one) for one in documents]


def _pairs(
    judge: NDArray[np.float64], label: NDArray[np.float64], documents: list[str]
) -> list[RewardPair]:
    return [
        RewardPair(task_id=document, document=document, judge=f, label=y)
        for f, y, document in zip(judge.tolist(), label.tolist(), documents, strict=True)
    ]


def check_ppi(repetitions: int, rng: np.random.Generator) -> dict[str, float]:
    """Simulate every design.

    Args:
        repetitions: of each.
        rng: all draws come from it.

    Returns:
        Coverage by design; `refused_alike`, the share of populations like the labelled one that
        40 probes refuse, nominally 5 %; `refused_other`, that of a judge won over by .15.
    """
    found: dict[str, float] = {}
    for name, design in DESIGNS.items():
        truth, held = 0.5 + 0.6 * design.shift, 0
        for _ in range(repetitions):
            judge_N, _, documents_N = _drawn(
                design.judged, rng, shift=design.shift, each=design.each
            )
            pairs = _pairs(*_drawn(design.labelled, rng, shift=0.0, each=design.each))
            mean = corrected_mean(judge_N, pairs, tuning=design.tuning, documents_N=documents_N)
            held += mean.ci_low <= truth <= mean.ci_high
        found[name] = held / repetitions
    for name, won in {"refused_alike": 0.0, "refused_other": 0.15}.items():
        refused = 0
        for _ in range(repetitions):
            judge_N, label_N, documents_N = _drawn(300, rng, shift=0.05, each=1)
            probes = _pairs(judge_N[:40] + won, label_N[:40], documents_N[:40])
            pairs = _pairs(*_drawn(150, rng, shift=0.0, each=1))
            refused += not check_population(judge_N + won, pairs, probes).transfers
        found[name] = refused / repetitions
    return found
