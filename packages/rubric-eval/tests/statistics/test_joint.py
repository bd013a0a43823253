from __future__ import annotations

import numpy as np
import pytest

from rubric_eval.statistics.bootstrap import Sample, joint_draws


def _names(start: int, stop: int) -> list[str]:
    return [f"q{number}" for number in range(start, stop)]


def _spread(samples: list[Sample]) -> float:
    return float(joint_draws(samples, resamples=4000, seed=1).std())


def test_the_same_items_twice_spread_twice_as_far() -> None:
    x_N = np.random.default_rng(0).random(50)
    alone = _spread([Sample(x_N, _names(0, 50))])
    assert alone == pytest.approx(x_N.std() / np.sqrt(50), rel=0.05)
    twice = [Sample(x_N, _names(0, 50)), Sample(x_N, _names(0, 50))]
    assert _spread(twice) == pytest.approx(2 * alone, rel=0.05)
    apart = [Sample(x_N, _names(0, 50)), Sample(x_N, _names(50, 100))]
    assert _spread(apart) == pytest.approx(np.sqrt(2) * alone, rel=0.05)


def test_samples_linked_by_a_third_are_drawn_together() -> None:
    x_N = np.random.default_rng(0).random(60)
    parts = [Sample(x_N[:30], _names(0, 30)), Sample(x_N[30:], _names(30, 60))]
    whole = Sample(x_N, _names(0, 60))
    # The mean of the halves is that of the whole, up to how many of each are drawn.
    assert _spread([*parts, whole]) == pytest.approx(3 * _spread([whole]), rel=0.1)


def test_clusters_are_drawn_whole() -> None:
    x_N = np.repeat(np.random.default_rng(0).random(20), 3)
    documents = [f"d{number // 3}" for number in range(60)]
    assert _spread([Sample(x_N, documents)]) == pytest.approx(x_N.std() / np.sqrt(20), rel=0.05)


def test_a_draw_that_leaves_a_mean_without_values_is_none() -> None:
    samples = [Sample(np.ones(40), _names(0, 40)), Sample(np.full(2, 0.5), _names(0, 2))]
    draws = joint_draws(samples, resamples=500, seed=0)
    assert 0 < draws.size < 500
    assert np.all(draws == 1.5)
