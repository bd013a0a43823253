from typing import Any

import pytest
from pydantic import ValidationError

from rubric_eval.records.run import Measure, Measured

FITTING: dict[str, Any] = {
    "measure": Measure.ACCURACY,
    "benchmark": "rubric_gsm8k",
    "model": "base",
    "fingerprint": "f",
    "protocol": "p",
    "ids": ("a", "b"),
    "clusters": ("a", "b"),
    "prompts": ("x", "y"),
    "seeds": (0,),
    "values_NK": ((1.0,), (None,)),
}


def test_values_and_ids_that_fit() -> None:
    measured = Measured.model_validate(FITTING)
    assert Measured.model_validate_json(measured.model_dump_json()) == measured


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("ids", ("a", "a"), "an id is there twice"),
        ("clusters", ("a",), "clusters has 1 entries for 2 ids"),
        ("fields", ("physics",), "fields has 1 entries for 2 ids"),
        ("values_NK", ((1.0,), (0.0, 1.0)), "numbers of values a question differ"),
        ("values_NK", ((float("nan"),), (0.0,)), "finite"),
    ],
)
def test_what_does_not_fit_is_refused(field: str, value: object, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Measured.model_validate(FITTING | {field: value})
