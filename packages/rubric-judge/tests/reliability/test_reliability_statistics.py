import math
from fractions import Fraction

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import cohen_kappa_score

from rubric_judge.quality.reliability import agreement, noise
from rubric_judge.quality.reliability.intervals import Intervals
from rubric_judge.quality.reliability.noise import advantage_pairs, below_noise
from rubric_judge.quality.reliability.ratings import ratio
from rubric_judge.statistics.clusters import ClusteredMean

# Shrout and Fleiss (1979), table 2: six subjects by four judges.
SHROUT_FLEISS_NJ = np.array(
    [
        [9, 2, 5, 8],
        [6, 1, 3, 2],
        [8, 4, 6, 8],
        [7, 1, 2, 6],
        [10, 5, 6, 9],
        [6, 2, 4, 7],
    ],
    float,
)
NAN = math.nan


def test_retest_sums_of_a_worked_example() -> None:
    one = noise.retest(np.array([[0.2, 0.4, 0.6], [0.5, NAN, NAN], [NAN, NAN, NAN]]))

    assert one.squares.tolist() == pytest.approx([0.08, 0, 0])
    assert one.df.tolist() == [2, 0, 0]
    assert one.count.tolist() == [3, 1, 0]
    assert one.mean[:2].tolist() == pytest.approx([0.4, 0.5])


@given(hnp.arrays(np.float64, (5, 4), elements=st.floats(0, 1)))
def test_retest_variance_is_the_mean_of_the_sample_variances(x_NR: np.ndarray) -> None:
    one = noise.retest(x_NR)

    assert one.squares.sum() / one.df.sum() == pytest.approx(
        x_NR.var(axis=1, ddof=1).mean(), abs=1e-12
    )


def test_equal_replicates_have_no_noise_whatever_their_rounding() -> None:
    assert noise.retest(np.full((1, 3), 0.1)).squares.tolist() == [0.0]


def test_icc1_of_the_published_example() -> None:
    assert noise.icc1(SHROUT_FLEISS_NJ)(np.arange(6)) == pytest.approx(0.17, abs=0.005)


def test_icc_a1_of_the_published_example() -> None:
    assert agreement.icc_a1(SHROUT_FLEISS_NJ.T)(np.arange(6)) == pytest.approx(
        0.29, abs=0.005
    )


def test_both_icc_are_those_of_another_library() -> None:
    generator = np.random.default_rng(11)
    quality_N1 = generator.normal(size=(30, 1))
    rated_NJ = (
        quality_N1
        + 0.7 * generator.normal(size=(30, 5))
        + 0.4 * generator.normal(size=5)
    )

    # pingouin 0.7.0, intraclass_corr, ICC(1,1) and ICC(A,1)
    assert noise.icc1(rated_NJ)(np.arange(30)) == pytest.approx(0.6490468605, abs=1e-10)
    assert agreement.icc_a1(rated_NJ.T)(np.arange(30)) == pytest.approx(
        0.6522731864, abs=1e-10
    )


def test_icc1_of_unequal_replicates_is_that_of_a_worked_example() -> None:
    # Responses (0, 2) and (5): k0 = (3 − 5/3) / 1 = 4/3, MSB = 2·(1 − 7/3)² + (5 − 7/3)² = 32/3,
    # MSW = 2, so the signal is (32/3 − 2)·3/4 = 6.5 and the ICC 6.5 / 8.5.
    rewards_NR = np.array([[0.0, 2.0], [5.0, NAN]])

    assert noise.icc1(rewards_NR)(np.arange(2)) == pytest.approx(6.5 / 8.5)


def test_reliability_within_tasks_is_blind_to_how_hard_a_task_is() -> None:
    rewards_NR = np.array([[0, 1], [1, 0], [5, 6], [6, 5]], float)
    groups = [np.array([0, 1]), np.array([2, 3])]

    parts = noise.group_parts(rewards_NR, groups)

    assert noise.icc1(rewards_NR)(np.arange(4)) == pytest.approx(0.94, abs=0.005)
    assert noise.icc1_within(parts)(np.arange(4)) == -1.0


def test_reliability_within_tasks_of_equal_replicates_is_one() -> None:
    rewards_NR = np.array([[0, 0], [1, 1], [5, 5], [6, 6]], float)
    parts = noise.group_parts(rewards_NR, [np.array([0, 1]), np.array([2, 3])])

    assert noise.icc1_within(parts)(np.arange(4)) == 1.0


