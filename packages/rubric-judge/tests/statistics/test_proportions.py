import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rubric_judge.statistics.mcnemar import discordant_limits, mcnemar_p, tango_limits
from rubric_judge.statistics.shares import share_estimate


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 400))
    won = draw(st.integers(0, n))
    return won, draw(st.integers(0, n - won)), n


def test_wilson_of_a_worked_example() -> None:
    # The paper's GPQA Diamond: 48 of 198.
    found = share_estimate(48, 198)
    assert (found.low, found.high) == pytest.approx((0.188, 0.307), abs=5e-4)


@given(right=st.integers(4, 60), wrong=st.integers(4, 60))
def test_wilson_is_its_closed_form(right: int, wrong: int) -> None:
    n = right + wrong
    z, share = stats.norm.ppf(0.975), right / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    found = share_estimate(right, n)
    assert (found.value, found.n) == (share, n)
    assert found.low == pytest.approx(middle - half, abs=1e-12)
    assert found.high == pytest.approx(middle + half, abs=1e-12)


def test_no_right_answer_is_no_certainty() -> None:
    found = share_estimate(0, 20)
    assert found.low == 0.0
    assert found.high == pytest.approx(0.161, abs=1e-3)


@pytest.mark.parametrize(
    ("won", "lost", "p"),
    [(0, 0, 1.0), (5, 0, 0.0625), (6, 0, 0.03125), (10, 2, 158 / 4096)],
)
def test_mcnemar_by_hand(won: int, lost: int, p: float) -> None:
    assert mcnemar_p(won, lost) == pytest.approx(p)


@given(table=tables())
def test_mcnemar_is_symmetric(table: tuple[int, int, int]) -> None:
    won, lost, _ = table
    assert mcnemar_p(won, lost) == mcnemar_p(lost, won)


@given(table=tables(), confidence=st.floats(0.5, 0.999))
def test_discordant_limits_leave_out_0_where_mcnemar_rejects(
    table: tuple[int, int, int], confidence: float
) -> None:
    won, lost, n = table
    low, high = discordant_limits(won, lost, n, confidence=confidence)
    assert (low > 0 or high < 0) == (mcnemar_p(won, lost) < 1 - confidence)


def test_score_limits_of_a_published_example() -> None:
    # Tango (1998): one of 44 pairs differs.
    low, high = tango_limits(0, 1, 44, confidence=0.95)
    assert (low, high) == pytest.approx((-0.118, 0.061), abs=2e-3)


@given(table=tables(), confidence=st.floats(0.5, 0.999))
def test_score_limits_solve_their_equation(
    table: tuple[int, int, int], confidence: float
) -> None:
    won, lost, n = table
    found = (won - lost) / n
    low, high = tango_limits(won, lost, n, confidence=confidence)
    assert -1 <= low <= found <= high <= 1
    mirrored = tango_limits(lost, won, n, confidence=confidence)
    assert mirrored == pytest.approx((-high, -low), abs=1e-9)
    # Against a likelihood maximised by search, and not by the closed form.
    for limit in (low, high):
        if abs(limit) < 1:
            statistic = abs(won - lost - n * limit) / np.sqrt(
                n * _variance(won, lost, n, limit)
            )
            assert statistic == pytest.approx(
                stats.norm.ppf((1 + confidence) / 2), rel=1e-3
            )


def _variance(won: int, lost: int, n: int, delta: float) -> float:
    """2q + δ(1 − δ) at the most likely share q of lost items."""
    low, high = max(0.0, -delta), (1 - delta) / 2
    grid = np.linspace(low, high, 2001)
    for _ in range(3):
        with np.errstate(divide="ignore", invalid="ignore"):
            fit = (
                np.where(won > 0, won * np.log(grid + delta), 0.0)
                + np.where(lost > 0, lost * np.log(grid), 0.0)
                + np.where(
                    n > won + lost, (n - won - lost) * np.log(1 - 2 * grid - delta), 0.0
                )
            )
        best = int(np.nanargmax(fit))
        grid = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, 2000)], 2001)
    return float(2 * grid[1000] + delta * (1 - delta))
