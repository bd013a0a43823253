"""Masked and weighed-down criteria, and scores corrected for a judge's errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    Criterion,
    JudgeResult,
    Reason,
    RewardError,
    Rubric,
    admitted_result,
    admitted_rubric,
    criterion_scores_z,
    normalized_reward,
    unbiased_z,
)
from rubric_core.errors import RewardShapeError

RUBRIC = Rubric(
    criteria=(
        Criterion(id="a", weight=3.0),
        Criterion(id="b", weight=2.0),
        Criterion(id="c", weight=1.0),
        Criterion(id="note", weight=0.0),
    )
)
RESULT = JudgeResult.scored(
    RUBRIC, {"a": 1.5, "b": 2.0, "c": 0.0, "note": 0.0}, judge="x"
)

weights = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6)


def _reward(result: JudgeResult, rubric: Rubric, factors: dict[str, float]) -> float:
    return normalized_reward(
        admitted_result(result, factors), admitted_rubric(rubric, factors)
    )


def test_a_masked_criterion_leaves_its_weight_to_the_others() -> None:
    assert _reward(RESULT, RUBRIC, {"b": 0.0}) == 1.5 / 4
    masked = admitted_rubric(RUBRIC, {"b": 0.0})
    assert masked.shares_M.tolist() == [0.75, 0.0, 0.25, 0.0]
    assert masked.effective_criteria == pytest.approx(16 / 10)
    assert np.isnan(criterion_scores_z(admitted_result(RESULT, {"b": 0.0}), masked)[1])


def test_half_a_weight_counts_half() -> None:
    assert _reward(RESULT, RUBRIC, {"b": 0.5}) == (1.5 + 1.0) / 5


@given(weights, st.data())
def test_factors_of_1_give_the_reward_itself_to_the_last_bit(
    w_M: list[float], data: st.DataObject
) -> None:
    rubric = Rubric(
        criteria=tuple(Criterion(id=f"c{j}", weight=w) for j, w in enumerate(w_M))
    )
    scores = {f"c{j}": data.draw(st.floats(0, 1)) * w for j, w in enumerate(w_M)}
    result = JudgeResult.scored(rubric, scores, judge="x")
    for factors in ({}, dict.fromkeys(rubric.ids, 1.0)):
        assert admitted_rubric(rubric, factors) == rubric
        assert _reward(result, rubric, factors) == normalized_reward(result, rubric)


@given(weights, st.data())
def test_masking_is_the_rubric_without_the_criterion(
    w_M: list[float], data: st.DataObject
) -> None:
    criteria = tuple(Criterion(id=f"c{j}", weight=w) for j, w in enumerate([*w_M, 2.0]))
    scores = {one.id: data.draw(st.floats(0, 1)) * one.weight for one in criteria}
    whole, less = Rubric(criteria=criteria), Rubric(criteria=criteria[:-1])
    masked = _reward(
        JudgeResult.scored(whole, scores, judge="x"), whole, {criteria[-1].id: 0.0}
    )
    kept = {name: scores[name] for name in less.ids}
    assert masked == normalized_reward(JudgeResult.scored(less, kept, judge="x"), less)


def test_a_failure_stays_what_it_is() -> None:
    factors = {"b": 0.0}
    assert _reward(JudgeResult.invalid(Reason.NOT_JSON), RUBRIC, factors) == 0.0
    lost = admitted_result(JudgeResult.unavailable(Reason.TIMEOUT), factors)
    assert lost == JudgeResult.unavailable(Reason.TIMEOUT)


def test_a_rubric_without_weight_is_refused_by_the_names_of_its_criteria() -> None:
    with pytest.raises(
        RewardError, match=r"every criterion with weight is masked \(a, b, c\)"
    ):
        admitted_rubric(RUBRIC, {"a": 0.0, "b": 0.0, "c": 0.0})


@pytest.mark.parametrize("factor", [-0.1, 1.1, float("nan")])
def test_a_factor_beyond_its_bounds_is_refused(factor: float) -> None:
    with pytest.raises(RewardError, match="factor of 'a'"):
        admitted_rubric(RUBRIC, {"a": factor})


rates = st.floats(0, 1)


@given(rates, rates, st.sampled_from([0.0, 1.0]))
def test_corrected_scores_have_the_label_as_their_mean(
    tpr: float, fpr: float, label: float
) -> None:
    if tpr - fpr < 0.01:
        return
    met = tpr if label else fpr
    low, high = (float(unbiased_z([z], [tpr], [fpr])[0]) for z in (0.0, 1.0))
    assert (1 - met) * low + met * high == pytest.approx(label, abs=1e-9)


def test_corrected_scores_of_drawn_verdicts_average_to_the_labels() -> None:
    rng = np.random.default_rng(3)
    tpr_M, fpr_M = np.array([0.8, 0.95, 0.6]), np.array([0.5, 0.1, 0.3])
    labels = rng.random((20_000, 3)) < [0.2, 0.5, 0.9]
    verdicts = rng.random(labels.shape) < np.where(labels, tpr_M, fpr_M)
    found = np.array([unbiased_z(z_M, tpr_M, fpr_M) for z_M in verdicts.astype(float)])
    assert found.mean(axis=0) == pytest.approx(labels.mean(axis=0), abs=0.04)
    assert abs(verdicts.mean(axis=0) - labels.mean(axis=0)).max() > 0.2


def test_a_judge_without_errors_is_left_alone() -> None:
    z = unbiased_z([0.0, 1.0, 0.3, np.nan], [1, 1, np.nan, 1], [0, 0, np.nan, 0])
    assert z[:3].tolist() == [0.0, 1.0, 0.3]
    assert np.isnan(z[3])


def test_worked_numbers() -> None:
    assert unbiased_z([0.4, 0.5], [0.805] * 2, [0.565] * 2) == pytest.approx(
        [-0.565 / 0.24, 0.435 / 0.24]
    )


def test_a_judge_that_tells_nothing_cannot_be_corrected() -> None:
    with pytest.raises(RewardError, match=r"FPR\[1\] is 0.0, not above 0: mask"):
        unbiased_z([1, 1], [0.9, 0.5], [0.1, 0.5])
    with pytest.raises(RewardShapeError, match=r"must be \[M\]"):
        unbiased_z([1, 1], [0.9], [0.1])


@pytest.mark.parametrize("wrong", [np.inf, 1.5, -0.5])
@pytest.mark.parametrize("place", range(3))
def test_scores_and_rates_outside_of_their_range_are_refused(
    wrong: float, place: int
) -> None:
    values = [[0.5], [0.9], [0.1]]
    values[place] = [wrong]
    with pytest.raises(RewardError, match=r"_M\[0\] is .*, not in \[0, 1\]"):
        unbiased_z(*values)