def test_reward_noise_of_two_criteria_that_err_apart_and_together() -> None:
    alpha_NM = np.array([[0.5, 0.5]])
    spread = 0.2
    apart_NRM = np.array([[[0, 0], [0, spread], [spread, 0], [spread, spread]]], float)
    together_NRM = np.array(
        [[[0, 0], [0, 0], [spread, spread], [spread, spread]]], float
    )
    tau2 = spread**2 / 3  # sample variance of 0, 0, s, s

    for z_NRM, measured in ((apart_NRM, tau2 / 2), (together_NRM, tau2)):
        found = noise.reward_noise(z_NRM, z_NRM @ alpha_NM[0], alpha_NM)
        rows = np.arange(1)
        assert found.predicted(rows) == pytest.approx(tau2 / 2)
        assert found.independent(rows) == pytest.approx(tau2 / 2)
        assert found.measured(rows) == pytest.approx(measured)


@given(
    hnp.arrays(np.float64, (3, 4, 3), elements=st.floats(0, 1)),
    hnp.arrays(np.float64, (3,), elements=st.floats(0.1, 5)),
)
def test_measured_noise_is_the_quadratic_form_of_the_measured_covariance(
    z_NRM: np.ndarray, weights_M: np.ndarray
) -> None:
    alpha_M = weights_M / weights_M.sum()
    alpha_NM = np.tile(alpha_M, (3, 1))

    found = noise.reward_noise(z_NRM, z_NRM @ alpha_M, alpha_NM)
    covariance_MM = np.mean([np.cov(z_RM, rowvar=False) for z_RM in z_NRM], axis=0)

    assert found.measured(np.arange(3)) == pytest.approx(
        alpha_M @ covariance_MM @ alpha_M, abs=1e-12
    )
    assert found.independent(np.arange(3)) == pytest.approx(
        alpha_M**2 @ np.diag(covariance_MM), abs=1e-12
    )


@given(
    st.fractions(Fraction(1, 50), Fraction(49, 50)), st.sampled_from([0.8, 0.9, 0.95])
)
def test_the_replicates_needed_reach_the_target_and_one_fewer_does_not(
    icc: Fraction, target: float
) -> None:
    def averaged(k: int) -> float:
        return float(k * icc / (1 + (k - 1) * icc))

    k = noise.replicates_needed(float(icc), target)

    assert k is not None
    assert averaged(k) >= target - 1e-9
    assert k == 1 or averaged(k - 1) < target


def test_replicates_needed_of_worked_examples() -> None:
    assert noise.replicates_needed(0.5, 0.8) == 4
    assert noise.replicates_needed(0.8, 0.8) == 1
    assert noise.replicates_needed(0.0, 0.8) is None


def test_sign_flips_of_a_worked_group() -> None:
    # Two judgements of three responses: advantages (−, 0, +) and then (+, 0, −).
    rewards_NR = np.array([[0.1, 0.3], [0.2, 0.2], [0.3, 0.1]])

    pairs = advantage_pairs(rewards_NR, [np.arange(3)])

    assert pairs.flips_N.tolist() == [1, 0, 1]
    assert pairs.pairs_N.tolist() == [1, 0, 1]  # the middle one is 0 both times
    assert pairs.flipped.tolist() == [True, True]
    assert pairs.sizes.tolist() == pytest.approx(
        [1.5, 1.5]
    )  # deviation of the mean of the others


def test_a_judgement_without_scores_takes_no_part_in_flips() -> None:
    rewards_NR = np.array([[0.1, 0.3], [0.2, NAN], [0.3, 0.1]])

    pairs = advantage_pairs(rewards_NR, [np.arange(3)])

    assert pairs.pairs_N.tolist() == [1, 0, 1]


def test_pure_noise_flips_half_of_the_signs() -> None:
    rewards_NR = np.random.default_rng(0).normal(size=(800, 2))
    groups = list(np.arange(800).reshape(-1, 16))

    pairs = advantage_pairs(rewards_NR, groups)

    assert pairs.flips_N.sum() / pairs.pairs_N.sum() == pytest.approx(0.5, abs=0.05)


def test_groups_below_the_noise_are_found() -> None:
    generator = np.random.default_rng(1)
    quality_N = np.repeat([0.0, 1.0] * 10, 8) * generator.normal(size=160)
    rewards_NR = quality_N[:, None] + 0.3 * generator.normal(size=(160, 6))
    parts = noise.group_parts(rewards_NR, list(np.arange(160).reshape(-1, 8)))

    # Every other group has no spread of its own.
    assert below_noise(parts)(np.arange(160)) == pytest.approx(0.5, abs=0.051)


