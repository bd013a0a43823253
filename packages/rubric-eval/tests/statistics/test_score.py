import numpy as np
import pytest
from scipy import stats

from rubric_eval.statistics import (
    Interval,
    mean_interval,
    score_interval,
    wilson_interval,
)

NAMES = [f"q{number}" for number in range(20)]


def test_one_answer_an_item_has_wilsons_interval() -> None:
    right = [1.0] * 5 + [0.0] * 14 + [None]
    found = score_interval(right, clusters_N=NAMES, is_accuracy=True, answers=1)
    assert found == wilson_interval(5, 19)


@pytest.mark.parametrize(
    ("n", "least"),
    [(2, 0.95), (3, 0.95), (4, 0.95), (7, 0.95), (8, 0.91), (40, 0.925), (150, 0.93)],
)
def test_every_share_is_held_the_smallest_too(n: int, least: float) -> None:
    """Exact coverage; Wilson's own interval holds 83 % at the smallest shares."""
    found = [limits(wilson_interval(right, n)) for right in range(n + 1)]
    for share in np.linspace(0.002, 0.998, 250):
        chances = stats.binom.pmf(np.arange(n + 1), n, share)
        held = [low <= share <= high for low, high in found]
        assert chances[held].sum() >= least


def limits(found: Interval) -> tuple[float, float]:
    assert found.ci_low is not None
    assert found.ci_high is not None
    return found.ci_low, found.ci_high


@pytest.mark.parametrize("value", [0.0, 1.0, 0.4])
@pytest.mark.parametrize("is_accuracy", [True, False])
def test_equal_values_are_no_certainty(value: float, *, is_accuracy: bool) -> None:
    """Twenty documents: Wilson's limits at n = 20 and Student's t of 19 degrees of freedom."""
    found = score_interval(
        [value] * 20, clusters_N=NAMES, is_accuracy=is_accuracy, answers=3
    )
    q2 = stats.t.ppf(0.975, 19) ** 2 / 20
    if value == 0.0:
        assert limits(found) == pytest.approx((0.0, q2 / (1 + q2)))
    assert found.mean == value
    assert limits(found)[0] < limits(found)[1]


def test_rewards_have_wilsons_limits_at_what_their_spread_is_worth() -> None:
    rng = np.random.default_rng(0)
    x_N = (np.repeat(rng.random(30), 2) + rng.random(60)) / 2
    documents = [f"d{number // 2}" for number in range(60)]
    found = score_interval(x_N, clusters_N=documents, is_accuracy=False, answers=1)
    means_C = x_N.reshape(30, 2).mean(axis=1)
    for end in limits(found):
        spread = (
            np.var(means_C, ddof=1)
            / 30
            * end
            * (1 - end)
            / (x_N.mean() * (1 - x_N.mean()))
        )
        assert abs(end - x_N.mean()) == pytest.approx(
            stats.t.ppf(0.975, 29) * np.sqrt(spread)
        )


def test_four_documents_that_are_alike_by_chance_are_worth_eight_right_or_wrong_answers() -> (
    None
):
    x_N = np.array([0.0, 1.0, 0.5, 0.5, 0.25, 0.75, 0.1, 0.9])
    documents = [f"d{number // 2}" for number in range(8)]
    found = score_interval(x_N, clusters_N=documents, is_accuracy=False, answers=2)
    for end in limits(found):
        spread = end * (1 - end) / (4 * 2)  # C* max(1, C* min(x̄, 1 − x̄))
        assert abs(end - 0.5) == pytest.approx(stats.t.ppf(0.975, 3) * np.sqrt(spread))


@pytest.mark.parametrize(
    ("sizes", "beta"),
    [
        ([1] * 3, (3, 3)),
        ([1] * 4, (0.5, 3)),
        ([12] * 7, (3, 3)),
        ([1] * 12, (0.1, 1.9)),
        ([40] * 2 + [4] * 8, (3, 3)),
        ([1] * 80, (2, 2)),
    ],
    ids=["3", "4 skewed", "7 documents of 12", "12 sparse", "two large of ten", "80"],
)
def test_few_unequal_and_sparse_rewards_are_covered(
    sizes: list[int], beta: tuple[float, float]
) -> None:
    rng = np.random.default_rng(5)
    documents = np.repeat(np.arange(len(sizes)), sizes)
    held: list[bool] = []
    for _ in range(300):
        level_N = rng.beta(*beta, len(sizes))[documents]
        x_N = (rng.random((len(documents), 4)) < level_N[:, None]).mean(axis=1)
        found = score_interval(
            x_N, clusters_N=list(map(str, documents)), is_accuracy=False, answers=1
        )
        low, high = limits(found)
        held.append(low <= beta[0] / sum(beta) <= high)
    assert np.mean(held) >= 0.92  # three standard errors of .95 are .038


def test_one_document_says_nothing_of_the_spread() -> None:
    found = score_interval(
        [0.2, 0.9], clusters_N=["d", "d"], is_accuracy=False, answers=1
    )
    assert (found.ci_low, found.ci_high) == (None, None)


def test_a_mean_over_few_documents_is_covered_at_the_nominal_rate() -> None:
    rng = np.random.default_rng(4)
    found = [mean_interval(rng.random(10), resamples=999) for _ in range(400)]
    covered = [
        one.ci_low is not None
        and one.ci_high is not None
        and one.ci_low <= 0.5 <= one.ci_high
        for one in found
    ]
    assert np.mean(covered) >= 0.94  # limits that are not expanded cover 0.925 of these
