import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rubric_judge.errors import SampleShapeError
from rubric_judge.statistics import bootstrap
from rubric_judge.statistics.bootstrap import Bootstrap, bootstrap_mean
from rubric_judge.statistics.means import mean_estimate

values = st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=2, max_size=20)


def _ratio(sums: np.ndarray, counts: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.sum(sums, axis=axis) / np.sum(counts, axis=axis)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("n", [7, 40, 300])
def test_limits_are_scipys_bca(n: int, confidence: float) -> None:
    x_N = np.random.default_rng(n).gamma(1.0, 0.3, size=n)
    wanted = stats.bootstrap(
        (x_N,),
        np.mean,
        n_resamples=1999,
        confidence_level=confidence,
        method="BCa",
        rng=np.random.default_rng(3),
    ).confidence_interval
    assert bootstrap_mean(x_N, resamples=1999, seed=3).limits(
        confidence
    ) == pytest.approx((wanted.low, wanted.high), abs=1e-9)


def test_limits_by_document_are_scipys_bca_of_a_ratio() -> None:
    rng = np.random.default_rng(4)
    documents = [f"d{number}" for number in rng.integers(0, 25, size=120)]
    x_N = rng.random(120)
    names, of_N = np.unique(documents, return_inverse=True)
    data = (np.bincount(of_N, weights=x_N), np.bincount(of_N).astype(float))
    wanted = stats.bootstrap(
        data,
        _ratio,
        paired=True,
        n_resamples=1999,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    found = bootstrap_mean(x_N, documents, resamples=1999)
    assert found.clusters == len(names)
    assert found.limits(0.95) == pytest.approx((wanted.low, wanted.high), abs=1e-9)


@settings(deadline=None)
@given(x_N=values)
def test_documents_of_one_question_each_are_no_documents(x_N: list[float]) -> None:
    names = [f"d{number}" for number in range(len(x_N))]
    assert mean_estimate(x_N, clusters_N=names, resamples=199) == mean_estimate(
        x_N, resamples=199
    )


def test_a_document_counts_once_however_often_its_question_is_repeated() -> None:
    x_N = np.random.default_rng(0).random(30)
    once = mean_estimate(x_N, clusters_N=[f"d{i}" for i in range(30)])
    ten_times = mean_estimate(
        np.repeat(x_N, 10), clusters_N=[f"d{i // 10}" for i in range(300)]
    )
    as_if_independent = mean_estimate(np.repeat(x_N, 10))
    assert ten_times.low == pytest.approx(once.low, abs=0.02)
    assert ten_times.high == pytest.approx(once.high, abs=0.02)
    assert as_if_independent.low is not None
    assert once.low is not None
    assert as_if_independent.low > once.low + 0.05


def test_one_document_leaves_the_spread_unknown() -> None:
    found = mean_estimate([0.1, 0.5, 0.9], clusters_N=["d", "d", "d"])
    assert (found.value, found.low, found.high, found.n) == (0.5, None, None, 3)


def test_clusters_of_another_number_are_refused() -> None:
    with pytest.raises(SampleShapeError, match="got 2 values and 1 clusters"):
        bootstrap_mean(np.array([0.1, 0.2]), ["d"])
    with pytest.raises(SampleShapeError, match="got 2 values and 3 clusters"):
        mean_estimate([0.1, None], clusters_N=["d", "e", "f"])


@settings(deadline=None, max_examples=200)
@given(x_N=values, confidence=st.floats(0.5, 0.995))
def test_the_p_value_and_the_limits_decide_alike(
    x_N: list[float], confidence: float
) -> None:
    found = bootstrap_mean(np.round(x_N, 3), resamples=499)
    limits = found.expanded_limits(confidence)
    assert limits is not None
    leaves_0_out = limits[0] > 0 or limits[1] < 0
    p_value = found.p_value()
    if p_value < 1 - confidence:
        assert leaves_0_out
    elif p_value > 2.0 ** (1 - found.clusters) and _reaches_beyond_0(found):
        assert not leaves_0_out


def _reaches_beyond_0(found: Bootstrap) -> bool:
    """Whether enough draws lie on either side, so that no share of them is rounded up."""
    return min(np.sum(found.draws < 0), np.sum(found.draws > 0)) > 5


def _lowest_p(found: Bootstrap) -> float:
    """What no draw beyond 0 gives."""
    z = stats.norm.isf(1 / (found.draws.size + 1))
    n = found.clusters
    return float(2 * stats.t.sf(z * np.sqrt((n - 1) / n), n - 1))


def test_expanded_limits_are_near_the_t_interval() -> None:
    x_N = np.random.default_rng(3).normal(0.5, 0.1, size=10)
    half = stats.t.isf(0.025, 9) * x_N.std(ddof=1) / np.sqrt(10)
    found = bootstrap_mean(x_N)
    wide, narrow = found.expanded_limits(0.95), found.limits(0.95)
    assert wide is not None
    assert narrow is not None
    assert (wide[1] - wide[0]) / 2 == pytest.approx(half, rel=0.1)
    assert (narrow[1] - narrow[0]) / 2 < 0.9 * half


def test_expansion_vanishes_for_many_documents() -> None:
    found = bootstrap_mean(np.random.default_rng(3).random(2000), resamples=999)
    assert found.expanded_limits(0.95) == pytest.approx(found.limits(0.95), abs=1e-4)


def test_the_p_value_is_near_that_of_the_t_test_for_many_values() -> None:
    x_N = np.random.default_rng(6).normal(0.1, 1.0, size=500)
    wanted = stats.ttest_1samp(x_N, 0.0).pvalue
    found = bootstrap_mean(x_N, resamples=50_000).p_value()
    assert 0.001 < found < 0.2
    assert found == pytest.approx(wanted, rel=0.15)


def test_few_documents_prove_nothing_even_if_all_agree() -> None:
    x_N = np.array([0.3, 0.4, 0.5, 0.35])
    assert bootstrap_mean(x_N).p_value() == 1 / 8
    assert bootstrap_mean(np.full(4, 0.3)).p_value() == 1 / 8
    assert bootstrap_mean(np.zeros(4)).p_value() == 1.0
    assert bootstrap_mean(np.array([0.3])).p_value() == 1.0


def test_a_p_value_is_no_smaller_than_the_draws_can_show() -> None:
    x_N = np.random.default_rng(1).normal(5.0, 1.0, size=50)
    found = bootstrap_mean(x_N, resamples=999)
    assert found.p_value() == pytest.approx(_lowest_p(found))
    assert 2 / 1000 < found.p_value() < 5 / 1000


def test_draws_are_made_in_portions_without_another_result() -> None:
    x_N = np.random.default_rng(2).random(3000)
    in_portions = bootstrap_mean(x_N, resamples=9999)
    wanted = x_N.std() / np.sqrt(3000)
    assert isinstance(in_portions, Bootstrap)
    assert in_portions.draws.size == 9999
    assert in_portions.draws.std() == pytest.approx(wanted, rel=0.03)


@pytest.mark.parametrize("limits", [{"_DRAWN_AT_ONCE": 40}, {"_ADDED_UP": 5}])
def test_draws_are_those_of_plain_addition_all_at_once(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    of_clusters_VC = np.random.default_rng(0).random((3, 17))
    plain = bootstrap.drawn_sums(of_clusters_VC, resamples=50, seed=4)
    for name, limit in limits.items():
        monkeypatch.setattr(bootstrap, name, limit)
    assert bootstrap.drawn_sums(of_clusters_VC, resamples=50, seed=4) == pytest.approx(
        plain
    )
