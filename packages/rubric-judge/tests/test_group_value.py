"""The mathematics of a group's cascade, held against draws from the posterior."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_core import RewardError, group_advantages
from rubric_core.arrays import FloatArray
from rubric_judge.judges.cascade import value
from rubric_judge.judges.cascade.deciding import GroupDecision, Rule
from rubric_judge.judges.cascade.posterior import Readings, posterior
from rubric_judge.judges.cascade.value import Costs

BY_CELL = Costs(call=0, cell=1)


def drawn_correlation(
    mean_GM: FloatArray, alpha_M: FloatArray, *, draws: int, seed: int = 0
) -> float:
    """The slow reference: advantages of fully judged groups that are drawn from the posterior.

    As over the many groups of a step, products are summed over draws before they are divided.
    """
    rng = np.random.default_rng(seed)
    ours_G = group_advantages([mean_GM @ alpha_M])[0]
    full_DGM = rng.random((draws, *mean_GM.shape)) < mean_GM
    full_DG = group_advantages(full_DGM @ alpha_M)
    products = (full_DG * ours_G).sum()
    return float(products / np.sqrt((full_DG**2).sum() * draws * (ours_G**2).sum()))


def _expected(
    mean_GM: FloatArray, variance_GM: FloatArray, alpha_M: FloatArray
) -> float:
    return value.expected_correlation(value.moments(mean_GM, variance_GM, alpha_M))


def _variance(mean_GM: FloatArray) -> FloatArray:
    return mean_GM * (1 - mean_GM)


def _group(seed: int, responses: int, criteria: int, spread: float = 2.0) -> FloatArray:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, spread, (responses, criteria))
    return 1 / (1 + np.exp(-logits))


def test_worked_numbers_of_two_responses_and_one_criterion() -> None:
    mean_GM = np.array([[1.0], [0.5]])
    variance_GM = np.array([[0.0], [0.25]])

    found = value.moments(mean_GM, variance_GM, np.array([1.0]))

    # r = 1 and ½: S² = 2 · ¼² ; N = (1 − ½) · ¼.
    assert found == (pytest.approx(0.125), pytest.approx(0.125))
    assert value.expected_correlation(found) == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("responses", "criteria"), [(4, 3), (8, 6), (16, 8), (32, 5)])
def test_the_expected_correlation_is_near_that_of_draws(
    seed: int, responses: int, criteria: int
) -> None:
    mean_GM = _group(seed, responses, criteria)
    alpha_M = np.random.default_rng(seed).dirichlet(np.full(criteria, 3.0))

    ours = _expected(mean_GM, _variance(mean_GM), alpha_M)
    drawn = drawn_correlation(mean_GM, alpha_M, draws=4000)

    assert ours == pytest.approx(drawn, abs=0.06)


def test_errors_that_a_response_shares_add_to_the_noise() -> None:
    """Two criteria that are always wrong together err as one of all the weight."""
    alpha_M = np.array([0.7, 0.3])
    variance_GM = np.full((4, 2), 0.16)
    mean_GM = np.full((4, 2), 0.8)

    one = value.moments(mean_GM[:, :1], variance_GM[:, :1], np.array([1.0]))
    both = value.moments(mean_GM, variance_GM, alpha_M, together=1 - 1e-12)

    assert both.noise == pytest.approx(one.noise)
    for together in (0.0, 0.4):
        found = value.moments(mean_GM, variance_GM, alpha_M, together=together)
        worth_GM = value.worth(variance_GM, alpha_M, together=together)
        assert worth_GM.sum() * 0.75 == pytest.approx(found.noise)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(1, 6), st.data())
def test_a_verdict_moves_its_worth_from_noise_to_signal_on_average(
    seed: int, responses: int, criteria: int, data: st.DataObject
) -> None:
    mean_GM = _group(seed, responses, criteria)
    alpha_M = np.random.default_rng(seed).dirichlet(np.ones(criteria))
    row = data.draw(st.integers(0, responses - 1))
    column = data.draw(st.integers(0, criteria - 1))
    before = value.moments(mean_GM, _variance(mean_GM), alpha_M)
    chance = float(mean_GM[row, column])

    after = [0.0, 0.0]
    for verdict, weight in ((1.0, chance), (0.0, 1 - chance)):
        known_GM = mean_GM.copy()
        known_GM[row, column] = verdict
        found = value.moments(known_GM, _variance(known_GM), alpha_M)
        after[0] += weight * found.signal
        after[1] += weight * found.noise

    worth = alpha_M[column] ** 2 * chance * (1 - chance) * (1 - 1 / responses)
    assert after[0] == pytest.approx(before.signal + worth, abs=1e-9)
    assert after[1] == pytest.approx(before.noise - worth, abs=1e-9)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(1, 6))
def test_correlation_is_in_bounds_and_1_where_all_is_known(
    seed: int, responses: int, criteria: int
) -> None:
    mean_GM = _group(seed, responses, criteria)
    alpha_M = np.random.default_rng(seed).dirichlet(np.ones(criteria))

    found = _expected(mean_GM, _variance(mean_GM), alpha_M)

    assert 0 <= found < 1
    nothing = np.zeros_like(mean_GM)
    assert _expected(mean_GM, nothing, alpha_M) == 1
    equal_GM = np.broadcast_to(mean_GM[:1], mean_GM.shape)
    assert _expected(equal_GM, _variance(equal_GM), alpha_M) == 0
    # The order of responses and a criterion that nobody differs on change nothing.
    turned_GM = mean_GM[::-1]
    wider_GM = np.hstack([turned_GM, np.ones((responses, 1))])
    halves_M = np.append(alpha_M / 2, 0.5)
    again = _expected(wider_GM, _variance(wider_GM), halves_M)
    assert again == pytest.approx(found, abs=1e-6)


@pytest.mark.parametrize(
    ("mean", "variance", "alpha"),
    [
        ([[1.2]], [[0.0]], [1.0]),
        ([[math.nan]], [[0.0]], [1.0]),
        ([[0.5]], [[0.3]], [1.0]),
        ([[0.5]], [[0.25, 0.25]], [1.0]),
        ([[0.5]], [[0.25]], [0.5, 0.5]),
        ([0.5], [0.25], [1.0]),
    ],
)
def test_what_is_no_probability_or_does_not_fit_is_refused(
    mean: object, variance: object, alpha: object
) -> None:
    with pytest.raises(RewardError):
        value.moments(np.array(mean), np.array(variance), np.array(alpha))


def test_a_call_for_several_cells_pays_its_prompt_once() -> None:
    worth_GM = np.array([[5.0, 4.0, 4.0], [6.0, 0.0, 0.0], [1.0, 1.0, 1.0]])

    # By cells alone the greatest come first; with a dear prompt a whole response does.
    by_cell = value.choose_cells(worth_GM, needed=11.0, costs=BY_CELL)
    by_call = value.choose_cells(worth_GM, needed=11.0, costs=Costs(call=10, cell=1))

    assert by_cell.tolist() == [[True, False, False], [True, False, False], [False] * 3]
    assert by_call.tolist() == [[True, True, True], [False] * 3, [False] * 3]
    assert value.price(by_call, Costs(call=10, cell=1)) == 13


@settings(max_examples=60)
@given(
    st.integers(0, 10_000),
    st.sampled_from([BY_CELL, Costs(call=3, cell=1), Costs(call=1, cell=0)]),
    st.floats(0, 30),
    st.floats(0, 5),
)
def test_choices_reach_what_is_needed_or_spend_the_budget(
    seed: int, costs: Costs, budget: float, needed: float
) -> None:
    worth_GM = np.random.default_rng(seed).random((4, 3))

    chosen_GM = value.choose_cells(worth_GM, needed=needed, costs=costs, budget=budget)

    assert value.price(chosen_GM, costs) <= budget + 1e-9
    reached = worth_GM[chosen_GM].sum() >= needed - 1e-9
    cheapest = costs.call + costs.cell
    assert (
        reached
        or value.price(chosen_GM, costs) > budget - cheapest - 1e-9
        or (chosen_GM.all())
    )


def test_by_cells_the_choice_is_the_best_there_is() -> None:
    worth_GM = np.random.default_rng(1).random((3, 3))
    cells = list(itertools.product(range(3), range(3)))

    chosen_GM = value.choose_cells(worth_GM, needed=99, costs=BY_CELL, budget=4)

    best = max(
        sum(worth_GM[cell] for cell in four)
        for four in itertools.combinations(cells, 4)
    )
    assert worth_GM[chosen_GM].sum() == pytest.approx(best)


def _posterior_by_hand(
    readings: Readings, known_GM: FloatArray, rates: FloatArray, weights: FloatArray
) -> tuple[FloatArray, float]:
    """Sum over every verdict of one criterion of a few responses: the slow reference."""
    assert readings.base_M is not None
    chance_G = readings.mean_GM[:, 0]
    base = float(readings.base_M[0])
    right = float(np.maximum(chance_G, 1 - chance_G).mean())
    called_G = chance_G >= 0.5
    total = 0.0
    sums_G = np.zeros(len(chance_G))
    squares = 0.0
    for verdicts in itertools.product((0, 1), repeat=len(chance_G)):
        z_G = np.array(verdicts)
        if any(
            not math.isnan(k) and k != z
            for k, z in zip(known_GM[:, 0], z_G, strict=True)
        ):
            continue
        apart = float(np.where(z_G == 1, chance_G, 1 - chance_G).prod())
        shared = right * (z_G == called_G).all() + (1 - right) * (z_G != called_G).all()
        read = (1 - readings.shared) * apart + readings.shared * float(shared)
        prior = sum(
            weight
            * float(np.where(z_G == 1, rate / base, (1 - rate) / (1 - base)).prod())
            for rate, weight in zip(rates, weights, strict=True)
        )
        total += read * prior
        sums_G += read * prior * z_G
        squares += read * prior * z_G.sum() ** 2
    mean_G = sums_G / total
    return mean_G, squares / total - float(mean_G.sum()) ** 2


@pytest.mark.parametrize("shared", [0.0, 0.4])
@pytest.mark.parametrize("known", [(), (0,), (0, 2)])
def test_the_posterior_is_that_of_all_verdicts_one_by_one(
    shared: float, known: tuple[int, ...]
) -> None:
    chance_G1 = np.array([[0.9], [0.7], [0.2], [0.6], [0.95]])
    known_G1 = np.full((5, 1), np.nan)
    known_G1[list(known)] = 0.0
    readings = Readings(chance_G1, base_M=np.array([0.6]), alike=0.5, shared=shared)
    # Beta(.6, .4) in steps of the angle, as many as one likes.
    angle = (np.arange(4000) + 0.5) * math.pi / 2 / 4000
    rates = np.sin(angle) ** 2
    weights = np.sin(angle) ** 0.2 * np.cos(angle) ** -0.2
    mean_G, of_sum = _posterior_by_hand(
        readings, known_G1, rates, weights / weights.sum()
    )

    found = posterior(readings, known_G1)

    assert found.mean_GM[:, 0] == pytest.approx(mean_G, abs=5e-3)
    assert found.sum_variance_M[0] == pytest.approx(of_sum, abs=1e-2)
    assert (found.variance_GM[list(known)] == 0).all()


def test_without_likeness_nothing_is_learned_of_other_responses() -> None:
    mean_GM = _group(3, 5, 4)
    known_GM = np.full((5, 4), np.nan)
    known_GM[0] = 0.0

    found = posterior(Readings(mean_GM), known_GM)

    assert found.mean_GM[1:] == pytest.approx(mean_GM[1:])
    assert found.mean_GM[0].tolist() == [0.0] * 4
    assert found.sum_variance_M == pytest.approx(_variance(mean_GM[1:]).sum(axis=0))


def test_what_is_misread_once_is_misread_for_the_group() -> None:
    mean_GM = np.full((4, 2), 0.9)
    known_GM = np.full((4, 2), np.nan)
    known_GM[0, 0] = 0.0

    found = posterior(Readings(mean_GM, shared=0.5), known_GM).mean_GM

    # Both states say "unmet" with .1: of the halves, one reads on, one is wrong of all.
    assert found[1:, 0] == pytest.approx(np.full(3, 0.45), abs=1e-6)
    assert found[:, 1] == pytest.approx(np.full(4, 0.9), abs=1e-6)


def test_siblings_that_all_meet_a_criterion_vouch_for_a_doubtful_one() -> None:
    mean_GM = np.array([[0.95]] * 6 + [[0.5]])
    nothing = np.full((7, 1), np.nan)

    alone = posterior(Readings(mean_GM), nothing).mean_GM[-1, 0]
    among = posterior(Readings(mean_GM, alike=0.45), nothing).mean_GM[-1, 0]

    assert (alone, among > 0.8) == (pytest.approx(0.5), True)


def test_of_a_response_that_was_not_read_the_siblings_tell() -> None:
    mean_GM = np.array([[0.95], [0.9], [np.nan]])
    nothing = np.full((3, 1), np.nan)

    found = posterior(Readings(mean_GM, alike=0.45, shared=0.3), nothing).mean_GM

    assert 0.6 < found[2, 0] < 0.9


def _rule(**changes: object) -> Rule:
    fields = {"target": 0.9, "budget": 1.0, "least_spread": 0.0, "costs": BY_CELL}
    return Rule(**{**fields, **changes})  # pyright: ignore[reportArgumentType]


def _decided(
    mean_GM: FloatArray, strong_GM: FloatArray, rule: Rule, **more: object
) -> GroupDecision:
    alpha_M = np.full(mean_GM.shape[1], 1 / mean_GM.shape[1])
    decision = GroupDecision(Readings(mean_GM), alpha_M, rule, **more)  # pyright: ignore[reportArgumentType]
    while (chosen_GM := decision.choose()).any():
        decision.learn(np.where(chosen_GM, strong_GM, np.nan))
    return decision


@pytest.mark.parametrize("seed", range(5))
def test_a_group_ends_at_its_target_its_budget_or_when_all_is_known(seed: int) -> None:
    mean_GM = _group(seed, 8, 6)
    strong_GM = (np.random.default_rng(seed).random((8, 6)) < mean_GM).astype(float)

    found = _decided(mean_GM, strong_GM, _rule())
    assert (found.stop, found.correlation >= 0.9) == ("target", True)
    assert 0 < found.spent_frac < 1
    is_known_GM = ~np.isnan(found.known_GM)
    assert np.array_equal(found.values_GM[is_known_GM], strong_GM[is_known_GM])

    poor = _decided(mean_GM, strong_GM, _rule(target=0.999, budget=0.25))
    assert (poor.stop, poor.spent_frac) == ("budget", 0.25)

    nearly = _decided(mean_GM, strong_GM, _rule(target=1 - 1e-15))
    assert (nearly.stop, nearly.correlation, nearly.spent_frac) == ("all", 1, 1)


def test_a_group_that_is_not_expected_to_differ_gets_equal_values() -> None:
    mean_GM = np.array([[0.99, 0.98], [0.98, 0.99], [0.99, 0.99]])

    found = _decided(mean_GM, np.ones((3, 2)), _rule(least_spread=0.2))

    assert (found.stop, found.spent) == ("spread", 0)
    assert np.ptp(found.values_GM @ [0.5, 0.5]) == 0
    assert found.values_GM.mean() == pytest.approx(mean_GM.mean())


def test_audits_are_asked_for_whatever_they_are_worth_and_are_paid_for() -> None:
    mean_GM = np.array([[0.999, 0.5], [0.001, 0.5]])
    first_GM = np.array([[True, False], [False, False]])

    found = _decided(
        mean_GM,
        np.array([[0.0, 1.0], [0.0, 1.0]]),
        _rule(budget=0.25),
        first_GM=first_GM,
    )

    assert found.known_GM[0, 0] == 0
    assert (found.spent, found.stop) == (1, "budget")


def test_rewards_that_are_not_expected_to_differ_have_reached_any_target() -> None:
    mean_GM = np.array([[1e-10], [2e-10], [1e-10]])
    readings = Readings(mean_GM)
    decision = GroupDecision(readings, np.ones(1), _rule(target=0.99))

    assert not decision.choose().any()
    assert (decision.stop, decision.correlation) == ("target", 1.0)