def test_kappa_is_that_of_its_definition() -> None:
    generator = np.random.default_rng(2)
    a, b = generator.integers(0, 11, (2, 60, 1))
    b = np.where(generator.random((60, 1)) < 0.6, a, b)
    a, b = a / 1.0, b / 1.0
    b[:3] = NAN

    found = agreement.kappa(a, b)(np.arange(60))

    x, y = a[3:, 0], b[3:, 0]
    expected = np.mean((x[:, None] - y[None, :]) ** 2)
    assert found == pytest.approx(1 - np.mean((x - y) ** 2) / expected)
    assert found == pytest.approx(cohen_kappa_score(x, y, weights="quadratic"))


def test_alpha_of_the_published_example_with_missing_ratings() -> None:
    # Krippendorff (2011), three coders and fifteen units: 0.811 with the interval metric.
    rated_JN = np.array(
        [
            [NAN, NAN, NAN, NAN, NAN, 3, 4, 1, 2, 1, 1, 3, 3, NAN, 3],
            [1, NAN, 2, 1, 3, 3, 4, 3, NAN, NAN, NAN, NAN, NAN, NAN, NAN],
            [NAN, NAN, 2, 1, 3, 4, 4, NAN, 2, 1, 1, 3, 3, NAN, 4],
        ]
    )
    found = agreement.alpha(rated_JN[:, :, None])(np.arange(15))

    assert found == pytest.approx(0.811, abs=0.0005)
    assert found == pytest.approx(
        krippendorff.alpha(rated_JN, level_of_measurement="interval")
    )


def test_the_first_replicate_with_scores_counts() -> None:
    z_JNRM = np.array([[[[NAN, NAN], [0.25, 0.34]], [[0.35, 1.0], [0.0, 0.0]]]])
    rewards_JNR = z_JNRM.mean(axis=3)

    single = agreement.single_judgements(z_JNRM, rewards_JNR)

    assert single.z_JNM.tolist() == [[[0.25, 0.34], [0.35, 1.0]]]
    assert single.rewards_JN[0].tolist() == pytest.approx([0.295, 0.675])


def test_effective_judges_of_worked_examples() -> None:
    generator = np.random.default_rng(3)
    x_N, y_N = generator.normal(size=(2, 50))
    x_N, y_N = x_N - x_N.mean(), y_N - y_N.mean()
    y_N = y_N - x_N * (x_N @ y_N) / (x_N @ x_N)
    mixed_N = 0.6 * x_N / np.linalg.norm(x_N) + 0.8 * y_N / np.linalg.norm(y_N)

    def effective(*judges: np.ndarray) -> float:
        return agreement.effective_judges(np.stack(judges))(np.arange(50))

    assert effective(x_N, y_N) == pytest.approx(2)
    assert effective(x_N, 2 * x_N + 1) == pytest.approx(1)
    assert effective(x_N, mixed_N) == pytest.approx(4 / 2.72)
    assert math.isnan(effective(x_N, np.zeros(50)))


def test_rank_correlation_within_tasks_does_not_see_what_tasks_share() -> None:
    easy_hard = np.repeat([0.0, 10.0], 4)
    x_N = easy_hard + np.tile([0, 1, 2, 3], 2)
    y_N = easy_hard + np.tile([3, 2, 1, 0], 2)
    groups = [np.arange(4), np.arange(4, 8)]

    assert agreement.correlation(x_N, y_N, "kendalltau")(np.arange(8)) > 0.1
    assert agreement.kendall_within(x_N, y_N, groups)(np.arange(8)) == pytest.approx(-1)


def test_what_cannot_be_said_is_nan() -> None:
    constant_N = np.full(5, 0.5)
    rows = np.arange(5)

    assert math.isnan(
        agreement.correlation(constant_N, np.arange(5.0), "spearmanr")(rows)
    )
    assert math.isnan(agreement.kappa(np.full((5, 1), 3.0), np.full((5, 1), 3.0))(rows))
    assert math.isnan(agreement.alpha(np.full((2, 5, 1), 3))(rows))
    assert math.isnan(agreement.icc_a1(np.stack([constant_N, constant_N]))(rows))
    assert math.isnan(noise.icc1(np.full((5, 2), 0.5))(rows))
    assert math.isnan(noise.icc1(np.arange(5.0)[:, None])(rows))  # nothing is repeated


