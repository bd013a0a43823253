"""Judges held against a reference, on criteria that it finds met or not met."""

import math
from collections.abc import Callable
from typing import Any, cast

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from rubric_core import ConfigError, JudgeResult, Task
from rubric_judge.quality.reliability import Rating, agreement, collect, measure, rates
from rubric_judge.quality.reliability.report import ReferenceRates, ReliabilityReport
from rubric_judge.statistics.estimate import Estimate

MakeTasks = Callable[[int], dict[str, Task]]
IDS = ("c0", "c1", "c2")


COUNTS = st.integers(0, 60)


def _bounds(one: Estimate) -> tuple[float | None, float | None]:
    return one.low, one.high


def _clustered(
    met: list[float], count: float, fp: list[float], negatives: float
) -> rates.Rates:
    """Rates of clusters of equal size: of `count` that are met and `negatives` that are not."""
    tp_C, fp_C = np.array(met), np.array(fp)
    return rates.clustered_rates(
        rates.Confusion(tp_C, fp_C, count - tp_C, negatives - fp_C)
    )


def test_youden_of_a_worked_example_and_of_one_class_alone() -> None:
    found = rates.youden(8, 3, 2, 7)

    assert found.youden_j.value == pytest.approx(0.5)
    assert (found.tpr.value, found.fpr.value, found.tnr.value) == (0.8, 0.3, 0.7)
    assert found.worth == (10, 10)
    assert rates.youden(8, 0, 2, 0).youden_j.value is None
    assert rates.youden(0, 3, 0, 7).youden_j.value is None
    assert rates.youden(8, 0, 2, 0).tnr.value is None


def test_intervals_of_published_examples() -> None:
    # Newcombe (1998), table II, method 10: 56 of 70 and 48 of 80.
    difference = rates.youden(tp=56, fp=48, fn=14, tn=32).youden_j
    assert difference.value == pytest.approx(0.2)
    assert _bounds(difference) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    # Newcombe (1998), Statistics in Medicine 17, 857: 81 of 263, Wilson's method.
    share = rates.youden(tp=81, fp=0, fn=182, tn=0).tpr
    assert _bounds(share) == pytest.approx((0.2553, 0.3662), abs=5e-5)


def _weighed(judge: list[int], label: list[int], weights: list[float]) -> rates.Rates:
    """Rates of single decisions, weighed."""
    decided = rates.confusion(
        np.array(judge, float)[:, None, None], np.array(label)[:, None]
    )
    return rates.clustered_rates(decided, decided.times(np.array(weights)))


def test_weights_of_a_worked_example() -> None:
    # Met: 3 hits that weigh ¼ and 1 miss that weighs 1. Not met: 1 false alarm of ¼, 2 of 1.
    found = _weighed(
        [1, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 0, 0, 0], [0.25] * 3 + [1, 0.25, 1, 1]
    )

    assert found.tpr.value == pytest.approx(0.75 / 1.75)
    assert found.fpr.value == pytest.approx(0.25 / 2.25)
    assert found.youden_j.value == pytest.approx(0.75 / 1.75 - 0.25 / 2.25)
    p = 3 / 7
    variance = 4 / 3 * (3 * (0.25 * (1 - p)) ** 2 + p**2) / 1.75**2
    assert found.worth[0] == pytest.approx(max(p * (1 - p) / variance, 1))


