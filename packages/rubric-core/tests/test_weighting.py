"""Weights that change from group to group, against loops in plain Python."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rubric_core import RewardError, group_advantages
from rubric_core.reward.weighting import (
    contrast_factors,
    kept_criteria,
    moved_shares,
)

scores = st.sampled_from([0.0, 0.25, 0.5, 1.0])
shapes = st.tuples(st.integers(1, 3), st.integers(2, 6), st.integers(1, 5))


@st.composite
def groups(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, weights and which responses count; some weights are 0, never all of a rubric."""
    shape = draw(shapes)
    z_PGM = draw(hnp.arrays(np.float64, shape, elements=scores))
    sizes = (shape[0], shape[2])
    weights_PM = draw(
        hnp.arrays(np.float64, sizes, elements=st.sampled_from([0.0, 1, 2, 5]))
    )
    weights_PM[:, 0] = np.maximum(weights_PM[:, 0], 1)
    valid_PG = draw(hnp.arrays(np.bool_, shape[:2]))
    z_PGM[~valid_PG] = np.nan
    return z_PGM, weights_PM, valid_PG


def _slow_factors(
    z_GM: np.ndarray,
    weights_M: np.ndarray,
    valid_G: np.ndarray,
    least: float,
    most: float,
) -> list[float]:
    taken = [row for row, valid in zip(z_GM.tolist(), valid_G, strict=True) if valid]
    contrasts = [
        statistics.pstdev(row[j] for row in taken) if len(taken) > 1 and w > 0 else 0.0
        for j, w in enumerate(weights_M)
    ]
    total = sum(weights_M)
    mean = math.fsum(w / total * c for w, c in zip(weights_M, contrasts, strict=True))
    return [
        min(max(c / mean, least), most) if mean > 0 and w > 0 else 1.0
        for w, c in zip(weights_M, contrasts, strict=True)
    ]


@given(groups(), st.sampled_from([0.05, 0.5, 1.0]), st.sampled_from([1.0, 2.0, 100.0]))
def test_factors_are_clipped_ratios_of_deviations(
    group: tuple[np.ndarray, np.ndarray, np.ndarray], least: float, most: float
) -> None:
    z_PGM, weights_PM, valid_PG = group

    factors_PM = contrast_factors(
        z_PGM, weights_PM, least=least, most=most, valid_PG=valid_PG
    )

    for p, weights_M in enumerate(weights_PM):
        slow = _slow_factors(z_PGM[p], weights_M, valid_PG[p], least, most)
        np.testing.assert_allclose(factors_PM[p], slow, rtol=1e-12)


def test_worked_factors_of_a_saturated_and_two_live_criteria() -> None:
    z_PGM = [[[1, 0, 0.5], [1, 1, 0.5], [1, 0, 1], [1, 1, 1]]]

    factors_PM = contrast_factors(z_PGM, [[2, 1, 1]], least=0.1, most=10)

    # Deviations 0, ½ and ¼; their mean by weight is 3/16.
    np.testing.assert_allclose(factors_PM, [[0.1, 8 / 3, 4 / 3]])
    np.testing.assert_allclose(
        moved_shares([[2, 1, 1]], factors_PM), [[0.2 / 4.2, 8 / 12.6, 4 / 12.6]]
    )


def test_a_saturated_group_keeps_its_shares_to_the_last_bit() -> None:
    weights_PM = np.array([[0.1, 0.7, 3.0]])
    factors_PM = contrast_factors(
        np.full((1, 4, 3), 0.3), weights_PM, least=0.1, most=4
    )

    assert (factors_PM == 1).all()
    assert (moved_shares(weights_PM, factors_PM) == weights_PM / weights_PM.sum()).all()


