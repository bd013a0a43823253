"""A number with its interval: what it refuses, how it is written, and how files hold it."""

import json
import math

import pytest
from pydantic import BaseModel, ValidationError

from rubric_judge.statistics.estimate import UNKNOWN, Estimate, MeanRecord


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": math.nan},
        {"value": math.inf},
        {"value": 0.5, "low": 0.1},
        {"value": 0.5, "low": 0.6, "high": 0.1},
        {"value": None, "low": 0.1, "high": 0.2},
        {"value": 0.5, "low": 0.1, "high": math.nan},
        {"value": 0.5, "n": -1},
        {"value": 0.5, "mean": 0.5},
    ],
)
def test_a_failure_is_no_estimate(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Estimate(**wrong)


@pytest.mark.parametrize("number", ["mean", "ci_low", "ci_high"])
def test_a_failure_in_a_file_is_no_mean(number: str) -> None:
    row = {"mean": 0.5, "ci_low": 0.1, "ci_high": 0.9, "n": 3, number: math.nan}
    with pytest.raises(ValidationError, match="finite"):
        MeanRecord.model_validate_json(json.dumps(row))


def test_an_estimate_is_not_changed_and_says_why_it_has_no_interval() -> None:
    estimate = Estimate(0.5, 0.25, 0.75, 12)
    with pytest.raises(AttributeError):
        estimate.value = 0.6  # pyright: ignore[reportAttributeAccessIssue]
    assert estimate.no_interval is None
    assert Estimate(0.5).no_interval == "too few to say"
    assert (UNKNOWN.no_interval, f"{UNKNOWN}") == (None, "–")
    assert f"{estimate:.1f}" == "0.5 [0.2, 0.8]"
    assert f"{Estimate(-0.5)}" == "−0.50 [too few to say]"
    with pytest.raises(ValueError, match="no number"):
        _ = UNKNOWN.number


def test_limits_that_rounding_has_swapped_are_a_point() -> None:
    estimate = Estimate(1.0, 1.0, 1.0 - 1e-12)
    assert f"{estimate}" == "1.00"


class _Report(BaseModel):
    bias: Estimate


def test_reports_hold_an_estimate_as_they_did() -> None:
    content = {
        "value": 0.5,
        "low": 0.25,
        "high": 0.75,
        "unit": "task",
        "no_interval": None,
    }
    report = _Report.model_validate({"bias": content})
    assert report.bias == Estimate(0.5, 0.25, 0.75, unit="task")
    assert json.loads(report.model_dump_json()) == {"bias": content}
    bare = {"value": 0.5, "low": None, "high": None, "unit": None}
    assert _Report.model_validate({"bias": bare}).bias == Estimate(0.5)


def test_a_record_of_a_mean_is_an_estimate() -> None:
    record = MeanRecord.model_validate({"mean": 0.5, "n": 3})
    assert record.estimate == Estimate(0.5, n=3)


def test_a_number_that_rounds_to_zero_has_no_sign() -> None:
    estimate = Estimate(value=-0.0004, low=-0.004, high=1.0)

    assert estimate.text(".2f") == "0.00 [0.00, 1.00]"
    assert estimate.text("+.3f") == "0.000 [−0.004, +1.000]"
