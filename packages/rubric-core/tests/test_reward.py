import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    Criterion,
    JudgeResult,
    Reason,
    RewardError,
    RewardShapeError,
    Rubric,
    SchemaError,
    UnavailableRewardError,
    criterion_scores_z,
    group_rewards,
    normalized_reward,
    project,
    raw_reward,
    reward_delta,
)
from rubric_core.reward.projection import OnUnavailable

Scored = tuple[Rubric, JudgeResult]


def scored(rubric: Rubric, *scores: float) -> JudgeResult:
    return JudgeResult.scored(
        rubric, dict(zip(rubric.ids, scores, strict=True)), judge="j"
    )


@st.composite
def judgements(draw: st.DrawFn, *, lightest: float = 1e-3) -> Scored:
    weights = draw(
        st.lists(st.floats(lightest, 1e3), min_size=1, max_size=8).filter(any)
    )
    criteria = tuple(Criterion(id=f"c{j}", weight=w) for j, w in enumerate(weights))
    rubric = Rubric(criteria=criteria)
    return rubric, scored(rubric, *(draw(st.floats(0, w)) for w in weights))


def test_a_reward_is_the_awarded_share_of_the_weight(rubric: Rubric) -> None:
    result = scored(rubric, 1.5, 1, 0)

    assert raw_reward(result) == 2.5
    assert normalized_reward(result, rubric) == 0.5


@pytest.mark.parametrize(("scores", "reward"), [((3, 1, 1), 1.0), ((0, 0, 0), 0.0)])
def test_full_marks_are_one_and_none_are_zero(
    rubric: Rubric, scores: tuple[float, ...], reward: float
) -> None:
    assert normalized_reward(scored(rubric, *scores), rubric) == reward


def test_an_invalid_judgement_earns_nothing(rubric: Rubric) -> None:
    result = JudgeResult.invalid(Reason.NOT_JSON)

    assert raw_reward(result) == 0.0
    assert normalized_reward(result, rubric) == 0.0
    np.testing.assert_array_equal(criterion_scores_z(result, rubric), [0, 0, 0])


def test_an_unavailable_judgement_has_no_reward(rubric: Rubric) -> None:
    result = JudgeResult.unavailable(Reason.RATE_LIMITED)

    with pytest.raises(UnavailableRewardError, match="rate_limited"):
        raw_reward(result)
    with pytest.raises(UnavailableRewardError):
        normalized_reward(result, rubric)
    with pytest.raises(UnavailableRewardError):
        criterion_scores_z(result, rubric)


def test_a_judgement_under_another_rubric_is_refused(rubric: Rubric) -> None:
    other = Rubric(criteria=(Criterion(id="style", weight=1),))
    lighter = Rubric(
        criteria=tuple(Criterion(id=c.id, weight=c.weight / 2) for c in rubric.criteria)
    )

    with pytest.raises(SchemaError, match="the rubric has"):
        normalized_reward(scored(rubric, 1, 1, 1), other)
    with pytest.raises(
        SchemaError, match=r"the score of 'derivation' is 3\.0, not in \[0, 1\.5\]"
    ):
        criterion_scores_z(scored(rubric, 3, 0, 0), lighter)


@given(judgements(lightest=0.0))
def test_a_reward_is_in_the_unit_interval(judgement: Scored) -> None:
    rubric, result = judgement

    assert 0.0 <= normalized_reward(result, rubric) <= 1.0


@given(judgements(), st.floats(1e-3, 1e3))
def test_the_scale_of_the_weights_does_not_matter(
    judgement: Scored, scale: float
) -> None:
    rubric, result = judgement
    scaled = Rubric(
        criteria=tuple(
            Criterion(id=c.id, weight=scale * c.weight) for c in rubric.criteria
        )
    )
    scores = {
        key: min(scale * s, scaled[key].weight) for key, s in result.scores.items()
    }

    assert normalized_reward(
        JudgeResult.scored(scaled, scores, judge=""), scaled
    ) == pytest.approx(normalized_reward(result, rubric), abs=1e-12)


@given(judgements(), st.randoms(use_true_random=False))
def test_the_order_of_the_criteria_does_not_matter(
    judgement: Scored, random: Random
) -> None:
    rubric, result = judgement
    criteria = list(rubric.criteria)
    random.shuffle(criteria)

    assert normalized_reward(
        result, Rubric(criteria=tuple(criteria))
    ) == normalized_reward(result, rubric)


@given(judgements(), st.data())
def test_a_higher_score_never_lowers_the_reward(
    judgement: Scored, data: st.DataObject
) -> None:
    rubric, result = judgement
    raised = {
        key: data.draw(st.floats(score, rubric[key].weight))
        for key, score in result.scores.items()
    }
    better = JudgeResult.scored(rubric, raised, judge="")

    assert normalized_reward(better, rubric) >= normalized_reward(result, rubric)


def test_scores_become_shares_of_their_weights(rubric: Rubric) -> None:
    np.testing.assert_array_equal(
        criterion_scores_z(scored(rubric, 1.5, 1, 0.25), rubric), [0.5, 1.0, 0.25]
    )


