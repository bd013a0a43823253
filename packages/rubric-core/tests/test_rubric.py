import math
import pickle
import sys
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import Criterion, Rubric, SchemaError

weights = st.lists(st.floats(0, 1e6), min_size=1, max_size=12).filter(
    lambda w: sum(w) > 0
)


def rubric_of(*weights: float) -> Rubric:
    return Rubric(
        criteria=tuple(Criterion(id=f"c{j}", weight=w) for j, w in enumerate(weights))
    )


def test_a_rubric_knows_its_weights_and_shares(rubric: Rubric) -> None:
    assert rubric.total_weight == 5.0
    np.testing.assert_array_equal(rubric.weights_M, [3.0, 1.0, 1.0])
    np.testing.assert_allclose(rubric.shares_M, [0.6, 0.2, 0.2], rtol=1e-15)
    assert rubric.effective_criteria == pytest.approx(25 / 11, rel=1e-15)


def test_a_rubric_reads_like_a_sequence_of_criteria(rubric: Rubric) -> None:
    assert len(rubric) == 3
    assert rubric.ids == ("derivation", "units", "limits")
    assert [criterion.id for criterion in rubric] == list(rubric.ids)
    assert rubric["units"] is rubric.criteria[1]


def test_an_unknown_id_is_a_key_error(rubric: Rubric) -> None:
    with pytest.raises(KeyError, match="unit"):
        rubric["unit"]


@pytest.mark.parametrize("name", ["weights_M", "shares_M"])
def test_arrays_are_float64_and_read_only(rubric: Rubric, name: str) -> None:
    array = getattr(rubric, name)

    assert array.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0


def test_a_rubric_needs_a_criterion() -> None:
    with pytest.raises(SchemaError, match="at least one criterion"):
        Rubric(criteria=())


def test_criterion_ids_must_be_unique() -> None:
    with pytest.raises(SchemaError, match="'a' occurs more than once: rename one"):
        Rubric(criteria=(Criterion(id="a", weight=1), Criterion(id="a", weight=2)))


# The third one's exact sum overflows, and the sum of its floats, one by one, does not.
@pytest.mark.parametrize(
    "all_weights",
    [(0.0,), (0.0, 0.0), (sys.float_info.max, *[9.9e291] * 20), (1e308, 1e308)],
    ids=["zero", "zeros", "beyond by a rounding", "beyond"],
)
def test_the_total_weight_is_positive_and_finite(
    all_weights: tuple[float, ...],
) -> None:
    with pytest.raises(
        SchemaError, match="the total weight must be positive and finite"
    ):
        rubric_of(*all_weights)


def test_a_criterion_may_weigh_nothing_beside_others() -> None:
    np.testing.assert_array_equal(rubric_of(0, 2).shares_M, [0, 1])


@given(weights)
def test_shares_sum_to_one(all_weights: list[float]) -> None:
    assert math.fsum(rubric_of(*all_weights).shares_M) == pytest.approx(1.0, rel=1e-12)


@given(weights, st.randoms(use_true_random=False))
def test_the_total_does_not_depend_on_the_order(
    all_weights: list[float], random: Random
) -> None:
    shuffled = list(all_weights)
    random.shuffle(shuffled)

    assert rubric_of(*shuffled).total_weight == rubric_of(*all_weights).total_weight


def test_a_rubric_crosses_processes(rubric: Rubric) -> None:
    returned = pickle.loads(pickle.dumps(rubric))  # our own bytes

    assert returned == rubric
    assert returned.reveal() == rubric.reveal()


def test_rubrics_are_equal_by_content(rubric: Rubric) -> None:
    assert rubric == Rubric(criteria=rubric.criteria)
    assert hash(rubric) == hash(Rubric(criteria=rubric.criteria))
