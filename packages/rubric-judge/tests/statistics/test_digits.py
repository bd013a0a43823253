"""The room's figures are those of the rooms that it was made of, digit for digit."""

import numpy as np
import pytest

from rubric_core.arrays import FloatArray
from rubric_judge.quality.reliability.intervals import Intervals
from rubric_judge.statistics.correlation import rank_correlation
from rubric_judge.statistics.estimate import Estimate
from rubric_judge.statistics.means import mean_estimate, paired_difference
from rubric_judge.statistics.paired import accuracy_test, reward_test
from rubric_judge.statistics.shares import bounded_mean, share_estimate

N = 24
CLUSTERS = [f"d{place % 9}" for place in range(N)]
BEFORE: dict[str, tuple[float, ...]] = {
    "mean": (0.379125, 0.28376934097300505, 0.476543428167131),
    "paired": (-0.12916666666666665, -0.2354708819638532, -0.017961538461538445),
    "score": (0.379125, 0.1938448120918655, 0.6079470181886983),
    "share": (0.075, 0.025836025774588184, 0.19864233524310546),
    "rank": (-0.12828876145846113, -0.545639624669303, 0.26138647823757116),
    "drawn": (0.379125, 0.3181559851115312, 0.45737065662739596),
    "bias": (-0.120875, -0.21623065902699495, -0.025519340973005053),
    "test 0": (
        -0.12916666666666668,
        0.07338087206800407,
        -0.2616930514307465,
        0.01434068265258214,
    ),
    "test 1": (
        -0.2916666666666667,
        0.11846923828124999,
        -0.5501940989958191,
        0.025665417039211703,
    ),
    "test 2": (-0.2916666666666667, 0.24516673885733054, -0.7, 0.20316198866199153),
}
"""Figures of the means and tests of rubric_eval, and of reliability, before they were moved."""


@pytest.fixture
def pairs() -> tuple[FloatArray, FloatArray]:
    """Rewards of two models for the same questions, of nine documents."""
    rng = np.random.default_rng(5)
    return np.round(rng.beta(2, 3, N), 3), np.round(rng.beta(3, 3, N), 3)


def _figures(estimate: Estimate | None) -> tuple[float | None, ...]:
    assert estimate is not None
    return estimate.value, estimate.low, estimate.high


def test_figures_are_what_they_were(pairs: tuple[FloatArray, FloatArray]) -> None:
    x_N, y_N = pairs
    right_N = (x_N > 0.4).astype(float)
    tests = (
        reward_test(x_N - y_N, CLUSTERS),
        accuracy_test(right_N - (y_N > 0.4)),
        accuracy_test(right_N - (y_N > 0.4), CLUSTERS),
    )
    intervals = Intervals(CLUSTERS, CLUSTERS, 999, 0.95, 0)

    def mean_of(rows: np.ndarray) -> float:
        return float(x_N[rows].mean())

    figures = {
        "mean": _figures(mean_estimate(x_N, clusters_N=CLUSTERS)),
        "paired": _figures(
            paired_difference(x_N, y_N, clusters_N=CLUSTERS, confidence=0.9, seed=3)
        ),
        "score": _figures(bounded_mean(x_N, clusters_N=CLUSTERS)),
        "share": _figures(share_estimate(3, 40)),
        "rank": _figures(rank_correlation(list(x_N), list(y_N), CLUSTERS)),
        "drawn": _figures(intervals.estimate(mean_of)),
        "bias": _figures(intervals.bias(x_N - 0.5, np.arange(N))),
    } | {
        f"test {place}": (test.mean, test.p_value, *(test.limits(0.95) or ()))
        for place, test in enumerate(tests)
    }

    assert figures.keys() == BEFORE.keys()
    for name, values in figures.items():
        assert values == pytest.approx(BEFORE[name], rel=1e-12), name
