"""Figures of each criterion within its groups: spread, ceiling, credit and cost.

A cell is one criterion of one group: all that a judge said about it there.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rubric_core import arrays
from rubric_core.arrays import BoolArray, FloatArray
from rubric_core.errors import RewardShapeError
from rubric_core.reward.attribution import criterion_attribution
from rubric_core.reward.inputs import Std


@dataclass(frozen=True)
class JudgedCells:
    """P groups of G responses, with up to M criteria each, and what training made of them."""

    z_PGM: FloatArray
    """Scores z_j = s_j / w_j; nan where there is none, which a reward counts as 0."""
    shares_PM: FloatArray
    """α_j ≥ 0; 0 for padding, and for criteria that are not in the reward."""
    scored_PG: BoolArray
    """Whether the judge gave scores: no response that failed is in a mean."""
    valid_PG: BoolArray
    """Whether the response took part in its group: scored, or invalid with reward 0."""
    advantages_PG: FloatArray
    """Advantages; nan where unknown."""
    attribution_PGM: FloatArray
    """Each criterion's part of the advantages; nan where unknown."""
    tokens_PG: FloatArray
    """Tokens of the judge for each response; nan where unknown."""


@dataclass(frozen=True)
class CellFigures:
    """Sums of each cell, all of shape [P, M] but one; zeros for criteria without weight."""

    responses: FloatArray
    """Number of scores."""
    score_sum: FloatArray
    """Σ z over them."""
    compared: FloatArray
    """1 where there are at least two scores to compare."""
    spread: FloatArray
    """Sample standard deviation of z in the group; 0 where not compared or constant."""
    constant: FloatArray
    """1 where compared and all z are equal within rounding."""
    saturated: FloatArray
    """1 where constant at 1."""
    unmet: FloatArray
    """1 where constant at 0."""
    above: FloatArray
    """Number of responses above their group's mean on the criterion."""
    held_down: FloatArray
    """Number of those whose advantage is not above 0, by more than rounding; nan where an advantage
    is unknown."""
    carried: FloatArray
    """Σ c_j A over the group: the criterion's part of Σ A²; nan where unknown."""
    tokens: FloatArray
    """Tokens of the judge; those of a call are divided equally among the criteria it scored."""
    idle: FloatArray
    """1 where the reward saw no difference: the cell cancels from every advantage of its group."""
    idle_tokens: FloatArray
    """Tokens spent on idle cells."""
    squares_P: FloatArray
    """Σ A² of each group, shape [P]; nan where unknown."""


