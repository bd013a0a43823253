"""How often intervals of rewards hold the truth, for calibration_coverage: few and many documents.

A reward is the share of five criteria that an answer meets, each with the probability of its
document, which a beta distribution gives. Documents hold one question, or 1, 4 and 8 in turn. Two
models answer the same questions: what makes a document easy for the one does so for the other.

Intervals of few documents are wide on purpose, so that only what is below 95 % is a violation; how
wide they are is reported.
"""

from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rubric_eval.statistics.intervals import score_interval
from rubric_judge.quality.reliability.agreement import alpha, kappa
from rubric_judge.quality.reliability.intervals import Intervals
from rubric_judge.quality.reliability.rates import confusion
from rubric_judge.statistics.estimate import Estimate
from rubric_judge.statistics.means import mean_of_estimates
from rubric_judge.statistics.paired import McNemarTest
from rubric_judge.statistics.shares import share_estimate
from rubric_judge.statistics.student import Student

_Floats: TypeAlias = NDArray[np.float64]
_CRITERIA: Final = 5
_GAIN: Final = 0.6
"""A tenth of it is the true difference of the two models, away from the nearer end of [0, 1]."""


class Coverage(NamedTuple):
    """Of the intervals that are given; where none is, none misses, and the width is infinite."""

    held: float
    width: float


class _Design(NamedTuple):
    documents: int
    sizes: tuple[int, ...]
    together: float
    """Intraclass correlation of a document's answers."""
    mean: float


SKEWS: Final = {"symmetric": 0.5, "near 0": 0.05, "near 1": 0.95}
DOCUMENTS: Final = (3, 4, 9, 12, 40, 150)
_AGREEMENT_SHARE: Final = 0.1
"""Of the repetitions: a bootstrap of α or κ takes a thousand times as long as the others."""


def check_rewards(repetitions: int, rng: np.random.Generator) -> dict[str, Coverage]:
    """Simulate every design.

    Args:
        repetitions: of each; a tenth for α and κ, which are drawn by bootstrap.
        rng: all draws come from it.

    Returns:
        Coverage by interval and design.
    """
    found: dict[str, Coverage] = {}
    for documents, together, (skew, mean) in product(
        DOCUMENTS, (0.0, 0.1, 0.3), SKEWS.items()
    ):
        for sizes in ((1,), (1, 4, 8)):
            design = _Design(documents, sizes, together, mean)
            of = f"{documents} documents of {'1' if sizes == (1,) else '1 to 8'}"
            name = f"{of}, ICC {together:g}, {skew}"
            found |= {
                f"{kind}: {name}": one
                for kind, one in _rewards(design, repetitions, rng)
            }
    for n, (skew, mean) in product((8, 40, 150), SKEWS.items()):
        found |= {
            f"{kind}: {n} items, {skew}": one
            for kind, one in _accuracy(n, mean, repetitions, rng)
        }
    agreements = max(int(_AGREEMENT_SHARE * repetitions), 1)
    for documents, together in product((9, 40), (0.0, 0.3)):
        name = f"{documents} documents of 1 to 8, ICC {together:g}"
        for kind, one in _agreement(documents, together, agreements, rng):
            found[f"{kind}: {name}"] = one
    return found


def _rewards(
    design: _Design, repetitions: int, rng: np.random.Generator
) -> Iterator[tuple[str, Coverage]]:
    sizes_C = np.resize(design.sizes, design.documents)
    place_N = np.repeat(np.arange(design.documents), sizes_C)
    names_N = [str(one) for one in place_N]
    mean = design.mean
    gained = mean + _GAIN * (0.1 if mean <= 0.5 else -0.1)  # noqa: PLR2004  # away from the end
    scores, gains, rates = ([] for _ in range(3))
    for _ in range(repetitions):
        level_C = rng.random(design.documents)
        first_N, second_N = (
            rng.binomial(_CRITERIA, _level(one, design.together, level_C)[place_N])
            / _CRITERIA
            for one in (mean, gained)
        )
        score = score_interval(
            first_N, clusters_N=names_N, is_accuracy=False, answers=1
        )
        scores.append((score.ci_low, score.ci_high))
        # The wider of these and of BCa limits is printed, on each side.
        gains.append(
            Student.of(second_N - first_N, names_N).limits(0.95) or (None, None)
        )
        met_N = (first_N > rng.random(len(first_N))).astype(np.float64)
        bounds = Intervals(
            names_N, names_N, resamples=1, confidence=0.95, seed=0
        ).rates(confusion(met_N[:, None, None], np.ones((len(met_N), 1))))
        rates.append((bounds.tpr.low, bounds.tpr.high))
    yield "mean reward", _coverage(scores, mean)
    yield "paired difference (Student's part)", _coverage(gains, gained - mean)
    yield "TPR", _coverage(rates, mean)