def test_hits_of_little_weight_do_not_hide_a_miss_of_much() -> None:
    # 100 hits of 1/20, and elsewhere one that weighs 1: as little as 5 labels where all weigh 1.
    found = _weighed([1] * 100 + [0, 0], [1] * 100 + [0, 0], [0.05] * 100 + [1, 1])

    assert found.tpr.value == 1
    assert found.worth[0] == pytest.approx(5)
    assert found.tpr.low == pytest.approx(5 / (5 + stats.t.ppf(0.975, 99) ** 2))


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=9))
def test_equal_weights_leave_every_bit(hits: list[tuple[float, float]]) -> None:
    met_C, not_met_C = np.rint(np.array(hits)).T
    decided = rates.Confusion(
        met_C // 2, not_met_C // 3, met_C - met_C // 2, not_met_C * 2 // 3
    )

    assert rates.clustered_rates(decided, decided.times(np.ones(len(hits)))) == (
        rates.clustered_rates(decided)
    )


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_rates_are_shares_in_wilsons_or_exact_intervals(
    tp: int, fp: int, fn: int, tn: int
) -> None:
    found = rates.youden(tp, fp, fn, tn)

    for rate, right, n in (
        (found.tpr, tp, tp + fn),
        (found.fpr, fp, fp + tn),
        (found.tnr, tn, fp + tn),
    ):
        if not n:
            assert rate.value is None
            assert found.youden_j.value is None
            continue
        assert rate.value == pytest.approx(right / n, abs=1e-15)
        low, high = _bounds(rate)
        assert low is not None
        assert high is not None
        tested = cast("Any", stats).binomtest(right, n)
        if n < 8:
            exact = tested.proportion_ci(0.95, method="exact")
            assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-12)
            continue
        wilson = tested.proportion_ci(0.95, method="wilson")
        # Of 1 to 3 decisions the limit may be that of a Poisson count, which is farther out.
        near_0, near_1 = 0 < right <= 3, 0 < n - right <= 3
        assert low <= wilson.low + 1e-12
        assert high >= wilson.high - 1e-12
        assert near_0 or low == pytest.approx(wilson.low, abs=1e-12)
        assert near_1 or high == pytest.approx(wilson.high, abs=1e-12)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_a_judge_that_says_the_opposite_has_the_opposite_j(
    tp: int, fp: int, fn: int, tn: int
) -> None:
    one, other = (
        rates.youden(tp, fp, fn, tn).youden_j,
        rates.youden(fn, tn, tp, fp).youden_j,
    )

    if one.value is None or one.low is None or one.high is None:
        assert other.value is None
        return
    assert -1 <= one.low <= one.value <= one.high <= 1
    assert (other.value, other.low, other.high) == pytest.approx(
        (-one.value, -one.high, -one.low), abs=1e-9
    )


def test_labels_said_five_times_are_worth_as_many_as_their_documents() -> None:
    decided = [1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0]
    opposite = [1 - one for one in decided]
    once = _clustered(decided, 1, opposite, 1)
    five = _clustered([5 * one for one in decided], 5, [5 * one for one in opposite], 5)

    assert once.worth == (10, 10)
    assert five.worth[0] == pytest.approx(
        9
    )  # the sample variance takes one degree of freedom
    assert five.tpr.value == once.tpr.value
    assert (five.tpr.low or 0) < (once.tpr.low or 0)


def test_decisions_that_are_all_alike_still_have_an_interval() -> None:
    found = _clustered([4.0] * 6, 4, [0.0] * 6, 4)

    assert (found.tpr.value, found.fpr.value, found.youden_j.value) == (1.0, 0.0, 1.0)
    assert 0 < (found.youden_j.low or 0) < 0.8
    assert found.worth == (6, 6)  # and no more than there are documents


def test_a_single_document_is_worth_one_label() -> None:
    found = _clustered([30.0], 40, [1.0], 40)

    assert found.worth == (1, 1)
    assert (found.youden_j.low or 0) < 0


def test_rates_that_rise_together_leave_their_difference_sharper() -> None:
    met = [3.0, 0.0, 4.0, 1.0, 4.0, 0.0, 2.0, 4.0, 1.0, 3.0]
    together, apart = _clustered(met, 4, met, 4), _clustered(met, 4, met[::-1], 4)

    assert _bounds(together.youden_j) == pytest.approx((0, 0), abs=0.15)
    assert (apart.youden_j.high or 0) > 3 * (together.youden_j.high or 0)