def cell_figures(cells: JudgedCells) -> CellFigures:
    """Compute what each criterion did in each group.

        constant       max_g z − min_g z ≤ 64 ε
        spread         √(Σ_g (z − z̄)² / (n − 1))
        held down      z > z̄ and A ≤ 0
        carried        Σ_g c_j A       with Σ_j c_j = A, so that Σ_j Σ_g c_j A = Σ_g A²

    Scores are compared among responses that the judge scored. `idle` compares what the reward saw,
    where an invalid reply counts 0 on every criterion, and a response without siblings is idle.

    Args:
        cells: the groups; the arrays have the axes that their names end in.

    Returns:
        Sums of each cell.

    Raises:
        RewardShapeError: axes that do not fit together.
    """
    _check(cells)
    z = cells.z_PGM
    weighted_P1M = (cells.shares_PM > 0)[:, None, :]
    known = np.isfinite(z) & weighted_P1M
    scored = known & cells.scored_PG[:, :, None]
    count = scored.sum(axis=1)
    sums = z.sum(axis=1, where=scored)
    mean = sums / np.maximum(count, 1)
    compared: BoolArray = np.asarray(count > 1)
    constant: BoolArray = compared & ~_differ(z, scored)
    high = z.max(axis=1, where=scored, initial=-np.inf)
    low = z.min(axis=1, where=scored, initial=np.inf)
    deviation = np.where(scored, z - mean[:, None, :], 0.0)
    variance = (deviation**2).sum(axis=1) / np.maximum(count - 1, 1)
    above = (deviation > arrays.ROUNDING) & ~constant[:, None, :]
    not_up_PG = cells.advantages_PG <= arrays.ROUNDING
    down = (above & not_up_PG[:, :, None]).sum(axis=1)
    unknown_PG = cells.valid_PG & np.isnan(cells.advantages_PG)
    unknown_P1 = unknown_PG.any(axis=1, keepdims=True)
    seen = cells.valid_PG[:, :, None] & weighted_P1M
    idle = (cells.shares_PM > 0) & ~_differ(np.where(known, z, 0.0), seen)
    tokens = _token_parts(cells)
    advantages = np.where(cells.valid_PG, cells.advantages_PG, 0.0)
    parts = np.where(seen, cells.attribution_PGM, 0.0)
    return CellFigures(
        responses=count.astype(np.float64),
        score_sum=sums,
        compared=compared.astype(np.float64),
        spread=np.where(compared & ~constant, np.sqrt(variance), 0.0),
        constant=constant.astype(np.float64),
        saturated=(constant & (low >= 1 - arrays.ROUNDING)).astype(np.float64),
        unmet=(constant & (high <= arrays.ROUNDING)).astype(np.float64),
        above=above.sum(axis=1).astype(np.float64),
        held_down=np.where(unknown_P1, np.nan, down),
        carried=(parts * advantages[:, :, None]).sum(axis=1),
        tokens=tokens,
        idle=idle.astype(np.float64),
        idle_tokens=np.where(idle, tokens, 0.0),
        squares_P=(advantages**2).sum(axis=1),
    )


@dataclass(frozen=True)
class PooledFigures:
    """Figures of K pools of cells, each of shape [K]; nan where nothing tells."""

    groups: FloatArray
    """Number of cells with at least two scores."""
    responses: FloatArray
    """Number of scores."""
    share: FloatArray
    """Mean α_j of the cells."""
    mean: FloatArray
    """Mean z of all scores."""
    spread: FloatArray
    """Mean standard deviation of z within a group."""
    saturated: FloatArray
    """Share of groups in which every z is 1."""
    unmet: FloatArray
    """Share of groups in which every z is 0."""
    constant: FloatArray
    """Share of groups in which all z are equal, at any value: dead."""
    held_down: FloatArray
    """Share, of responses above their group's mean on the criterion, of those whose advantage is
    not above 0."""
    gradient: FloatArray
    """Σ c_j A / Σ A² over all groups: the part of the advantages' squares that the pool carries."""
    tokens: FloatArray
    """Tokens of the judge."""
    idle_tokens: FloatArray
    """Tokens of the judge that no advantage could depend on."""


def pooled_figures(
    cells: CellFigures, shares: ArrayLike, pools: ArrayLike, *, count: int
) -> PooledFigures:
    """Put cells together by pool.

    Args:
        cells: figures of cells; of shape [P, M], or flat, [N].
        shares: α_j of each cell, the same shape; cells of share 0 are left out.
        pools: int, the same shape; the pool of each cell, from 0 to count − 1.
        count: K.

    Returns:
        Figures of each pool.

    Raises:
        RewardShapeError: arrays of different shape, or a pool out of range.
    """
    alpha = arrays.float_array(shares, name="shares", axes=None)
    index: NDArray[np.intp] = np.asarray(pools, dtype=np.intp)
    if not alpha.shape == index.shape == cells.responses.shape:
        raise RewardShapeError(
            f"shares have shape {alpha.shape}, pools {index.shape}, cells "
            f"{cells.responses.shape}"
        )
    kept = alpha > 0
    index = index[kept]
    if index.size and not 0 <= index.min() <= index.max() < count:
        raise RewardShapeError(f"a pool is not in 0 to {count - 1}")

    def total(values: FloatArray) -> FloatArray:
        sums = np.bincount(index, weights=values[kept], minlength=count)
        return sums.astype(np.float64)

    groups = total(cells.compared)
    responses = total(cells.responses)
    return PooledFigures(
        groups=groups,
        responses=responses,
        share=_ratio(total(alpha), total(np.ones_like(alpha))),
        mean=_ratio(total(cells.score_sum), responses),
        spread=_ratio(total(cells.spread), groups),
        saturated=_ratio(total(cells.saturated), groups),
        unmet=_ratio(total(cells.unmet), groups),
        constant=_ratio(total(cells.constant), groups),
        held_down=_ratio(total(cells.held_down), total(cells.above)),
        gradient=_ratio(
            total(cells.carried), np.full(count, cells.squares_P.sum(), np.float64)
        ),
        tokens=total(cells.tokens),
        idle_tokens=total(cells.idle_tokens),
    )