def _accuracy(
    n: int, mean: float, repetitions: int, rng: np.random.Generator
) -> Iterator[tuple[str, Coverage]]:
    gained = mean + _GAIN * (0.1 if mean <= 0.5 else -0.1)  # noqa: PLR2004
    right = rng.binomial(n, mean, repetitions)
    single = [share_estimate(int(one), n) for one in right]
    yield "accuracy", _coverage([(one.low, one.high) for one in single], mean)
    pairs = zip(single, single[1:] + single[:1], strict=True)
    average = [mean_of_estimates(two, correlations_BB=np.eye(2)) for two in pairs]
    yield (
        "average of two accuracies",
        _coverage([(a.low, a.high) for a in average], mean),
    )
    paired = []
    for _ in range(repetitions):
        easy_n = rng.random(
            n
        )  # what is easy for the one is so for the other in half of the items
        alike_n = rng.random(n) < 0.5  # noqa: PLR2004
        first_n = easy_n < mean
        second_n = np.where(alike_n, easy_n, rng.random(n)) < gained
        won, lost = int((second_n & ~first_n).sum()), int((first_n & ~second_n).sum())
        paired.append(McNemarTest(won, lost, n).limits(0.95))
    yield "paired accuracies", _coverage(paired, gained - mean)


def _agreement(
    documents: int, together: float, repetitions: int, rng: np.random.Generator
) -> Iterator[tuple[str, Coverage]]:
    """Two judges who each say what is true with probability .8, of a trait met half of the time."""
    sizes_C = np.resize((1, 4, 8), documents)
    place_N = np.repeat(np.arange(documents), sizes_C)
    names_N = [str(one) for one in place_N]
    found: dict[str, list[tuple[float | None, float | None]]] = {
        "Krippendorff's α": [],
        "κ": [],
    }
    truth = (2 * 0.8 - 1) ** 2  # of both
    for _ in range(repetitions):
        level_N = _level(0.5, together, rng.random(documents))[place_N]
        true_N = rng.random(len(level_N)) < level_N
        z_JN1 = np.array([
            np.where(rng.random(len(true_N)) < 0.8, true_N, ~true_N)  # noqa: PLR2004
            for _ in range(2)
        ]).astype(np.float64)[:, :, None]  # fmt: skip
        intervals = Intervals(names_N, names_N, resamples=199, confidence=0.95, seed=0)
        of = {"Krippendorff's α": alpha(z_JN1), "κ": kappa(*z_JN1)}
        for name, statistic in of.items():
            one: Estimate = intervals.estimate(statistic)
            found[name].append((one.low, one.high))
    for name, limits in found.items():
        yield name, _coverage(limits, truth)


def _level(mean: float, together: float, level_C: _Floats) -> _Floats:
    """Return the probability of each document, at its place between the hardest and the easiest."""
    if not together:
        return np.full(len(level_C), mean)
    from scipy import special

    spread = 1 / together - 1
    return np.asarray(special.betaincinv(mean * spread, (1 - mean) * spread, level_C))


def _coverage(
    limits: list[tuple[float | None, float | None]], truth: float
) -> Coverage:
    given_R2 = np.array([one for one in limits if None not in one], dtype=np.float64)
    if not len(given_R2):
        return Coverage(1.0, float("inf"))
    low_R, high_R = given_R2.T
    slack = 1e-9
    held = np.mean((low_R - slack <= truth) & (truth <= high_R + slack))
    return Coverage(float(held), float(np.mean(high_R - low_R)))
