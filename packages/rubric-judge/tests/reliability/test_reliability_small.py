"""Intervals of few, unequal and near-perfect documents, on judges of known error."""

import numpy as np
import pytest
from scipy import stats

from rubric_judge.quality.reliability.intervals import Intervals
from rubric_judge.quality.reliability.rates import confusion
from rubric_judge.statistics.clusters import ClusteredMean


@pytest.mark.parametrize(
    ("sizes", "tpr", "fpr"),
    [
        ([12] * 7, 0.8, 0.3),
        ([40] * 2 + [4] * 8, 0.8, 0.3),
        ([4] * 25, 0.98, 0.02),
        ([20] * 4, 0.8, 0.3),
    ],
    ids=["7 documents of 12", "two large of ten", "near perfect", "4 documents"],
)
def test_rates_and_biases_of_few_documents_are_covered(
    sizes: list[int], tpr: float, fpr: float
) -> None:
    rng = np.random.default_rng(6)
    document_N = np.repeat(np.arange(len(sizes)), sizes)
    names = [str(one) for one in document_N]
    tasks = [str(row // 2) for row in range(len(names))]
    intervals = Intervals(names, tasks, resamples=1, confidence=0.95, seed=0)
    truth = {
        "tpr": tpr,
        "fpr": fpr,
        "youden_j": tpr - fpr,
        "bias": 0.5 * (tpr + fpr) - 0.5,
    }
    held: dict[str, list[bool]] = {name: [] for name in truth}
    for _ in range(150):
        label_N = rng.random(len(names)) < 0.5
        level_D = rng.random(
            len(sizes)
        )  # a document makes both classes easier to call met
        called = (
            stats.beta.ppf(level_D, 4 * p, 4 * (1 - p))[document_N] for p in (tpr, fpr)
        )
        said_N = (rng.random(len(names)) < np.where(label_N, *called)).astype(
            np.float64
        )
        rates = intervals.rates(
            confusion(said_N[:, None, None], label_N[:, None].astype(float))
        )
        found = {name: getattr(rates, name) for name in ("tpr", "fpr", "youden_j")}
        found["bias"] = intervals.bias(said_N - label_N, np.arange(len(names)))
        for name, one in found.items():
            assert one.unit == "document"
            held[name].append(one.low <= truth[name] <= one.high)
    assert {name: np.mean(all_) >= 0.9 for name, all_ in held.items()} == dict.fromkeys(
        truth, True
    )


def test_documents_of_unequal_sizes_are_worth_fewer() -> None:
    def worth(*sizes: float) -> float:
        return ClusteredMean.of(np.zeros(len(sizes)), np.array(sizes)).equal_clusters

    assert worth(3, 3, 3, 3) == pytest.approx(4)
    # (2 · 40² + 8 · 4²)² / (2 · 40⁴ + 8 · 4⁴)
    assert worth(*[40] * 2, *[4] * 8) == pytest.approx(3328**2 / (2 * 40**4 + 8 * 4**4))
    assert worth(1000, 1) == pytest.approx(1, abs=1e-4)


def test_a_bootstrap_of_two_to_seven_documents_says_nothing() -> None:
    names = [str(row // 12) for row in range(84)]
    tasks = [str(row) for row in range(84)]
    found = Intervals(names, tasks, resamples=30, confidence=0.95, seed=0).estimate(
        lambda rows: float(np.mean(rows))
    )
    assert (found.low, found.high, found.unit) == (None, None, None)