def recomputed_credit(
    z_PGM: ArrayLike,
    shares_PM: ArrayLike,
    valid_PG: ArrayLike,
    *,
    std: Std = "sample",
    delta: float = 1e-8,
) -> tuple[FloatArray, FloatArray]:
    """Return advantages and their split by criterion, for logs that hold neither exactly.

    Args:
        z_PGM: scores; nan counts 0, as in a reward.
        shares_PM: α_j ≥ 0, each row with a positive sum.
        valid_PG: which responses take part.
        std: as for `criterion_attribution`.
        delta: as for `criterion_attribution`.

    Returns:
        Advantages [P, G] and contributions [P, G, M], which sum to them over M.

    Raises:
        RewardError: shares that no reward can be computed from, or fewer than two responses.
    """
    z = arrays.float_array(z_PGM, name="z_PGM", axes="PGM")
    attribution = criterion_attribution(
        np.where(np.isnan(z), 0.0, z),
        shares_PM,
        std=std,
        delta=delta,
        valid_PG=valid_PG,
    )
    return attribution.sum(axis=2), attribution


def _check(cells: JudgedCells) -> None:
    groups, members, criteria = cells.z_PGM.shape
    shapes = {
        "shares_PM": (cells.shares_PM, (groups, criteria)),
        "scored_PG": (cells.scored_PG, (groups, members)),
        "valid_PG": (cells.valid_PG, (groups, members)),
        "advantages_PG": (cells.advantages_PG, (groups, members)),
        "attribution_PGM": (cells.attribution_PGM, (groups, members, criteria)),
        "tokens_PG": (cells.tokens_PG, (groups, members)),
    }
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise RewardShapeError(
                f"{name} has shape {array.shape}, z_PGM has {cells.z_PGM.shape}"
            )


def _differ(z_PGM: FloatArray, taken_PGM: BoolArray) -> BoolArray:
    """Tell the cells whose taken scores differ by more than rounding, [P, M]."""
    high = z_PGM.max(axis=1, where=taken_PGM, initial=-np.inf)
    low = z_PGM.min(axis=1, where=taken_PGM, initial=np.inf)
    largest = np.abs(z_PGM).max(axis=1, where=taken_PGM, initial=1.0)
    return high - low > arrays.ROUNDING * largest


def _token_parts(cells: JudgedCells) -> FloatArray:
    """Divide each response's tokens equally among its criteria; sums over the group, [P, M]."""
    weighted = cells.shares_PM > 0
    known = np.isfinite(cells.tokens_PG) & cells.valid_PG
    tokens_P = cells.tokens_PG.sum(axis=1, where=known)
    criteria_P = np.maximum(weighted.sum(axis=1), 1)
    return np.where(weighted, (tokens_P / criteria_P)[:, None], 0.0)


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return the ratio, nan where the denominator is 0."""
    return np.divide(
        numerator,
        denominator,
        out=np.full(numerator.shape, np.nan),
        where=denominator != 0,
    )
