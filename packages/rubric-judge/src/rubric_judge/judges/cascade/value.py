"""The worth of a strong verdict in a group: what the group's advantages gain by it.

The axes are G responses and M criteria. A cell is one criterion of one response; its value is the
strong judge's score as a share of the weight, known or expected.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rubric_core.arrays import BoolArray, FloatArray
from rubric_core.errors import RewardError

_ROUNDING = 1e-12
_NO_SPREAD = 1e-9
"""Spread of rewards that are not expected to differ: by 10⁻⁵ at most."""
_SUREST = 1e-9


class Costs(NamedTuple):
    """Prices of asking the strong judge, in any unit: only their ratio counts."""

    call: float
    """Price of a call, whatever it asks for: prompt and response, where no prefix is shared."""
    cell: float
    """Price of each criterion in a call: the criterion and what is answered to it."""


class Moments(NamedTuple):
    """Expected spread of a group's rewards: squares, summed over its responses."""

    signal: float
    """S²: spread of the expected rewards."""
    noise: float
    """N: spread of what is not known of them."""

    @property
    def spread(self) -> float:
        """S² + N: the expected spread of the fully judged rewards, whatever is known of them."""
        return self.signal + self.noise


def moments(
    mean_GM: FloatArray,
    variance_GM: FloatArray,
    alpha_M: FloatArray,
    *,
    sum_variance_M: FloatArray | None = None,
    together: float = 0.0,
) -> Moments:
    """Return the expected spread of a group's rewards, known and unknown.

        r_i = Σ_j α_j m_ij,   S² = Σ_i (r_i − r̄)²,   N = Σ_j α_j² (Σ_i v_ij − Var(Σ_i z_ij) / G)

    With independent errors N = (1 − 1/G) Σ_ij α_j² v_ij, and a verdict moves α_j² v_ij (1 − 1/G)
    from N to S², on average: their sum stays what it is. Errors on a response's criteria that
    correlate by ρ add (1 − 1/G) ρ Σ_i Σ_{j≠k} α_j α_k √(v_ij v_ik).

    Args:
        mean_GM: shape [G, M], expected values m of the cells, in [0, 1].
        variance_GM: shape [G, M], their variances v, in [0, ¼]; 0 for a cell that is known.
        alpha_M: shape [M], shares α of the rubric's weight.
        sum_variance_M: shape [M], variance of the sum over responses of each criterion's cells;
            None for Σ_i v_ij, of independent errors. What all responses share is in no advantage.
        together: ρ in [0, 1), correlation of the errors on two criteria of one response.

    Raises:
        RewardError: shapes that do not fit, or a value out of bounds.

    Source: law of total variance.
    """
    _check(mean_GM, variance_GM, alpha_M)
    rewards_G = mean_GM @ alpha_M
    signal = float(((rewards_G - rewards_G.mean()) ** 2).sum())
    variance_M: FloatArray = variance_GM.sum(axis=0)
    of_sum_M = variance_M if sum_variance_M is None else sum_variance_M
    noise_M = np.maximum(variance_M - of_sum_M / len(mean_GM), 0.0)
    noise = float(noise_M @ alpha_M**2)
    if together > 0:
        error_GM = alpha_M * np.sqrt(variance_GM)
        pairs = float((error_GM.sum(axis=1) ** 2 - (error_GM**2).sum(axis=1)).sum())
        noise += (1 - 1 / len(mean_GM)) * together * pairs
    # Equal rewards are equal but for rounding.
    return Moments(signal if signal > _ROUNDING else 0.0, noise)


def expected_correlation(known: Moments) -> float:
    """Return the correlation expected between a group's advantages and the fully judged ones.

        ρ = √(S² / (S² + N))

    An advantage is a reward less its siblings' mean over the group's deviation, so that within a
    group advantages correlate as rewards do; the baseline and the divisor cancel.

    Args:
        known: the group's moments.

    Returns:
        Between 0 and 1: 1 where all is known, or nothing is expected to differ; 0 where nothing
        tells the responses apart yet.

    Source: classical test theory: the reliability index, root of true over observed variance.
    """
    if known.spread <= _NO_SPREAD:
        return 1.0
    return math.sqrt(known.signal / known.spread)


def worth(
    variance_GM: FloatArray, alpha_M: FloatArray, *, together: float = 0.0
) -> FloatArray:
    """Return what a verdict on each cell takes from the noise, but for 1 − 1/G.

        a_ij = α_j √v_ij,   (1 − ρ) a_ij² + ρ a_ij Σ_k a_ik

    With independent errors it is α_j² v_ij; what errors share is divided among a response's cells
    by their size. Over all cells it sums to the noise.

    Args:
        variance_GM: as `moments`.
        alpha_M: as `moments`.
        together: as `moments`.
    """
    error_GM = alpha_M * np.sqrt(variance_GM)
    of_response_G1 = error_GM.sum(axis=1, keepdims=True)
    return error_GM * ((1 - together) * error_GM + together * of_response_G1)


