import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rubric_judge.errors import SampleShapeError
from rubric_judge.statistics.paired import Correction, decide

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def test_holm_of_a_worked_example() -> None:
    decisions = decide([0.01, 0.04, 0.03, 0.005], Correction.HOLM)
    assert [one.p_adjusted for one in decisions] == pytest.approx(
        [0.03, 0.06, 0.06, 0.02]
    )
    assert [one.is_significant for one in decisions] == [True, False, False, True]
    assert [one.level for one in decisions] == pytest.approx(
        [0.05 / 3, 0.025, 0.025, 0.0125]
    )


def test_bh_of_a_worked_example() -> None:
    decisions = decide([0.01, 0.04, 0.03, 0.2], Correction.BH)
    assert [one.p_adjusted for one in decisions] == pytest.approx(
        [0.04, 0.16 / 3, 0.16 / 3, 0.2]
    )
    assert [one.is_significant for one in decisions] == [True, False, False, False]
    assert [one.level for one in decisions] == pytest.approx(
        [0.0125, 0.025, 0.025, 0.025]
    )


@given(p_M=p_values)
def test_holm_is_between_none_and_bonferroni(p_M: list[float]) -> None:
    decisions = decide(p_M, Correction.HOLM)
    for p, one in zip(p_M, decisions, strict=True):
        assert p <= one.p_adjusted <= min(1.0, p * len(p_M)) + 1e-15
    assert min(one.p_adjusted for one in decisions) == min(1.0, min(p_M) * len(p_M))


@given(p_M=p_values)
def test_bh_is_scipys(p_M: list[float]) -> None:
    adjusted = [one.p_adjusted for one in decide(p_M, Correction.BH)]
    assert adjusted == pytest.approx(stats.false_discovery_control(p_M))


@pytest.mark.parametrize("correction", Correction)
@given(p_M=p_values, alpha=st.floats(0.01, 0.2))
def test_the_level_that_decided_decides_the_single_test_alike(
    correction: Correction, p_M: list[float], alpha: float
) -> None:
    for p, one in zip(p_M, decide(p_M, correction, alpha=alpha), strict=True):
        if not np.isclose(p, one.level, rtol=1e-12):
            assert (p < one.level) == one.is_significant
        assert one.is_significant == (one.p_adjusted < alpha)
        assert 0 < one.level <= alpha * (1 + 1e-12)


@pytest.mark.parametrize("correction", Correction)
@given(p_M=p_values, seed=st.integers(0, 5))
def test_the_order_of_the_tests_is_irrelevant(
    correction: Correction, p_M: list[float], seed: int
) -> None:
    order = np.random.default_rng(seed).permutation(len(p_M))
    shuffled = decide([p_M[at] for at in order], correction)
    straight = decide(p_M, correction)
    assert [one.p_adjusted for one in shuffled] == pytest.approx(
        [straight[at].p_adjusted for at in order]
    )


@pytest.mark.parametrize("correction", Correction)
def test_a_single_test_needs_no_correction(correction: Correction) -> None:
    (one,) = decide([0.04], correction)
    assert (one.p_adjusted, one.is_significant, one.level) == (0.04, True, 0.05)


@pytest.mark.parametrize("correction", Correction)
def test_no_test_gives_no_decision(correction: Correction) -> None:
    assert decide([], correction) == []


@pytest.mark.parametrize("correction", Correction)
@pytest.mark.parametrize("wrong", [float("nan"), 1.5, -0.1])
def test_a_p_value_that_is_none_is_refused(
    correction: Correction, wrong: float
) -> None:
    with pytest.raises(SampleShapeError, match=r"p-values must be in \[0, 1\]"):
        decide([0.01, wrong, 0.5], correction)
