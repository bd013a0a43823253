"""A judge's mean corrected by labels: worked numbers, limits, and the population that refuses."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rubric_core.errors import RewardError, RewardShapeError
from rubric_judge.calibration.correction import Tuning, check_population, corrected_mean
from rubric_judge.calibration.record import RewardPair

RNG = np.random.default_rng(7)
F = RNG.uniform(0, 1, 40)
Y = 0.1 + 0.6 * F + 0.1 * RNG.standard_normal(40)


def _pairs(judge: object, label: object, each: int = 1) -> list[RewardPair]:
    rows = zip(np.asarray(judge).tolist(), np.asarray(label).tolist(), strict=True)
    return [
        RewardPair(task_id=f"t{i}", document=f"d{i // each}", judge=f, label=y)
        for i, (f, y) in enumerate(rows)
    ]


def test_worked_numbers_of_power_tuning() -> None:
    judge_N = np.linspace(0.2, 0.9, 80)
    found = corrected_mean(judge_N, _pairs(F, Y), tuning="power")
    trust = np.cov(Y, F)[0, 1] / (1 + 40 / 80) / np.var(np.r_[F, judge_N], ddof=1)
    assert found.trust == pytest.approx(trust)
    assert found.mean == pytest.approx(Y.mean() + trust * (judge_N.mean() - F.mean()))
    a, b = np.var(Y - trust * F, ddof=1) / 40, trust**2 * np.var(judge_N, ddof=1) / 80
    t = stats.t.ppf(0.975, (a + b) ** 2 / (a**2 / 39 + b**2 / 79))
    assert found.ci_high - found.mean == pytest.approx(t * np.sqrt(a + b))
    assert (found.raw, found.labelled, found.judged, found.documents) == (
        pytest.approx(0.55),
        40,
        80,
        40,
    )


@given(st.lists(st.integers(1, 3), min_size=40, max_size=40), st.floats(0.1, 10))
def test_a_weight_counts_as_so_many_equal_pairs_of_one_document(
    counts: list[int], scale: float
) -> None:
    pairs = _pairs(F, Y)
    weighed = [
        one.model_copy(update={"weight": scale * count})
        for one, count in zip(pairs, counts, strict=True)
    ]
    repeated = [one for one, count in zip(pairs, counts, strict=True) for _ in range(count)]
    judge_N = np.linspace(0.3, 0.8, 50)
    found, wanted = corrected_mean(judge_N, weighed), corrected_mean(judge_N, repeated)

    for name in ("mean", "ci_low", "ci_high", "trust"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-9)
    seen, told = (check_population(judge_N, some, some[:12]) for some in (weighed, repeated))
    assert seen.overlap == pytest.approx(told.overlap)
    if set(counts) == {1}:
        assert found == wanted
    there = check_population(judge_N, weighed, weighed).difference
    assert there is not None
    assert there.value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("tuning", ["regression", "power"])
def test_equal_weights_leave_every_bit_of_a_correction(tuning: Tuning) -> None:
    pairs = _pairs(F, Y, each=2)
    equal = [one.model_copy(update={"weight": 0.3}) for one in pairs]
    judge_N = np.linspace(0.3, 0.8, 50)

    assert corrected_mean(judge_N, equal, tuning=tuning) == (
        corrected_mean(judge_N, pairs, tuning=tuning)
    )
    assert check_population(judge_N, equal, equal[:8]) == (
        check_population(judge_N, pairs, pairs[:8])
    )


def test_labels_drawn_by_the_judge_are_made_up_for_by_their_weights() -> None:
    generator = np.random.default_rng(1)
    judge_N = generator.uniform(0, 1, 20_000)
    label_N = judge_N**3 + 0.05 * generator.standard_normal(len(judge_N))
    inclusion_N = 0.002 + 0.05 * (judge_N > 0.8)
    rows = np.flatnonzero(generator.random(len(judge_N)) < inclusion_N)
    plain = _pairs(judge_N[rows], label_N[rows])
    weighed = [
        one.model_copy(update={"weight": 1 / inclusion_N[row]})
        for one, row in zip(plain, rows, strict=True)
    ]
    found = corrected_mean(judge_N, weighed)

    assert found.ci_low < 0.25 < found.ci_high
    assert not corrected_mean(judge_N, plain).ci_low < 0.25 < corrected_mean(judge_N, plain).ci_high


def test_the_slope_is_that_of_a_least_squares_line() -> None:
    found = corrected_mean([0.5, 0.7], _pairs(F, Y))
    line = stats.linregress(F, Y)
    assert found.trust == pytest.approx(line.slope)
    assert found.mean == pytest.approx(line.intercept + line.slope * 0.6)


def test_regression_is_power_with_endless_judged_responses() -> None:
    judge_N = np.tile(F, 20_000)
    power = corrected_mean(judge_N, _pairs(F, Y), tuning="power")
    slope = corrected_mean(judge_N, _pairs(F, Y)).trust * 40 / 39  # of a variance over n − 1
    assert power.trust == pytest.approx(slope, rel=1e-3)


def test_a_judge_that_tells_nothing_leaves_the_labels_alone() -> None:
    found = corrected_mean([0.9, 0.8, 0.95], _pairs(np.full(40, 0.5), Y))
    t = stats.ttest_1samp(Y, 0).confidence_interval()
    assert found.trust == 0
    assert (found.mean, found.ci_low, found.ci_high) == pytest.approx((Y.mean(), *t))


def test_power_tuning_draws_another_population_towards_the_labelled_one() -> None:
    judge_N = [0.9, 0.91, 0.9, 0.91]
    pairs = _pairs(np.tile(F, 10), np.tile(Y, 10))
    near = abs(corrected_mean(judge_N, pairs, tuning="power").mean - Y.mean())
    assert near < 0.1 * abs(corrected_mean(judge_N, pairs).mean - Y.mean())


def test_without_repeats_the_test_is_welchs() -> None:
    here, there = _pairs(F[:15], Y[:15] + 0.2), _pairs(np.full(40, 0.5), Y)  # λ = 0
    found = check_population(F, there, here).difference
    wanted = stats.ttest_ind(Y[:15] + 0.2, Y, equal_var=False).confidence_interval()
    assert found is not None
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


@given(st.integers(2, 4))
def test_a_response_that_is_there_several_times_tells_no_more(times: int) -> None:
    once = corrected_mean(F, _pairs(F, Y), documents_N=[f"d{i}" for i in range(40)])
    many = corrected_mean(
        np.repeat(F, times),
        _pairs(np.repeat(F, times), np.repeat(Y, times), each=times),
        documents_N=[f"d{i // times}" for i in range(40 * times)],
    )
    assert many.mean == pytest.approx(once.mean)
    assert many.ci_low == pytest.approx(once.ci_low, abs=2e-3)  # of λ's n − 1 alone


@given(st.permutations(range(40)))
def test_the_order_of_labels_is_of_no_account(order: list[int]) -> None:
    found = corrected_mean(F, _pairs(F[order], Y[order]))
    assert found.ci_low == pytest.approx(corrected_mean(F, _pairs(F, Y)).ci_low)


def test_a_population_far_off_the_labels_is_refused_with_figures() -> None:
    found = check_population(np.full(30, 0.95), _pairs(0.5 * F, Y))
    assert not found.transfers
    assert found.overlap == 0
    assert found.uncovered_frac == 1
    assert "0% of the judge's rewards" in found.reason
    assert "0.950 here" in found.reason


def test_the_labelled_population_itself_transfers() -> None:
    assert check_population(F, _pairs(F, Y)).transfers
    assert check_population(F, _pairs(F, Y), _pairs(F, Y)).transfers


def test_probes_find_a_policy_that_has_won_the_judge_over() -> None:
    won = check_population(F + 0.2, _pairs(F, Y), _pairs(F[:20] + 0.2, Y[:20]))
    assert not won.transfers
    assert "leaves out 0" in won.reason
    assert won.difference is not None
    assert won.difference.value == pytest.approx(
        (Y[:20] - (F[:20] + 0.2) * corrected_mean(F, _pairs(F, Y)).trust).mean()
        - (Y - F * corrected_mean(F, _pairs(F, Y)).trust).mean()
    )


@pytest.mark.parametrize(
    ("judge_N", "pairs", "told"),
    [
        ([0.5, 0.6], _pairs(F[:9], Y[:9]), "label 1 more"),
        ([0.5, 0.6], [], "10 documents or more"),
        ([0.5], _pairs(F, Y), "a spread needs two"),
        ([0.5, float("nan")], _pairs(F, Y), "1 rewards are not finite"),
    ],
)
def test_too_little_is_refused(judge_N: list[float], pairs: list[RewardPair], told: str) -> None:
    with pytest.raises(RewardError, match=told):
        corrected_mean(judge_N, pairs)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(RewardShapeError, match=r"\(1, 2\)"):
        corrected_mean([[0.5, 0.6]], _pairs(F, Y))
    with pytest.raises(RewardShapeError, match="1 documents for 2 rewards"):
        corrected_mean([0.5, 0.6], _pairs(F, Y), documents_N=["a"])
    with pytest.raises(RewardError, match="confidence"):
        corrected_mean([0.5, 0.6], _pairs(F, Y), confidence=1.0)
    with pytest.raises(RewardError, match="1 labelled responses of 1 documents"):
        check_population([0.5, 0.6], _pairs(F, Y), _pairs(F[:1], Y[:1]))


def _arena() -> list[dict[str, str]]:
    for parent in Path(__file__).resolve().parents:
        path = parent / "shared/data/judgements/cje_arena/scores.csv"
        if path.is_file():
            with path.open() as file:
                return list(csv.DictReader(file))
    pytest.skip("the public judgements are not here")


def _labelled(rows: list[dict[str, str]], source: str, policy: str) -> list[RewardPair]:
    return [
        RewardPair(
            task_id=row["prompt_id"],
            document=row["prompt_id"],
            judge=float(row["judge_score"]),
            label=float(row["oracle_label"]),
        )
        for row in rows
        if row["source"] == source and row["policy"] == policy and row["oracle_label"]
    ]


def test_public_judgements_are_corrected_where_they_transfer_and_refused_where_not() -> None:
    rows = _arena()
    base = _labelled(rows, "fresh", "base")
    for policy in ("base", "clone", "parallel_universe_prompt"):
        # The labels of a policy are of these responses alone, so its mean is corrected on them.
        probes = base if policy == "base" else _labelled(rows, "probe", policy)
        judge_N, label = [one.judge for one in probes], np.mean([one.label for one in probes])
        found = corrected_mean(judge_N, base)
        assert found.ci_low <= label <= found.ci_high < found.raw, policy
        assert check_population(judge_N, base).transfers, policy
        assert check_population(judge_N, base, probes).transfers, policy
    probes = _labelled(rows, "probe", "unhelpful")
    judged = [float(row["judge_score"]) for row in rows if row["policy"] == "unhelpful"]
    assert not check_population(judged, base, probes).transfers
    assert not check_population(judged, base).transfers


@pytest.mark.parametrize(("factor", "tuning"), [(1.0, "regression"), (0.5, "power")])
def test_residuals_without_a_spread_give_no_interval(factor: float, tuning: Tuning) -> None:
    equal = _pairs(F, factor * F + 0.1) if tuning == "regression" else _pairs(F, F * 0 + 0.3)

    with pytest.raises(RewardError, match=r"in every document of 40 labelled responses: without a"):
        corrected_mean(F, equal, tuning=tuning)


def test_a_population_check_without_a_spread_is_refused() -> None:
    equal = _pairs(F, np.full(40, 0.3))  # λ = 0: residuals are the labels

    with pytest.raises(RewardError, match=r"label − λ·judge is \+0\.300 in every document of 40"):
        check_population(F, equal, _pairs(F[:12], Y[:12]))
    with pytest.raises(RewardError, match="in every document of 3 probes"):
        check_population(F, _pairs(np.full(40, 0.5), Y), _pairs(F[:3], np.full(3, 0.3)))


def test_weights_of_one_response_alone_are_refused() -> None:
    first, *rest = _pairs(F, Y)
    lost = [first, *(one.model_copy(update={"weight": 1e-20}) for one in rest)]

    with pytest.raises(RewardError, match="40 labelled responses are worth no more than one"):
        corrected_mean(F, lost)
    with pytest.raises(RewardError, match="2 labelled responses are worth no more than one"):
        check_population(F, _pairs(F, Y), lost[:2])