def needed_worth(known: Moments, *, target: float, responses: int) -> float:
    """Return the worth Σ α² v of the cells to ask for, so that ρ is expected to reach a target.

        Σ α_j² v_ij = (ρ*² (S² + N) − S²) / (1 − 1/G)

    Args:
        known: the group's moments.
        target: ρ*, in (0, 1).
        responses: G.

    Returns:
        The worth; 0 where the target is reached.
    """
    if known.spread <= _NO_SPREAD:
        return 0.0
    lacking = target**2 * known.spread - known.signal
    return max(lacking, 0.0) / (1 - 1 / responses)


def choose_cells(
    worth_GM: FloatArray, *, needed: float, costs: Costs, budget: float = math.inf
) -> BoolArray:
    """Choose the cells whose worth is needed, the greatest for its price first.

    A call for several criteria of a response pays its prompt once. The next call is the one that
    brings most for its price; to a response that is called already, a cell costs itself alone.

    Args:
        worth_GM: shape [G, M], α_j² v_ij; 0 for cells that are known.
        needed: worth to reach.
        costs: prices of calls and cells.
        budget: what may be spent, in the unit of `costs`.

    Returns:
        Shape [G, M]: whether the cell is to be asked for. Nothing whose price is above the budget.
    """
    chosen_GM = np.zeros(worth_GM.shape, dtype=np.bool_)
    is_called_G = np.zeros(len(worth_GM), dtype=np.bool_)
    if costs.call == 0:
        is_called_G[:] = True
    order_GM = np.argsort(-worth_GM, axis=1, kind="stable")
    sums_GM = np.cumsum(np.take_along_axis(worth_GM, order_GM, axis=1), axis=1)
    count_M = np.arange(1, worth_GM.shape[1] + 1, dtype=np.float64)
    prices_M = costs.call + costs.cell * count_M
    left = budget
    while needed > _ROUNDING:
        open_GM = np.where(chosen_GM, 0.0, worth_GM)
        single_GM = np.where(
            is_called_G[:, None] & (costs.cell <= left), open_GM, 0.0
        ) / max(costs.cell, _SUREST)
        called_GM = np.where(
            ~is_called_G[:, None] & (prices_M <= left), sums_GM / prices_M, 0.0
        )
        best_single = _best(single_GM)
        best_call = _best(called_GM)
        if max(single_GM[best_single], called_GM[best_call]) <= _ROUNDING:
            break
        if single_GM[best_single] >= called_GM[best_call]:
            cells = [best_single]
            left -= costs.cell
        else:
            response, last = best_call
            cells = [(response, int(m)) for m in order_GM[response, : last + 1]]
            is_called_G[response] = True
            left -= float(prices_M[last])
        for cell in cells:
            chosen_GM[cell] = True
            needed -= float(worth_GM[cell])
    return chosen_GM & (worth_GM > 0)


def price(chosen_GM: BoolArray, costs: Costs) -> float:
    """Return what it costs to ask for cells at once: a call for each response that has any."""
    calls = int(chosen_GM.any(axis=1).sum())
    return costs.call * calls + costs.cell * int(chosen_GM.sum())


def _best(values_GM: FloatArray) -> tuple[int, int]:
    place = np.unravel_index(int(values_GM.argmax()), values_GM.shape)
    return int(place[0]), int(place[1])


def _check(
    mean_GM: FloatArray, variance_GM: FloatArray, alpha_M: NDArray[np.float64]
) -> None:
    if mean_GM.ndim != 2 or not len(mean_GM):  # noqa: PLR2004  # responses and criteria
        raise RewardError(
            f"mean_GM must have shape [G, M] with G from 1 up, not {mean_GM.shape}"
        )
    if variance_GM.shape != mean_GM.shape or alpha_M.shape != mean_GM.shape[1:]:
        raise RewardError(
            f"variance_GM {variance_GM.shape} and alpha_M {alpha_M.shape} do not fit "
            f"mean_GM {mean_GM.shape}"
        )
    for name, array, highest in (
        ("mean_GM", mean_GM, 1.0),
        ("variance_GM", variance_GM, 0.25),
    ):
        if not ((array >= 0) & (array <= highest + _SUREST)).all():
            raise RewardError(f"{name} must be in [0, {highest:g}]")
