import numpy as np
import pytest

from rubric_judge.statistics.estimate import Estimate
from rubric_judge.statistics.means import mean_of_estimates, shared_correlations
from rubric_judge.statistics.paired import McNemarTest


def _part(mean: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(mean, low, high, 10)


def _limits(found: Estimate) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def test_independent_parts_of_a_worked_example() -> None:
    parts = [_part(0.3, 0.0, 0.5), _part(-0.1, -0.5, 0.05)]

    found = mean_of_estimates(parts, correlations_BB=np.eye(2))

    # √(.3² + .4²) / 2 below, √(.2² + .15²) / 2 above.
    assert (found.value, found.n) == (pytest.approx(0.1), 2)
    assert _limits(found) == pytest.approx((0.1 - 0.25, 0.1 + 0.125))


def test_two_benchmarks_on_which_nothing_differs_are_not_certain() -> None:
    low, high = McNemarTest(won=0, lost=0, n=8).limits(0.95)
    assert (low, high) == pytest.approx((-0.324, 0.324), abs=1e-3)

    found = mean_of_estimates([_part(0.0, low, high)] * 2, correlations_BB=np.eye(2))

    assert _limits(found) == pytest.approx((-0.229, 0.229), abs=1e-3)


def test_parts_that_agree_are_one_part() -> None:
    parts = [_part(0.3, 0.0, 0.5)] * 3

    found = mean_of_estimates(parts, correlations_BB=np.ones((3, 3)))

    assert _limits(found) == pytest.approx((0.0, 0.5))


def test_one_part_without_an_interval_leaves_the_average_without_one() -> None:
    parts = [_part(0.3, 0.0, 0.5), _part(0.1, None, None)]

    found = mean_of_estimates(parts, correlations_BB=np.eye(2))

    assert found == Estimate(0.2, n=2)


@pytest.mark.parametrize(
    ("sizes", "shares"),
    [
        ((40, 100, 198), (0.2, 0.1)),
        ((30, 30), (0.05, 0.05)),
        ((25, 400), (0.3, 0.0)),
        ((50, 50, 50, 50), (0.02, 0.0)),
    ],
)
def test_the_interval_covers_the_true_average(
    sizes: tuple[int, ...], shares: tuple[float, float]
) -> None:
    rng = np.random.default_rng(7)
    covered, runs = 0, 400
    won_share, lost_share = shares
    for _ in range(runs):
        parts: list[Estimate] = []
        for n in sizes:
            won, lost, _ = rng.multinomial(
                n, [won_share, lost_share, 1 - won_share - lost_share]
            )
            test = McNemarTest(int(won), int(lost), n)
            parts.append(_part(test.mean, *test.limits(0.95)))
        low, high = _limits(
            mean_of_estimates(parts, correlations_BB=np.eye(len(sizes)))
        )
        covered += low <= won_share - lost_share <= high

    # 95 % ± 3.3 standard errors; McNemar's own limits are wider than nominal for few differences.
    assert covered / runs > 0.914


def _names(start: int, stop: int) -> list[str]:
    return [f"q{number}" for number in range(start, stop)]


def test_means_correlate_by_the_items_that_they_share() -> None:
    x_N = np.random.default_rng(0).random(50)
    whole, half = (x_N, _names(0, 50)), (x_N[:25], _names(0, 25))

    rho_BB = shared_correlations([whole, half, (x_N, _names(50, 100))])

    # Of a mean and that of half of its items: √½, but for how the items fell.
    assert rho_BB[0, 1] == pytest.approx(np.sqrt(0.5), rel=0.1)
    assert rho_BB[0, 2] == rho_BB[1, 2] == 0
    assert (rho_BB == rho_BB.T).all()
    assert (np.diag(rho_BB) == 1).all()


def test_the_correlation_is_that_of_means_of_drawn_items() -> None:
    rng = np.random.default_rng(1)
    x_N = rng.integers(-1, 2, 120).astype(float)
    y_N = np.where(rng.random(80) < 0.7, x_N[40:], rng.integers(-1, 2, 80))

    rho_BB = shared_correlations([(x_N, _names(0, 120)), (y_N, _names(40, 120))])

    times_RN = rng.multinomial(120, np.full(120, 1 / 120), size=20_000)
    x_R = times_RN @ x_N / times_RN.sum(axis=1)
    y_R = times_RN[:, 40:] @ y_N / times_RN[:, 40:].sum(axis=1)
    assert rho_BB[0, 1] == pytest.approx(np.corrcoef(x_R, y_R)[0, 1], abs=0.03)


def test_items_of_one_document_move_a_mean_together() -> None:
    x_N = np.repeat([1.0, -1.0, 0.0, 0.5], 3)
    documents = [f"d{number // 3}" for number in range(12)]

    (_, rho), _ = shared_correlations([(x_N, documents), (x_N[::3], [*"abc", "d3"])])

    u_C = np.array([1.0, -1.0, 0.0, 0.5]) - 0.125
    assert rho == pytest.approx(3 * u_C[3] ** 2 / (3 * np.sum(u_C**2)))


def test_shared_items_that_do_not_spread_are_taken_to_agree() -> None:
    nothing = np.zeros(40)

    rho_BB = shared_correlations(
        [(nothing, _names(0, 40)), (nothing[:10], _names(0, 10))]
    )

    assert rho_BB[0, 1] == pytest.approx(np.sqrt(10 / 40))


def test_shared_items_that_disagree_narrow_nothing() -> None:
    x_N = np.random.default_rng(0).random(30)

    assert shared_correlations([(x_N, _names(0, 30)), (-x_N, _names(0, 30))])[0, 1] == 0
