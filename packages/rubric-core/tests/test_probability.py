"""The probability of a verdict, from a server's list of the most probable tokens."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    Criterion,
    JudgeResult,
    Rubric,
    SchemaError,
    VerdictProbability,
)

RUBRIC = Rubric(
    criteria=(Criterion(id="loss", weight=2.0), Criterion(id="layer", weight=1.0))
)
READING = VerdictProbability.of(yes=0.6, no=0.2, unlisted=0.1)


def test_a_worked_reading() -> None:
    assert READING.met == pytest.approx(0.75)
    assert READING.mass == pytest.approx(0.8)
    assert (READING.low, READING.high) == (
        pytest.approx(6 / 9),
        pytest.approx(7 / 9),
    )


def test_with_nothing_left_out_the_interval_is_the_probability() -> None:
    reading = VerdictProbability.of(yes=0.3, no=0.6)

    assert reading.low == reading.met == reading.high == pytest.approx(1 / 3)


@given(
    st.lists(st.floats(0, 1), min_size=4, max_size=40),
    st.integers(min_value=1, max_value=39),
    st.data(),
)
def test_the_expectation_over_all_tokens_lies_in_the_interval(
    weights: list[float], listed: int, data: st.DataObject
) -> None:
    """Any distribution, any spelling of the verdicts, cut off at any k."""
    total = math.fsum(weights)
    if total == 0:
        return
    tokens = sorted((weight / total for weight in weights), reverse=True)
    values = data.draw(
        st.lists(
            st.sampled_from([1, 0, None]), min_size=len(tokens), max_size=len(tokens)
        )
    )
    verdicts = [
        (token, value)
        for token, value in zip(tokens, values, strict=True)
        if value is not None
    ]
    mass = math.fsum(token for token, _ in verdicts)
    shown = list(zip(tokens, values, strict=True))[:listed]
    yes, no = (
        math.fsum(token for token, value in shown if value == kind) for kind in (1, 0)
    )
    if yes + no == 0 or mass == 0:
        return
    unlisted = max(0.0, 1 - math.fsum(token for token, _ in shown))

    reading = VerdictProbability.of(yes=yes, no=no, unlisted=unlisted)

    truth = math.fsum(token for token, value in verdicts if value) / mass
    assert reading.low - 1e-9 <= truth <= reading.high + 1e-9
    assert reading.high - reading.low <= unlisted / (yes + no + unlisted) + 1e-9


@pytest.mark.parametrize(
    "figures",
    [
        {"yes": -0.1, "no": 0.2},
        {"yes": math.nan, "no": 0.2},
        {"yes": 0.5, "no": math.inf},
        {"yes": 0.5, "no": 0.5, "unlisted": -1e-3},
        {"yes": 0.0, "no": 0.0, "unlisted": 1.0},
    ],
)
def test_what_is_no_probability_is_refused(figures: dict[str, float]) -> None:
    with pytest.raises(SchemaError, match=r"is no probability|both 0"):
        VerdictProbability.of(**figures)


def test_a_reading_outside_of_its_interval_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"from low=0\.6 to high=0\.7"):
        VerdictProbability(met=0.5, low=0.6, high=0.7, mass=1.0)


def test_readings_are_kept_and_left_out_where_there_are_none() -> None:
    plain = JudgeResult.scored(RUBRIC, {"loss": 1.5, "layer": 0.0}, judge="j")
    read = JudgeResult.model_validate(
        {**dict(plain), "probabilities": {"loss": READING}}
    )

    assert "probabilities" not in json.loads(plain.model_dump_json())
    assert "probabilities" not in plain.model_dump()
    assert JudgeResult.model_validate_json(plain.model_dump_json()) == plain
    assert JudgeResult.model_validate_json(read.model_dump_json()) == read
    assert read.probabilities["loss"].met == pytest.approx(0.75)


def test_a_reading_of_a_criterion_without_a_score_is_refused() -> None:
    plain = JudgeResult.scored(RUBRIC, {"loss": 1.5, "layer": 0.0}, judge="j")

    with pytest.raises(SchemaError, match="probabilities for 1 criteria"):
        JudgeResult.model_validate({**dict(plain), "probabilities": {"x": READING}})
