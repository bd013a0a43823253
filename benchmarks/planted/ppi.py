"""How often the interval of a bias-corrected mean reward holds the truth; for calibration_coverage.

Two kinds of judge are planted. Of the one the label is drawn from the score (E[Y | f] is a line, as
the correction's own model has it); of the other the score is drawn from the label, criterion by
criterion, with a TPR and an FPR, as a judge that reads an answer works (classical error). Each
repetition draws everything anew, and labels a few answers, with all of a document.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rubric_core.errors import RewardError
from rubric_judge.quality.calibration.correction import corrected_mean
from rubric_judge.quality.calibration.record import RewardPair

BIAS: Final = 0.12
"""Of the planted judge whose score the label is drawn from; it is generous."""
_Floats: TypeAlias = NDArray[np.float64]
_Draw: TypeAlias = Callable[
    [NDArray[np.intp], np.random.Generator], tuple[_Floats, _Floats]
]
"""From the document of each answer to the judge's rewards and the labels."""


class Design(NamedTuple):
    """What is drawn."""

    draw: _Draw
    truth: float
    """Mean label of all answers that could be drawn."""
    labelled: int
    """Documents."""
    sizes: tuple[int, ...] = (1,)
    """Answers to a document, in turn."""
    documents: int = 300


def _score_first(
    place_N: NDArray[np.intp], rng: np.random.Generator
) -> tuple[_Floats, _Floats]:
    documents = int(place_N.max()) + 1
    hard_N, shared_N = (
        spread * rng.standard_normal(documents)[place_N] for spread in (0.1, 0.06)
    )
    judge_N = 0.5 + BIAS + hard_N + 0.15 * rng.standard_normal(len(place_N))
    noise_N = 0.12 * rng.standard_normal(len(place_N))
    return judge_N, 0.5 + 0.6 * (judge_N - BIAS - 0.5) + shared_N + noise_N


def _label_first(
    place_N: NDArray[np.intp],
    rng: np.random.Generator,
    *,
    quality: tuple[float, float],
    rates: tuple[float, float] = (0.85, 0.25),
    criteria: int = 5,
) -> tuple[_Floats, _Floats]:
    """Draw what is met by a beta of each document, then what the judge says of it."""
    level_N = rng.beta(*quality, int(place_N.max()) + 1)[place_N]
    met_NM = rng.random((len(place_N), criteria)) < level_N[:, None]
    said_NM = rng.random(met_NM.shape) < np.where(met_NM, *rates)
    return said_NM.mean(axis=1), met_NM.mean(axis=1)


def _classical(
    a: float, b: float, labelled: int, sizes: tuple[int, ...] = (1,)
) -> Design:
    return Design(partial(_label_first, quality=(a, b)), a / (a + b), labelled, sizes)


DESIGNS: Final = {
    "score first, 20 labelled": Design(_score_first, 0.5, 20),
    "score first, 100 labelled": Design(_score_first, 0.5, 100),
    "score first, 40 documents of 4": Design(_score_first, 0.5, 40, (4,), 100),
    "label first, 10 labelled": _classical(6, 4, 10),
    "label first, 40 labelled": _classical(6, 4, 40),
    "label first, all labelled": _classical(6, 4, 300),
    "label first, 30 documents of 1 to 8": _classical(3, 3, 30, (1, 2, 8)),
    "label first, rarely met": _classical(0.3, 2.7, 30),
    "label first, nearly always met": _classical(18, 1, 20),
}


def check_ppi(repetitions: int, rng: np.random.Generator) -> dict[str, float]:
    """Simulate every design.

    Args:
        repetitions: of each.
        rng: all draws come from it.

    Returns:
        Coverage by design, of those that are not refused; `refused`, the share of repetitions in
        which labels of one model are refused for another, of which the judge thinks as highly.
    """
    found = {
        name: np.mean(list(_held(one, repetitions, rng)))
        for name, one in DESIGNS.items()
    }
    refused = sum(_is_refused(rng) for _ in range(repetitions)) / repetitions
    return {name: float(share) for name, share in found.items()} | {"refused": refused}


def _held(design: Design, repetitions: int, rng: np.random.Generator) -> list[bool]:
    held: list[bool] = []
    for _ in range(repetitions):
        sizes = np.resize(design.sizes, design.documents)
        place_N = np.repeat(np.arange(design.documents), sizes)
        judge_N, label_N = design.draw(place_N, rng)
        chosen = rng.permutation(design.documents)[: design.labelled]
        rows = np.flatnonzero(np.isin(place_N, chosen))
        pairs = _pairs(judge_N[rows], label_N[rows], rows, place_N[rows])
        try:
            found = corrected_mean(
                judge_N,
                pairs,
                answers_N=[str(row) for row in range(len(judge_N))],
                documents_N=[str(place) for place in place_N],
            )
        except RewardError:
            continue
        held.append(found.ci_low <= design.truth <= found.ci_high)
    return held


def _is_refused(rng: np.random.Generator) -> bool:
    place_N = np.arange(60)
    judge_N, label_N = _label_first(place_N, rng, quality=(4, 6))
    pairs = _pairs(judge_N, label_N, place_N, place_N)
    try:
        corrected_mean(
            judge_N, pairs, answers_N=[f"of another {row}" for row in place_N]
        )
    except RewardError:
        return True
    return False


def _pairs(
    judge_n: _Floats,
    label_n: _Floats,
    rows: NDArray[np.intp],
    place_n: NDArray[np.intp],
) -> list[RewardPair]:
    given = zip(judge_n.tolist(), label_n.tolist(), rows, place_n, strict=True)
    return [
        RewardPair(
            task_id=str(row), document=str(place), judge=f, label=y, answer=str(row)
        )
        for f, y, row, place in given
    ]