def test_no_decision_has_no_rate() -> None:
    empty = rates.confusion(np.full((3, 1, 2), np.nan), np.ones((3, 2))).by_cluster([])

    assert rates.clustered_rates(empty).youden_j.value is None


def test_replicates_count_for_the_share_that_says_met() -> None:
    nan = math.nan
    z_NRM = np.array(
        [[[1.0, 0.5], [0.49, nan], [1.0, nan]], [[0.0, nan], [0.0, nan], [nan, nan]]]
    )
    label_NM = np.array([[1.0, 0.0], [nan, 0.5]])
    found = rates.confusion(z_NRM, label_NM)

    assert found.tp_N == pytest.approx([2 / 3, 0])
    assert found.fn_N == pytest.approx([1 / 3, 0])
    assert (found.fp_N.tolist(), found.tn_N.tolist()) == ([1, 0], [0, 0])
    assert (found.met_N.tolist(), found.not_met_N.tolist()) == ([1, 0], [1, 0])


def test_alpha_of_every_metric_is_that_of_the_published_example() -> None:
    # Krippendorff (2011), section C: four coders, twelve units, missing values.
    nan = math.nan
    rated_JN = np.array(
        [
            [1, 2, 3, 3, 2, 1, 4, 1, 2, nan, nan, nan],
            [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, nan, 3],
            [nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, nan],
            [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, nan],
        ]
    )
    for metric, published in (
        ("nominal", 0.743),
        ("ordinal", 0.815),
        ("interval", 0.849),
    ):
        found = agreement.alpha(rated_JN[:, :, None], metric)(np.arange(12))
        assert found == pytest.approx(published, abs=0.0005)
        assert found == pytest.approx(
            krippendorff.alpha(rated_JN, level_of_measurement=metric)
        )
        # As shares of a weight of 5 they are no tenths, and nothing is lost.
        shares_JN1 = ((rated_JN - 1) / 4)[:, :, None]
        assert agreement.alpha(shares_JN1, metric)(np.arange(12)) == pytest.approx(
            found
        )


def test_raters_one_point_of_twenty_apart_do_not_agree_wholly() -> None:
    points_N = np.random.default_rng(2).integers(0, 20, 60)
    a_N1, b_N1 = (points_N / 20)[:, None], ((points_N + 1) / 20)[:, None]
    rows = np.arange(60)
    assert agreement.kappa(a_N1, b_N1)(rows) == pytest.approx(
        cohen_kappa_score(
            points_N, points_N + 1, labels=np.arange(21), weights="quadratic"
        )
    )
    for metric in ("interval", "ordinal", "nominal"):
        found = agreement.alpha(np.stack([a_N1, b_N1]), metric)(rows)
        both_JN = np.stack([points_N, points_N + 1])
        assert found < 0.999
        assert found == pytest.approx(
            krippendorff.alpha(both_JN, level_of_measurement=metric)
        )


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=4, max_size=20))
def test_ordinal_alpha_only_knows_the_order_and_nominal_not_even_that(
    scores: list[tuple[int, ...]],
) -> None:
    levels_JNM = np.array(scores, dtype=np.intp).T[:, :, None]
    rows = np.arange(len(scores))
    stretched = np.array([0, 1, 4, 9, 10])[levels_JNM]
    renamed = np.array([7, 0, 10, 3, 1])[levels_JNM]

    for metric, other in (("ordinal", stretched), ("nominal", renamed)):
        assert agreement.alpha(other.astype(float), metric)(rows) == pytest.approx(
            agreement.alpha(levels_JNM.astype(float), metric)(rows), nan_ok=True
        )


# --- a study with a reference ---------------------------------------------------------------------


def _study(
    tasks: dict[str, Task], said: Callable[[int, int], tuple[float, float]]
) -> list[Rating]:
    """A person and a judge: shares of a criterion's weight, by response and criterion."""
    ratings: list[Rating] = []
    for n, task in enumerate(tasks.values()):
        for at, judge in enumerate(("judge", "Anna")):
            scores = {
                c.id: c.weight * said(n, m)[at] for m, c in enumerate(task.rubric)
            }
            result = JudgeResult.scored(task.rubric, scores, judge=judge)
            ratings.append(Rating(judge, task.task_id, n + 1, result))
    return ratings


