"""Figures of criteria within groups, held against a reference that loops and adds exactly."""

import math
from dataclasses import fields, replace
from statistics import stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rubric_core import RewardShapeError
from rubric_core.reward.criteria import (
    CellFigures,
    JudgedCells,
    cell_figures,
    pooled_figures,
    recomputed_credit,
)

Z = st.sampled_from([math.nan, 0.0, 0.25, 0.5, 1.0, 1.0, 1.0])


@st.composite
def judged(draw: st.DrawFn) -> JudgedCells:
    """Groups with padding, failures and missing scores, and their credit."""
    p, g, m = draw(st.tuples(st.integers(1, 3), st.integers(2, 5), st.integers(1, 4)))
    weights = draw(
        hnp.arrays(np.float64, (p, m), elements=st.sampled_from([0.0, 1, 3]))
    )
    weights[:, 0] += 1
    shares_PM = weights / weights.sum(axis=1, keepdims=True)
    valid_PG = draw(hnp.arrays(np.bool_, (p, g)))
    scored_PG = valid_PG & draw(hnp.arrays(np.bool_, (p, g)))
    z_PGM = draw(hnp.arrays(np.float64, (p, g, m), elements=Z))
    z_PGM[~scored_PG] = np.nan
    advantages_PG, split_PGM = recomputed_credit(z_PGM, shares_PM, valid_PG)
    tokens = st.sampled_from([math.nan, 0.0, 7.0, 120.0])
    return JudgedCells(
        z_PGM=z_PGM,
        shares_PM=shares_PM,
        scored_PG=scored_PG,
        valid_PG=valid_PG,
        advantages_PG=advantages_PG,
        attribution_PGM=split_PGM,
        tokens_PG=draw(hnp.arrays(np.float64, (p, g), elements=tokens)),
    )


def reference(cells: JudgedCells, p: int, m: int) -> dict[str, float]:
    """Compute one cell by loops, `statistics` and exact sums."""
    members = range(cells.z_PGM.shape[1])
    names = [f.name for f in fields(CellFigures) if f.name != "squares_P"]
    result = dict.fromkeys(names, 0.0)
    if not cells.shares_PM[p, m] > 0:
        return result
    z = {g: float(cells.z_PGM[p, g, m]) for g in members}
    scored = [g for g in members if cells.scored_PG[p, g] and not math.isnan(z[g])]
    valid = [g for g in members if cells.valid_PG[p, g]]
    values = [z[g] for g in scored]
    result["responses"] = len(values)
    result["score_sum"] = math.fsum(values)
    if len(values) > 1:
        mean = math.fsum(values) / len(values)
        same = len(set(values)) == 1
        result["compared"] = 1.0
        result["spread"] = 0.0 if same else stdev(values)
        result["constant"] = float(same)
        result["saturated"] = float(same and values[0] == 1)
        result["unmet"] = float(same and values[0] == 0)
        above = [] if same else [g for g in scored if z[g] > mean + 1e-9]
        result["above"] = len(above)
        result["held_down"] = sum(float(cells.advantages_PG[p, g]) <= 0 for g in above)
    result["carried"] = math.fsum(
        float(cells.attribution_PGM[p, g, m] * cells.advantages_PG[p, g]) for g in valid
    )
    # To the reward, no score is 0.
    result["idle"] = float(len({0.0 if math.isnan(z[g]) else z[g] for g in valid}) < 2)
    tokens = [float(cells.tokens_PG[p, g]) for g in valid]
    known = math.fsum(count for count in tokens if not math.isnan(count))
    result["tokens"] = known / int((cells.shares_PM[p] > 0).sum())
    result["idle_tokens"] = result["tokens"] * result["idle"]
    return result


@given(cells=judged())
def test_every_cell_is_that_of_the_slow_reference(cells: JudgedCells) -> None:
    figures = cell_figures(cells)

    for p, m in np.ndindex(*cells.shares_PM.shape):
        for name, value in reference(cells, p, m).items():
            assert getattr(figures, name)[p, m] == pytest.approx(
                value, rel=1e-12, abs=1e-12
            ), name


@given(cells=judged(), data=st.data())
def test_pools_are_ratios_of_exact_sums(
    cells: JudgedCells, data: st.DataObject
) -> None:
    figures = cell_figures(cells)
    shape = cells.shares_PM.shape
    pools = data.draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 2)))

    pooled = pooled_figures(figures, cells.shares_PM, pools, count=3)

    squares = math.fsum((cells.advantages_PG[cells.valid_PG] ** 2).tolist())
    for k in range(3):
        own = [
            place
            for place in np.ndindex(*shape)
            if pools[place] == k and cells.shares_PM[place] > 0
        ]

        def total(name: str, own: Any = own) -> float:
            return math.fsum(float(getattr(figures, name)[place]) for place in own)

        for name, over, under in (
            ("mean", total("score_sum"), total("responses")),
            ("spread", total("spread"), total("compared")),
            ("saturated", total("saturated"), total("compared")),
            ("unmet", total("unmet"), total("compared")),
            ("constant", total("constant"), total("compared")),
            ("held_down", total("held_down"), total("above")),
            ("gradient", total("carried"), squares),
        ):
            ratio = over / under if under else math.nan
            assert getattr(pooled, name)[k] == pytest.approx(
                ratio, rel=1e-12, abs=1e-12, nan_ok=True
            ), name
        assert pooled.groups[k] == total("compared")
        assert pooled.tokens[k] == pytest.approx(total("tokens"), rel=1e-12)