def test_a_criterion_without_weight_has_no_share() -> None:
    rubric = Rubric(
        criteria=(Criterion(id="a", weight=2), Criterion(id="noted", weight=0))
    )
    z_M = criterion_scores_z(scored(rubric, 1, 0), rubric)

    np.testing.assert_array_equal(z_M, [0.5, np.nan])
    assert project(z_M, rubric.weights_M) == 0.5


def test_the_projection_is_the_weighted_mean() -> None:
    assert project([1, 0.5, 0], [3, 1, 1]) == pytest.approx(0.7, rel=1e-15)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_equal_weights_reduce_the_projection_to_the_mean(z: list[float]) -> None:
    assert project(z, [2.5] * len(z)) == pytest.approx(float(np.mean(z)), abs=1e-14)


@given(judgements())
def test_the_projection_equals_the_normalised_reward(judgement: Scored) -> None:
    rubric, result = judgement
    projected = project(criterion_scores_z(result, rubric), rubric.weights_M)

    assert projected == pytest.approx(normalized_reward(result, rubric), abs=1e-14)
    assert 0 <= projected <= 1


def test_a_missing_element_costs_its_weighted_contribution() -> None:
    np.testing.assert_allclose(
        reward_delta([1, 1, 0], [0.5, 1, 1], [3, 1, 1]), [0.3, 0.0, -0.2], rtol=1e-15
    )


@given(st.data(), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8))
def test_contributions_add_up_to_the_difference_of_the_rewards(
    data: st.DataObject, weights: list[float]
) -> None:
    vectors = st.lists(st.floats(0, 1), min_size=len(weights), max_size=len(weights))
    z_a, z_b = data.draw(vectors), data.draw(vectors)
    contributions_M = reward_delta(z_a, z_b, weights)

    assert math.fsum(contributions_M) == pytest.approx(
        project(z_a, weights) - project(z_b, weights), abs=1e-14
    )
    np.testing.assert_array_equal(contributions_M, -reward_delta(z_b, z_a, weights))


@pytest.mark.parametrize(
    "z_M", [[0.5, 1.1], [0.5, -0.1], [0.5, math.nan], [0.5, math.inf]]
)
def test_a_share_outside_the_unit_interval_is_refused(z_M: list[float]) -> None:
    with pytest.raises(RewardError, match=r"not in \[0, 1\]"):
        project(z_M, [1, 1])
    with pytest.raises(RewardError, match=r"not in \[0, 1\]"):
        reward_delta([1, 1], z_M, [1, 1])


def test_vectors_must_fit_the_weights() -> None:
    with pytest.raises(
        RewardShapeError, match=r"z_M has shape \(2,\), weights_M has \(3,\)"
    ):
        project([1, 1], [1, 1, 1])
    with pytest.raises(RewardShapeError, match=r"shape \[M\]"):
        reward_delta([[1, 1]], [1, 1], [1, 1])


@pytest.mark.parametrize(
    ("on_unavailable", "reward"), [("mask", math.nan), ("zero", 0.0)]
)
def test_what_is_unavailable_is_masked_or_zero(
    rubric: Rubric, on_unavailable: OnUnavailable, reward: float
) -> None:
    results_PG = [
        [scored(rubric, 3, 1, 1), JudgeResult.unavailable(Reason.TIMEOUT)],
        [JudgeResult.invalid(Reason.EMPTY), scored(rubric, 0, 1, 0)],
    ]

    rewards_PG, valid_PG = group_rewards(
        results_PG, [rubric, rubric], on_unavailable=on_unavailable
    )

    np.testing.assert_array_equal(rewards_PG, [[1.0, reward], [0.0, 0.2]])
    np.testing.assert_array_equal(
        valid_PG, [[True, on_unavailable == "zero"], [True, True]]
    )
    assert rewards_PG.dtype == np.float64
    assert valid_PG.dtype == np.bool_


def test_what_is_unavailable_can_stop_the_step(rubric: Rubric) -> None:
    results_PG = [[scored(rubric, 3, 1, 1), JudgeResult.unavailable(Reason.AUTH)]]

    with pytest.raises(UnavailableRewardError, match="auth"):
        group_rewards(results_PG, [rubric], on_unavailable="raise")


def test_every_group_is_judged_by_its_own_rubric(rubric: Rubric) -> None:
    other = Rubric(criteria=(Criterion(id="style", weight=4),))

    rewards_PG, _ = group_rewards(
        [[scored(rubric, 3, 0, 0)], [scored(other, 1)]], [rubric, other]
    )

    np.testing.assert_allclose(rewards_PG, [[0.6], [0.25]])


def test_an_empty_batch_has_no_rewards() -> None:
    rewards_PG, valid_PG = group_rewards([], [])

    assert rewards_PG.shape == valid_PG.shape == (0, 0)


def test_groups_must_fit(rubric: Rubric) -> None:
    result = scored(rubric, 3, 1, 1)

    with pytest.raises(RewardShapeError, match=r"groups of \[1, 2\]"):
        group_rewards([[result], [result, result]], [rubric, rubric])
    with pytest.raises(RewardShapeError, match="2 rubrics for 1 groups"):
        group_rewards([[result]], [rubric, rubric])


def test_an_unknown_policy_for_what_is_unavailable_is_refused() -> None:
    with pytest.raises(RewardError, match="'skip'"):
        group_rewards([], [], on_unavailable="skip")  # pyright: ignore[reportArgumentType]
