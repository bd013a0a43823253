import math

import numpy as np
import pytest

from rubric_core import Criterion, SchemaError


def test_an_integer_weight_becomes_a_float() -> None:
    weight = Criterion(id="a", weight=2).weight

    assert weight == 2.0
    assert type(weight) is float


def test_numpy_floats_are_weights() -> None:
    assert Criterion(id="a", weight=np.float64(0.5)).weight == 0.5


@pytest.mark.parametrize(
    "weight",
    [
        "2",
        True,
        None,
        -1,
        -1e-300,
        math.nan,
        math.inf,
        -math.inf,
        10**400,
        [1],
        {"w": 1},
        1j,
    ],
)
def test_anything_but_a_finite_number_from_zero_up_is_no_weight(weight: object) -> None:
    with pytest.raises(SchemaError, match="weight"):
        Criterion(id="a", weight=weight)


@pytest.mark.parametrize("identifier", ["", 3, None, b"a", True, "a\ud800"])
def test_an_id_is_text_that_is_not_empty(identifier: object) -> None:
    with pytest.raises(SchemaError, match="id"):
        Criterion(id=identifier, weight=1)


@pytest.mark.parametrize(
    "field", ["name", "description", "scoring_guide", "verification_method"]
)
@pytest.mark.parametrize("value", [1, None, ["a"], True, "half \ud83d of a pair"])
def test_a_text_is_text_that_utf_8_can_hold(field: str, value: object) -> None:
    with pytest.raises(SchemaError, match=field):
        Criterion.model_validate({"id": "a", "weight": 1, field: value})


@pytest.mark.parametrize(
    "field", ["required_elements", "expected_keywords", "expected_concepts"]
)
@pytest.mark.parametrize("value", ["abc", [1], [None], {"a": 1}, None, [["a"]]])
def test_a_list_of_texts_holds_texts_alone(field: str, value: object) -> None:
    with pytest.raises(SchemaError, match=field):
        Criterion.model_validate({"id": "a", "weight": 1, field: value})


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(SchemaError, match="points"):
        Criterion.model_validate({"id": "a", "weight": 1, "points": 3})


def test_a_criterion_does_not_change() -> None:
    criterion = Criterion(id="a", weight=1)

    with pytest.raises(AttributeError, match="Criterion is frozen, 'weight'"):
        criterion.weight = 2.0  # pyright: ignore[reportAttributeAccessIssue]


def test_reveal_returns_what_the_criterion_was_made_of() -> None:
    fields = {
        "id": "a",
        "weight": 1.5,
        "name": "n",
        "description": "d",
        "required_elements": ["e"],
        "scoring_guide": "s",
        "verification_method": "v",
        "expected_keywords": ["k"],
        "expected_concepts": ["c"],
        "kind": "cause",
        "judges": "turn_2",
    }

    assert Criterion.model_validate(fields).reveal() == fields
    assert set(fields) == set(Criterion.model_fields)


def test_criteria_with_equal_fields_are_equal_and_hash_alike() -> None:
    first, second = (Criterion(id="a", weight=1, description="d") for _ in range(2))

    assert first == second
    assert hash(first) == hash(second)
    assert first != Criterion(id="a", weight=1, description="other")
