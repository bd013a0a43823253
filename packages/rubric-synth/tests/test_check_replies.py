"""Checks as a model fills them, and the directives that come of them."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_judge import parse_verification
from rubric_judge.checks.numeric import NumericCheck, states_number
from rubric_synth import RejectionReason, StageRefusal
from rubric_synth.stages.llm.replies import CheckReply, NumericReply, to_directive


class Criterion(BaseModel):
    model_config = ConfigDict(extra="forbid")

    check: CheckReply | None


NUMERIC: dict[str, Any] = {
    "kind": "numeric",
    "value": 12.0,
    "unit": "m/s",
    "tolerance": 2,
    "tolerance_as": "percent",
    "where": "answer",
}


def _read(check: dict[str, Any]) -> CheckReply:
    read = Criterion.model_validate_json(json.dumps({"check": check})).check
    assert read is not None
    return read


def _numeric(**changes: object) -> CheckReply:
    return _read({**NUMERIC, **changes})


@pytest.mark.parametrize(
    ("check", "directive"),
    [
        (NUMERIC, "numeric: 12.0 ± 2.0%; unit=m/s; where=answer"),
        (
            {**NUMERIC, "value": 6.02e23, "unit": "1/mol", "where": "any"},
            "numeric: 6.02e+23 ± 2.0%; unit=1/mol; where=any",
        ),
        (
            {
                **NUMERIC,
                "value": -40,
                "unit": "°C",
                "tolerance": 0.5,
                "tolerance_as": "absolute",
            },
            "numeric: -40.0 ± 0.5; unit=°C; where=answer",
        ),
        ({**NUMERIC, "unit": " dimensionless "}, "numeric: 12.0 ± 2.0%; where=answer"),
        ({**NUMERIC, "unit": "%"}, "numeric: 12.0 ± 2.0%; unit=%; where=answer"),
        (
            {**NUMERIC, "unit": "apples"},
            "numeric: 12.0 ± 2.0%; unit=apples; where=answer",
        ),
        (
            {**NUMERIC, "unit": "cells/mL"},
            "numeric: 12.0 ± 2.0% [cells/mL]; where=answer",
        ),
        (
            {"kind": "contains_all", "phrases": ["binary  search", "`log n`"]},
            "contains_all: binary search | `log n`",
        ),
        ({"kind": "contains_any", "phrases": ["heap"]}, "contains_any: heap"),
        ({"kind": "regex", "pattern": r" O\(n\) "}, r"regex: O\(n\)"),
        (
            {"kind": "python_tests", "tests": "\nassert area(2, 3) == 6\n"},
            "python_tests:\nassert area(2, 3) == 6",
        ),
    ],
)
def test_a_check_becomes_a_directive_that_can_be_read(
    check: dict[str, Any], directive: str
) -> None:
    assert to_directive(_read(check)) == directive
    assert parse_verification(directive) is not None


@pytest.mark.parametrize(
    "check",
    [
        {**NUMERIC, "tolerance": -1},
        {**NUMERIC, "tolerance": 26},
        {**NUMERIC, "tolerance": 3.1, "tolerance_as": "absolute"},
        {**NUMERIC, "unit": "m/sec2"},
        {**NUMERIC, "unit": "m; where=any"},
        {**NUMERIC, "unit": "m\nregex: ."},
        {**NUMERIC, "unit": "m" * 600},
        {"kind": "contains_all", "phrases": []},
        {"kind": "contains_all", "phrases": ["a", " "]},
        {"kind": "contains_any", "phrases": ["a|b"]},
        {"kind": "contains_any", "phrases": ["word"] * 9},
        {"kind": "contains_any", "phrases": ["long" * 30]},
        {"kind": "regex", "pattern": "("},
        {"kind": "regex", "pattern": "  "},
        {"kind": "regex", "pattern": "a\nb"},
        {"kind": "regex", "pattern": "a" * 501},
        {"kind": "regex", "pattern": "(" * 49 + "a" + "{9})" * 49},
        {"kind": "python_tests", "tests": ""},
        {"kind": "python_tests", "tests": "assert ("},
        {"kind": "python_tests", "tests": "print(secret_word)"},
        {"kind": "python_tests", "tests": "import numpy\nassert numpy"},
        {"kind": "python_tests", "tests": "assert True\n" * 700},
    ],
)
def test_a_check_that_no_program_can_run_is_a_counted_refusal_without_its_text(
    check: dict[str, Any],
) -> None:
    with pytest.raises(StageRefusal) as refused:
        to_directive(_read(check))

    assert refused.value.reason is RejectionReason.BROKEN_CHECK
    assert refused.value.detail
    assert "secret_word" not in str(refused.value)


@pytest.mark.parametrize("value", ["1e999", "NaN", '"12"'])
def test_a_value_that_is_no_finite_number_is_off_schema(value: str) -> None:
    text = json.dumps({"check": NUMERIC}).replace("12.0", value)

    with pytest.raises(ValidationError):
        Criterion.model_validate_json(text, strict=True)


@given(
    value=st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda value: value == 0 or 1e-290 < abs(value) < 1e290
    ),
    tolerance=st.floats(0, 25),
)
def test_every_finite_number_survives_the_way_into_the_grammar(
    value: float, tolerance: float
) -> None:
    check = NumericReply(
        kind="numeric",
        value=value,
        unit="",
        tolerance=tolerance,
        tolerance_as="percent",
        where="answer",
    )
    read = parse_verification(to_directive(check))

    assert isinstance(read, NumericCheck)
    assert read.value == value
    assert math.isclose(read.tolerance, abs(value) * tolerance / 100, rel_tol=1e-9)
    assert states_number(read, f"Answer: {value!r}")


def test_the_schema_of_a_check_has_no_keyword_that_a_server_may_refuse() -> None:
    text = json.dumps(Criterion.model_json_schema())

    for keyword in (
        "oneOf",
        "discriminator",
        "maxLength",
        "maxItems",
        "minimum",
        "default",
    ):
        assert f'"{keyword}"' not in text
    for definition in Criterion.model_json_schema()["$defs"].values():
        assert definition["additionalProperties"] is False
        assert set(definition["required"]) == set(definition["properties"])