def _against_anna(
    tasks: dict[str, Task], said: Callable[[int, int], tuple[float, float]]
) -> tuple[ReliabilityReport, dict[str | None, ReferenceRates]]:
    ratings = collect(_study(tasks, said), tasks)
    report = measure(ratings, resamples=200, reference="Anna")
    return report, {one.criterion: one for one in report.rates}


def test_rates_are_those_of_the_planted_errors(make_tasks: MakeTasks) -> None:
    def said(n: int, m: int) -> tuple[float, float]:
        # c0: right, but for every fifth; c1: always met; c2: Anna gives marks in between.
        truth = float(n % 2)
        judged = (1 - truth if n % 5 == 0 else truth, 0.6, 0.5)[m]
        return judged, (truth, truth, 0.5 * truth)[m]

    report, found = _against_anna(make_tasks(20), said)

    assert set(found) == {None, "c0", "c1"}
    assert [one.criterion for one in report.rates] == [
        None,
        "c1",
        "c0",
    ]  # lowest J first
    c0, c1, pooled = found["c0"], found["c1"], found[None]
    assert (c0.met, c0.not_met) == (10, 10)
    assert (c0.tpr.value, c0.tnr.value) == (0.8, 0.8)
    assert c0.youden_j.value == pytest.approx(0.6)
    assert c0.youden_j.unit == "document"
    assert (c1.tpr.value, c1.tnr.value, c1.youden_j.value) == (1.0, 0.0, 0.0)
    assert (pooled.met, pooled.not_met, pooled.tpr.value, pooled.tnr.value) == (
        20,
        20,
        0.9,
        0.4,
    )
    table = report.tables()[-1]
    assert table.title == "Criteria that J2 finds met or not met"
    assert [row[:2] for row in table.texts] == [
        ("all", "J1"),
        ("c1", "J1"),
        ("c0", "J1"),
    ]
    assert ReliabilityReport.model_validate_json(report.model_dump_json()) == report


def test_a_rate_of_one_is_not_certain(make_tasks: MakeTasks) -> None:
    _, found = _against_anna(make_tasks(20), lambda n, _: (float(n % 2), float(n % 2)))
    one = found["c0"]

    assert (one.tpr.value, one.tpr.unit) == (1.0, "document")
    expected = rates.youden(10, 0, 0, 10)
    for rate, of_counts in ((one.tpr, expected.tpr), (one.youden_j, expected.youden_j)):
        assert _bounds(rate) == pytest.approx(_bounds(of_counts))


def test_one_class_alone_gives_no_j(make_tasks: MakeTasks) -> None:
    _, found = _against_anna(make_tasks(9), lambda n, _: (float(n % 2), 1.0))

    assert found["c0"].tpr.value == pytest.approx(4 / 9)
    assert found["c0"].not_met == 0
    assert (found["c0"].tnr.value, found["c0"].youden_j.value) == (None, None)


@pytest.mark.parametrize(
    ("reference", "judges", "problem"),
    [
        (
            "Ana",
            2,
            r"the reference 'Ana' is no judge here: did you mean 'Anna'\? there are 'judge'",
        ),
        ("Anna", 1, "the reference 'Anna' is the only judge"),
    ],
)
def test_a_reference_must_be_another_judge(
    make_tasks: MakeTasks, reference: str, judges: int, problem: str
) -> None:
    tasks = make_tasks(2)
    given = _study(tasks, lambda *_: (1.0, 0.0))
    ratings = collect(
        [one for one in given if judges > 1 or one.judge == "Anna"], tasks
    )

    with pytest.raises(ConfigError, match=problem):
        measure(ratings, resamples=9, reference=reference)