@example(264)
@given(st.integers(0, 2**32 - 1))
def test_dead_weight_cancels_with_the_divisor_and_shrinks_advantages_without(
    seed: int,
) -> None:
    draw = np.random.default_rng(seed)
    met_G = np.tile([0.0, 1.0], 3)
    live_GM = np.stack([draw.permutation(met_G), draw.permutation(met_G)], axis=1)
    weights_M = draw.uniform(0.5, 3, 4)
    dead_GM = np.broadcast_to(draw.random(2), (6, 2))
    z_PGM = np.concatenate([live_GM, dead_GM], axis=1)[None]
    factors_PM = contrast_factors(z_PGM, [weights_M], least=0.1, most=100)
    alpha_M = weights_M / weights_M.sum()
    moved_M = moved_shares([weights_M], factors_PM)[0]

    # The usual stabiliser would show where the spread is small.
    with_divisor = [
        group_advantages(z_PGM @ one, delta=1e-14) for one in (alpha_M, moved_M)
    ]
    np.testing.assert_allclose(with_divisor[0], with_divisor[1], atol=1e-6)
    without = [group_advantages(z_PGM @ one, std="none") for one in (alpha_M, moved_M)]
    grown = moved_M[0] / alpha_M[0]
    np.testing.assert_allclose(without[1], grown * without[0], atol=1e-12)
    assert grown > 1


def test_the_mean_reward_over_draws_is_the_rubrics_for_equal_weights() -> None:
    z_M = np.array([0.1, 0.9, 0.4, 1.0, 0.0])
    drawn = [
        kept_criteria(np.ones(5), dropout=0.5, generator=np.random.default_rng(seed))
        for seed in range(4000)
    ]

    out_S = np.array([5 - kept_M.sum() for kept_M in drawn])
    assert set(out_S.tolist()) == {2, 3}
    np.testing.assert_allclose(1 - np.mean(drawn, axis=0), 0.5, atol=0.03)
    for out in (2, 3):
        means = {
            tuple(kept_M.tolist()): z_M[kept_M].mean()
            for kept_M in drawn
            if 5 - kept_M.sum() == out
        }
        assert len(means) == math.comb(5, out), "every subset is drawn"
        assert np.mean(list(means.values())) == pytest.approx(z_M.mean())


@pytest.mark.parametrize("dropout", [0.0, 0.29, 0.5, 0.99])
@pytest.mark.parametrize("criteria", [1, 2, 100])
def test_so_many_criteria_are_left_out(dropout: float, criteria: int) -> None:
    expected = dropout * criteria
    for seed in range(20):
        generator = np.random.default_rng(seed)
        kept_M = kept_criteria([1.0] * criteria, dropout=dropout, generator=generator)
        out = int((~kept_M).sum())
        assert out <= criteria - 1
        allowed = {math.floor(expected + 1e-6), math.ceil(expected - 1e-6)}
        assert out in {min(one, criteria - 1) for one in allowed}


def test_criteria_without_weight_do_not_count() -> None:
    for seed in range(20):
        generator = np.random.default_rng(seed)
        kept_M = kept_criteria([0, 3, 0], dropout=0.9, generator=generator)
        assert kept_M.all(), "the one criterion with weight stays"


@pytest.mark.parametrize(
    "bounds", [(0.0, 2.0), (1.5, 2.0), (0.5, 0.9), (0.5, math.inf)]
)
def test_bounds_outside_their_range_are_refused(bounds: tuple[float, float]) -> None:
    least, most = bounds
    with pytest.raises(RewardError, match="must be"):
        contrast_factors([[[0.0], [1.0]]], [[1.0]], least=least, most=most)


@pytest.mark.parametrize("dropout", [1.0, -0.1, math.nan])
def test_a_dropout_of_all_or_less_than_nothing_is_refused(dropout: float) -> None:
    with pytest.raises(RewardError, match="dropout"):
        kept_criteria([1.0], dropout=dropout, generator=np.random.default_rng(0))


def test_factors_of_another_shape_or_of_nothing_are_refused() -> None:
    with pytest.raises(RewardError, match="shape"):
        moved_shares([[1.0, 2.0]], [[1.0]])
    with pytest.raises(RewardError, match="total"):
        moved_shares([[1.0, 2.0]], [[0.0, 0.0]])