@given(cells=judged())
def test_the_parts_of_the_gradient_add_up_to_1(cells: JudgedCells) -> None:
    count = cells.shares_PM.size
    pools = np.arange(count).reshape(cells.shares_PM.shape)

    pooled = pooled_figures(cell_figures(cells), cells.shares_PM, pools, count=count)

    if (cells.advantages_PG != 0).any():
        parts = pooled.gradient[cells.shares_PM.ravel() > 0]
        assert math.fsum(parts.tolist()) == pytest.approx(1.0, abs=1e-12)
    else:
        assert np.isnan(pooled.gradient).all()


def test_worked_figures_of_three_criteria() -> None:
    # Four answers: the first criterion is met by all, the second by two, the third by the others,
    # of which the second has thrice the weight.
    z_GM = [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]
    shares_PM = np.array([[0.2, 0.6, 0.2]])
    valid_PG = np.ones((1, 4), dtype=np.bool_)
    advantages_PG, split_PGM = recomputed_credit([z_GM], shares_PM, valid_PG)
    cells = JudgedCells(
        z_PGM=np.array([z_GM]),
        shares_PM=shares_PM,
        scored_PG=valid_PG,
        valid_PG=valid_PG,
        advantages_PG=advantages_PG,
        attribution_PGM=split_PGM,
        tokens_PG=np.full((1, 4), 30.0),
    )

    pooled = pooled_figures(cell_figures(cells), shares_PM, [[0, 1, 2]], count=3)

    assert pooled.saturated.tolist() == pooled.constant.tolist() == [1.0, 0.0, 0.0]
    np.testing.assert_allclose(pooled.spread, [0, 3**-0.5, 3**-0.5])
    # Those that meet the third alone lose by the sum.
    np.testing.assert_array_equal(pooled.held_down, [np.nan, 0.0, 1.0])
    np.testing.assert_allclose(pooled.gradient, [0.0, 1.5, -0.5])
    assert pooled.tokens.tolist() == [40.0, 40.0, 40.0]
    assert pooled.idle_tokens.tolist() == [40.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("z_GM", "above"),
    [
        # Each answer has one of two equal criteria: the same reward, and no advantage.
        ([[1.0, 0.0], [0.0, 1.0]], 1.0),
        # Their reward is the mean of their siblings, and their advantage 10⁻¹⁶ in floats.
        ([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]], 2.0),
    ],
)
def test_who_does_better_on_a_criterion_is_held_down_by_a_tie_too(
    z_GM: list[list[float]], above: float
) -> None:
    z_PGM = np.array([z_GM])
    both = np.ones(z_PGM.shape[:2], dtype=np.bool_)
    shares_PM = np.full((1, 2), 0.5)
    advantages_PG, split_PGM = recomputed_credit(z_PGM, shares_PM, both)

    figures = cell_figures(
        JudgedCells(
            z_PGM=z_PGM,
            shares_PM=shares_PM,
            scored_PG=both,
            valid_PG=both,
            advantages_PG=advantages_PG,
            attribution_PGM=split_PGM,
            tokens_PG=np.zeros(both.shape),
        )
    )

    assert figures.above.tolist() == [[above, above]]
    assert figures.held_down.tolist() == [[1.0, 1.0]]


def test_a_constant_criterion_matters_beside_an_invalid_reply() -> None:
    # All scored answers meet it, and the invalid one counts 0 on it: it pushes them up.
    z_PGM = np.array([[[1.0], [1.0], [np.nan]]])
    valid_PG = np.ones((1, 3), dtype=np.bool_)
    shares_PM = np.ones((1, 1))
    advantages_PG, split_PGM = recomputed_credit(z_PGM, shares_PM, valid_PG)

    figures = cell_figures(
        JudgedCells(
            z_PGM=z_PGM,
            shares_PM=shares_PM,
            scored_PG=np.array([[True, True, False]]),
            valid_PG=valid_PG,
            advantages_PG=advantages_PG,
            attribution_PGM=split_PGM,
            tokens_PG=np.full((1, 3), 5.0),
        )
    )

    assert (figures.responses, figures.constant, figures.idle) == (2, 1, 0)
    assert figures.idle_tokens == 0


@given(cells=judged())
def test_unknown_advantages_are_no_verdict_on_who_is_held_down(
    cells: JudgedCells,
) -> None:
    unknown = replace(cells, advantages_PG=np.full_like(cells.advantages_PG, np.nan))

    held = cell_figures(unknown).held_down

    has_member_P = cells.valid_PG.any(axis=1)
    assert np.isnan(held[has_member_P]).all()


def test_axes_that_do_not_fit_are_refused() -> None:
    z_PGM = np.zeros((1, 2, 3))
    shape = z_PGM.shape[:2]
    cells = JudgedCells(
        z_PGM=z_PGM,
        shares_PM=np.ones((1, 2)),
        scored_PG=np.ones(shape, dtype=np.bool_),
        valid_PG=np.ones(shape, dtype=np.bool_),
        advantages_PG=np.zeros(shape),
        attribution_PGM=z_PGM,
        tokens_PG=np.zeros(shape),
    )

    with pytest.raises(RewardShapeError, match=r"shares_PM has shape \(1, 2\)"):
        cell_figures(cells)
    figures = cell_figures(replace(cells, shares_PM=np.ones((1, 3))))
    with pytest.raises(RewardShapeError, match="not in 0 to 1"):
        pooled_figures(figures, np.ones((1, 3)), [[0, 1, 2]], count=2)
    with pytest.raises(RewardShapeError, match="cells"):
        pooled_figures(figures, np.ones((1, 2)), [[0, 1]], count=2)
