import math
from typing import Any

import pytest

from rubric_core import JudgeResult, Outcome, Reason, Rubric, SchemaError, Usage

SCORES = {"derivation": 2.0, "units": 1.0, "limits": 0.5}
INVALID = [reason for reason in Reason if reason.outcome is Outcome.INVALID]
UNAVAILABLE = [reason for reason in Reason if reason.outcome is Outcome.UNAVAILABLE]


def test_the_reasons_are_pinned() -> None:
    assert [reason.value for reason in INVALID] == [
        "not_json",
        "truncated",
        "refused",
        "missing_criterion",
        "unknown_criterion",
        "duplicate_criterion",
        "score_out_of_range",
        "not_finite",
        "wrong_type",
        "total_mismatch",
        "max_total_mismatch",
        "empty",
        "evidence_not_found",
        "context_full",
        "no_verdict",
    ]
    assert [reason.value for reason in UNAVAILABLE] == [
        "timeout",
        "rate_limited",
        "server_error",
        "connection",
        "auth",
        "out_of_credit",
        "bad_request",
        "cancelled",
        "not_written",
        "judge_error",
        "other_model",
        "no_probabilities",
        "no_response",
    ]


def test_a_program_gives_scores_and_the_totals_follow(rubric: Rubric) -> None:
    result = JudgeResult.scored(rubric, SCORES, judge="program", reasoning="counted")

    assert result.outcome is Outcome.SCORED
    assert result.scores == SCORES
    assert (result.total, result.max_total) == (3.5, 5.0)
    assert (result.reason, result.judge, result.reasoning) == (
        None,
        "program",
        "counted",
    )


def test_scores_are_kept_in_the_rubrics_order(rubric: Rubric) -> None:
    shuffled = {key: SCORES[key] for key in ("limits", "derivation", "units")}

    assert tuple(JudgeResult.scored(rubric, shuffled, judge="").scores) == rubric.ids


@pytest.mark.parametrize(
    "scores",
    [
        {},
        {"derivation": 2.0, "units": 1.0},
        {**SCORES, "style": 0.0},
        {**SCORES, "units": 1.1},
        {**SCORES, "units": -0.1},
        {**SCORES, "units": math.nan},
        {**SCORES, "units": math.inf},
    ],
)
def test_a_program_that_breaks_the_contract_is_a_fault(
    rubric: Rubric, scores: dict[str, float]
) -> None:
    with pytest.raises(SchemaError) as caught:
        JudgeResult.scored(rubric, scores, judge="program")

    assert (caught.value.field or "").startswith("scores")


@pytest.mark.parametrize("reason", INVALID)
def test_an_invalid_result_keeps_its_reason(reason: Reason) -> None:
    result = JudgeResult.invalid(
        reason, judge="j", detail="3 ids", attempts=1, latency_s=2
    )

    assert (result.outcome, result.reason, result.detail) == (
        Outcome.INVALID,
        reason,
        "3 ids",
    )
    with pytest.raises(SchemaError, match="belongs to 'invalid' results"):
        JudgeResult.unavailable(reason)


@pytest.mark.parametrize("reason", UNAVAILABLE)
def test_an_unavailable_result_keeps_its_reason(reason: Reason) -> None:
    result = JudgeResult.unavailable(reason, usage=Usage(prompt_tokens=3), attempts=0)

    assert (result.outcome, result.reason, result.attempts) == (
        Outcome.UNAVAILABLE,
        reason,
        0,
    )
    with pytest.raises(SchemaError, match="belongs to 'unavailable' results"):
        JudgeResult.invalid(reason)


def test_a_long_detail_is_cut() -> None:
    assert len(JudgeResult.invalid(Reason.EMPTY, detail="x" * 1000).detail) == 200


def test_what_is_known_of_the_call_is_added_later(rubric: Rubric) -> None:
    usage = Usage(
        prompt_tokens=900, completion_tokens=40, cached_tokens=800, cost_usd=0.001
    )
    result = JudgeResult.scored(rubric, SCORES, judge="j")

    called = result.with_call(usage=usage, latency_s=0.25, attempts=3)

    assert (called.judge, called.usage, called.latency_s) == ("j", usage, 0.25)
    assert called.attempts == 3
    assert called.scores == result.scores
    assert result.usage is None


def test_what_is_known_of_the_call_is_checked(rubric: Rubric) -> None:
    with pytest.raises(SchemaError, match="attempts"):
        JudgeResult.scored(rubric, SCORES, judge="j").with_call(attempts=-1)


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": "scored"},
        {"outcome": "scored", "scores": {"a": 1.0}, "total": 1.0},
        {"outcome": "scored", "scores": {}, "total": 0.0, "max_total": 1.0},
        {
            "outcome": "scored",
            "scores": {"a": 1.0},
            "total": 1.0,
            "max_total": 1.0,
            "reason": "empty",
        },
        {"outcome": "invalid"},
        {"outcome": "invalid", "reason": "timeout"},
        {"outcome": "unavailable", "reason": "not_json"},
        {"outcome": "invalid", "reason": "empty", "scores": {"a": 1.0}},
        {"outcome": "invalid", "reason": "empty", "total": 1.0},
        {"outcome": "invalid", "reason": "bored"},
        {"outcome": "failed", "reason": "timeout"},
        {"outcome": "invalid", "reason": "empty", "latency_s": math.nan},
        {"outcome": "invalid", "reason": "empty", "detail": "x" * 201},
    ],
)
def test_an_outcome_that_contradicts_its_fields_is_refused(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(SchemaError):
        JudgeResult.model_validate(fields)


def test_a_result_makes_a_round_trip_through_json(rubric: Rubric) -> None:
    usage = Usage(prompt_tokens=900, cost_usd=0.001)
    result = JudgeResult.scored(rubric, SCORES, judge="j", reasoning="ok").with_call(
        usage=usage
    )

    assert JudgeResult.model_validate_json(result.model_dump_json()) == result


def test_the_repr_leaves_the_reasoning_out(rubric: Rubric) -> None:
    result = JudgeResult.scored(rubric, SCORES, judge="j", reasoning="canary")

    assert "canary" not in repr(result)
    assert "canary" not in str(result)
    assert result.model_dump()["reasoning"] == "canary"


@pytest.mark.parametrize(
    "field", ["prompt_tokens", "completion_tokens", "cached_tokens"]
)
@pytest.mark.parametrize("value", [-1, 1.5, "3", True])
def test_tokens_are_counts(field: str, value: object) -> None:
    with pytest.raises(SchemaError, match=field):
        Usage.model_validate({field: value})


def test_an_unknown_cost_is_not_zero() -> None:
    assert Usage(prompt_tokens=3).cost_usd is None


@pytest.mark.parametrize("text", [None, b"{}", 3])
def test_what_is_no_text_is_the_callers_fault_and_no_invalid_reply(
    rubric: Rubric, text: object
) -> None:
    with pytest.raises(SchemaError, match="a reply is a str"):
        JudgeResult.from_reply(rubric, text)  # pyright: ignore[reportArgumentType]