# --- intervals ------------------------------------------------------------------------------------


def _intervals(documents: list[str], tasks: list[str] | None = None) -> Intervals:
    return Intervals(
        documents, tasks or documents, resamples=300, confidence=0.95, seed=0
    )


def test_documents_are_drawn_and_within_a_single_one_tasks_or_responses() -> None:
    x_N = np.random.default_rng(0).normal(size=32)
    statistic = ratio(x_N, np.ones(32))
    many, few = [str(n // 4) for n in range(32)], [str(n // 16) for n in range(32)]
    one = ["0"] * 32

    assert _intervals(many).estimate(statistic).unit == "document"
    # Tasks of two documents are not independent of each other: two are too few to say.
    assert _intervals(few, many).estimate(statistic).low is None
    assert _intervals(one, many).estimate(statistic).unit == "task"
    assert _intervals(one).estimate(statistic).unit == "response"
    assert _intervals(one).estimate(statistic, of_groups=True).low is None
    assert _intervals(one).estimate(statistic, np.arange(5)).low is None


def test_intervals_of_clustered_rows_are_wider_than_if_rows_were_independent() -> None:
    x_N = np.repeat(np.random.default_rng(0).normal(size=20), 10)
    statistic = ratio(x_N, np.ones(200))
    clustered = _intervals([str(n // 10) for n in range(200)]).estimate(statistic)
    independent = _intervals([str(n) for n in range(200)]).estimate(statistic)

    assert clustered.high is not None
    assert independent.high is not None
    assert clustered.low is not None
    assert independent.low is not None
    assert clustered.high - clustered.low > 2 * (independent.high - independent.low)


def test_equal_values_give_an_interval_of_no_width_and_the_same_seed_the_same_interval() -> (
    None
):
    names = [str(n) for n in range(20)]
    same = _intervals(names).estimate(ratio(np.ones(20), np.ones(20)))
    x_N = np.random.default_rng(0).normal(size=20)
    first, second = (
        _intervals(names).estimate(ratio(x_N, np.ones(20))) for _ in range(2)
    )

    assert (same.low, same.high) == (1.0, 1.0)
    assert first == second


def test_a_statistic_that_many_draws_leave_undefined_has_no_interval() -> None:
    found = _intervals([str(n) for n in range(10)]).estimate(
        lambda rows: 1.0 if len(np.unique(rows)) > 8 else math.nan
    )

    assert (found.value, found.low) == (1.0, None)


def test_a_bias_has_students_interval() -> None:
    found = _intervals(["a", "b", "c"]).bias(np.array([0.1, 0.3, 0.2]), np.arange(3))

    half = 4.302653 * 0.1 / np.sqrt(3)
    assert (found.value, found.low, found.high) == pytest.approx(
        (0.2, 0.2 - half, 0.2 + half)
    )
    assert found.unit == "document"


def test_the_bias_of_documents_that_are_alike_by_chance_is_no_certainty() -> None:
    difference_N = np.array([0.1, 0.3, 0.2, 0.2])
    found = _intervals(["a", "a", "b", "b"]).bias(difference_N, np.arange(4))

    half = (
        12.706205 * difference_N.std(ddof=1) / 2
    )  # t of one degree of freedom, for two documents
    assert (found.value, found.low, found.high) == pytest.approx(
        (0.2, 0.2 - half, 0.2 + half)
    )


def test_a_bias_of_one_response_has_no_interval_and_of_none_no_value() -> None:
    intervals = _intervals(["a", "b"])

    alone = intervals.bias(np.array([0.25, 0.5]), np.arange(1))
    assert (alone.value, alone.low, alone.unit) == (0.25, None, None)
    assert intervals.bias(np.array([0.25, 0.5]), np.arange(0)).value is None


@given(st.lists(st.floats(0, 1), min_size=3, max_size=30), st.integers(1, 4))
def test_a_mean_of_single_values_has_the_variance_of_a_mean(
    values: list[float], copies: int
) -> None:
    x_N, each = np.array(values), np.full(len(values), float(copies))
    found = ClusteredMean.of(copies * x_N, each)

    assert found.mean == pytest.approx(x_N.mean())
    assert found.variance == pytest.approx(x_N.var(ddof=1) / len(x_N))
    assert found.times(-2).variance == pytest.approx(4 * found.variance)
