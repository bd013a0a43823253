import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import Criterion, JudgeResult, Outcome, Reason, Rubric
from rubric_core.errors import ReplyError
from rubric_core.judgement.reply import read_reply

GOOD: dict[str, Any] = {
    "scores": {"derivation": 1.5, "units": 1, "limits": 0},
    "total": 2.5,
    "max_total": 5,
    "reasoning": "The law is stated, not derived.",
}


def reply(**changes: object) -> str:
    return json.dumps({**GOOD, **changes})


def scored(**changes: object) -> str:
    """A reply whose totals agree with changed scores, where these are numbers."""
    scores = {**GOOD["scores"], **changes}
    total = sum(s for s in scores.values() if isinstance(s, int | float))
    return reply(scores=scores, total=total)


def without(key: str) -> str:
    return json.dumps({name: value for name, value in GOOD.items() if name != key})


def without_score(key: str) -> str:
    return reply(scores={name: s for name, s in GOOD["scores"].items() if name != key})


def test_a_reply_by_the_contract_is_read(rubric: Rubric) -> None:
    scores, reasoning, _ = read_reply(rubric, reply())

    assert scores == {"derivation": 1.5, "units": 1.0, "limits": 0.0}
    assert reasoning == "The law is stated, not derived."


@pytest.mark.parametrize(
    "text",
    [
        reply(),
        without("reasoning"),
        f"\n\t {reply()} \r\n",
        reply(total=2.5 + 4e-6),
        reply(total=2.5 - 4e-6),
        reply(max_total=5 + 4e-6),
        scored(derivation=3),
        scored(derivation=0, units=0, limits=0),
        reply().replace('"units": 1', '"units": 1e0'),
        json.dumps({key: GOOD[key] for key in reversed(GOOD)}),
        reply(scores={key: GOOD["scores"][key] for key in reversed(GOOD["scores"])}),
    ],
)
def test_what_the_contract_leaves_open_is_valid(rubric: Rubric, text: str) -> None:
    assert JudgeResult.from_reply(rubric, text).outcome is Outcome.SCORED


def test_scores_come_back_in_the_rubrics_order(rubric: Rubric) -> None:
    shuffled = {key: GOOD["scores"][key] for key in ("limits", "derivation", "units")}

    assert tuple(read_reply(rubric, reply(scores=shuffled)).scores) == rubric.ids


MALFORMED = {
    Reason.EMPTY: {"nothing": "", "white space": " \n\t\u00a0"},
    Reason.NOT_JSON: {
        "prose": "I give 3 of 5.",
        "a fence": f"```json\n{reply()}\n```",
        "words before": f"Here you are: {reply()}",
        "words after": f"{reply()} I hope this helps.",
        "two replies": f"{reply()}{reply()}",
        "a byte order mark": f"\ufeff{reply()}",
        "single quotes": reply().replace('"', "'"),
        "trailing commas": reply().replace("}", ",}"),
        "a raw line feed": reply().replace("not derived", "not\nderived"),
        "a leading zero": reply().replace("1.5", "01.5"),
        "a plus sign": reply().replace("1.5", "+1.5"),
        "hexadecimal": reply().replace("1.5", "0x1"),
        "an unknown escape": reply().replace("law", "\\q"),
        "a lone surrogate": "\ud800",
        "100 kB of open lists": "[" * 100_000,
        "deep objects": '{"scores":' * 20_000,
        "deep closed lists": "[" * 100_000 + "]" * 100_000,
        "a repeated total": reply().replace('"total"', '"max_total"'),
        "repeated scores": '{"scores": {}, "scores": {}}',
        "an open list": "[1, 2",
    },
    Reason.TRUNCATED: {
        "after the brace": "{",
        "before the last brace": reply()[:-1],
        "in the reasoning": reply()[:-5],
        "in an id": reply()[:20],
        "before a colon": reply()[: reply().index(":")],
        "after a colon": reply()[: reply().index(":") + 1],
        "after a comma": reply()[: reply().index(",") + 1],
    },
    Reason.WRONG_TYPE: {
        "null": "null",
        "true": "true",
        "a number": "3",
        "a string": '"a string"',
        "a list": "[]",
        "a list of one reply": f"[{reply()}]",
        "an empty object": "{}",
        "no scores": without("scores"),
        "no total": without("total"),
        "no max_total": without("max_total"),
        "another key": reply(confidence=0.9),
        "a key in capitals": reply(Scores={}),
        "a list of scores": reply(scores=[1.5, 1, 0]),
        "null for scores": reply(scores=None),
        "a string for scores": reply(scores="3"),
        "a string for a score": scored(units="1"),
        "true for a score": scored(units=True),
        "false for a score": scored(units=False),
        "null for a score": scored(units=None),
        "a list for a score": scored(units=[1]),
        "an object for a score": scored(units={"score": 1}),
        "a string for the total": reply(total="2.5"),
        "true for the total": reply(total=True),
        "null for max_total": reply(max_total=None),
        "null for the reasoning": reply(reasoning=None),
        "a list for the reasoning": reply(reasoning=["a", "b"]),
        "nan for the reasoning": reply(reasoning=float("nan")),
    },
    Reason.MISSING_CRITERION: {
        "one": without_score("units"),
        "all": reply(scores={}),
    },
    Reason.UNKNOWN_CRITERION: {
        "another id": scored(style=0),
        "an id in capitals": scored(Units=1),
        "an id with a space": reply().replace("units", "units "),
        "a lone surrogate": reply().replace("units", "\\ud800"),
    },
    Reason.DUPLICATE_CRITERION: {
        "the same id": reply().replace('"limits"', '"units"'),
        "the same id escaped": reply().replace('"limits"', '"\\u0075nits"'),
        "the same unknown id": reply().replace('"limits": 0', '"x": 0, "x": 0'),
    },
    Reason.SCORE_OUT_OF_RANGE: {
        "one rounding above": scored(units=1.0000000000000002),
        "barely negative": scored(units=-1e-300),
        "above the weight": scored(derivation=4),
        "a large integer": scored(derivation=10**20),
    },
    Reason.NOT_FINITE: {
        "nan": scored(units=float("nan")),
        "infinity": scored(units=float("inf")),
        "minus infinity": scored(units=float("-inf")),
        "1e999": reply().replace("1.5", "1e999"),
        "-1e999": reply().replace("1.5", "-1e999"),
        "5000 digits": reply().replace("1.5", "9" * 5000),
        "nan for the total": reply(total=float("nan")),
        "infinity for max_total": reply(max_total=float("inf")),
    },
    Reason.TOTAL_MISMATCH: {
        "a bit more": reply(total=2.5001),
        "zero": reply(total=0),
        "the wrong sign": reply(total=-2.5),
    },
    Reason.MAX_TOTAL_MISMATCH: {
        "the number of criteria": reply(max_total=3),
        "a bit more": reply(max_total=5.0001),
    },
}
CASES = [
    pytest.param(text, reason, id=f"{reason}: {name}")
    for reason, texts in MALFORMED.items()
    for name, text in texts.items()
]


@pytest.mark.parametrize(("text", "reason"), CASES)
def test_a_departure_from_the_contract_has_its_reason(
    rubric: Rubric, text: str, reason: Reason
) -> None:
    result = JudgeResult.from_reply(rubric, text, judge="j", attempts=2, latency_s=0.5)

    assert result.outcome is Outcome.INVALID
    assert result.reason is reason
    assert result.detail
    assert (result.scores, result.total, result.max_total) == ({}, None, None)
    assert (result.judge, result.attempts, result.latency_s) == ("j", 2, 0.5)
    assert JudgeResult.model_validate_json(result.model_dump_json()) == result


def test_the_table_has_every_reason_that_a_reply_can_give() -> None:
    invalid = {reason for reason in Reason if reason.outcome is Outcome.INVALID}

    # Of a refusal and a full context the server says it, not the reply; evidence and verdicts by
    # their probability have test files of their own.
    not_of_a_reply = {
        Reason.REFUSED,
        Reason.CONTEXT_FULL,
        Reason.EVIDENCE_NOT_FOUND,
        Reason.NO_VERDICT,
    }
    assert set(MALFORMED) == invalid - not_of_a_reply


def test_no_cut_of_a_reply_is_valid(rubric: Rubric) -> None:
    cuts = [reply()[:end] for end in range(len(reply()))]

    reasons = {cut: JudgeResult.from_reply(rubric, cut).reason for cut in cuts}

    assert reasons == {"": Reason.EMPTY} | dict.fromkeys(cuts[1:], Reason.TRUNCATED)


ODD = '{"scores": {"a": -1, "b": 1.5e-1, "c": true}, "x": [null, false], "reasoning": '
ODD += r'"\u00e9 \ud83d\ude00 \\ \" y"}'


def test_a_reply_that_ends_anywhere_within_itself_is_cut_off(rubric: Rubric) -> None:
    cuts = [ODD[:end] for end in range(1, len(ODD))]

    reasons = {cut: JudgeResult.from_reply(rubric, cut).reason for cut in cuts}

    assert reasons == dict.fromkeys(cuts, Reason.TRUNCATED)


def test_white_space_behind_a_cut_is_no_difference(rubric: Rubric) -> None:
    assert (
        JudgeResult.from_reply(rubric, '{"total": 1 \t\r\n').reason is Reason.TRUNCATED
    )


# Python strips them as white space; JSON has four characters of it.
@pytest.mark.parametrize(
    "space", ["\u00a0", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u3000"]
)
def test_what_json_does_not_have_as_white_space_is_no_cut(
    rubric: Rubric, space: str
) -> None:
    for text in (
        reply() + space,
        reply()[:-1] + space,
        reply()[:10] + space,
        reply() + "\n" + space,
    ):
        assert JudgeResult.from_reply(rubric, text).reason is Reason.NOT_JSON


@pytest.mark.parametrize(
    "text",
    [
        '{"reasoning": "a\n',
        '{"reasoning": "\\q',
        '{"total": truth',
        '{"total": tru, ',
        '{"total": --',
        '{"total": 1.e',
        '{"total": 1.5.',
        '{"total": 01.',
        '{"total": 1e+-',
        '{"total": "1".',
        '{"total": 1} {',
        "[1",
    ],
)
def test_a_beginning_of_no_reply_is_no_cut(rubric: Rubric, text: str) -> None:
    assert JudgeResult.from_reply(rubric, text).reason is Reason.NOT_JSON


@given(st.text())
def test_any_text_is_read_without_an_exception(text: str) -> None:
    rubric = Rubric(criteria=(Criterion(id="a", weight=1),))

    assert JudgeResult.from_reply(rubric, text).outcome is Outcome.INVALID


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
    ),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {
            "scores": st.dictionaries(st.sampled_from(["a", "b", "c"]), json_values)
            | st.fixed_dictionaries({"a": st.floats(-1, 3), "b": st.floats(-1, 3)}),
            "total": json_values,
            "max_total": st.just(3) | json_values,
        },
        optional={"reasoning": json_values, "other": json_values},
    )
)
def test_any_json_is_either_wholly_valid_or_earns_nothing(
    content: dict[str, object],
) -> None:
    rubric = Rubric(criteria=(Criterion(id="a", weight=1), Criterion(id="b", weight=2)))
    result = JudgeResult.from_reply(rubric, json.dumps(content))

    if result.outcome is Outcome.SCORED:
        assert 0 <= result.scores["a"] <= 1
        assert 0 <= result.scores["b"] <= 2
        assert result.scores == content["scores"]
    else:
        assert result.scores == {}


def test_a_lone_surrogate_in_the_reasoning_does_not_reach_a_file(
    rubric: Rubric,
) -> None:
    result = JudgeResult.from_reply(rubric, reply().replace("law", "\\ud800"))

    assert result.outcome is Outcome.SCORED
    assert result.reasoning.encode()


def test_a_negative_zero_becomes_zero(rubric: Rubric) -> None:
    result = JudgeResult.from_reply(
        rubric, reply().replace('"limits": 0', '"limits": -0.0')
    )

    assert str(result.scores["limits"]) == "0.0"


def test_a_criterion_without_weight_can_only_score_zero() -> None:
    rubric = Rubric(
        criteria=(Criterion(id="a", weight=1), Criterion(id="noted", weight=0))
    )
    zero = '{"scores": {"a": 1, "noted": 0}, "total": 1, "max_total": 1}'

    assert JudgeResult.from_reply(rubric, zero).outcome is Outcome.SCORED
    one = zero.replace('"noted": 0', '"noted": 1').replace(
        '"total": 1', '"total": 2', 1
    )
    assert JudgeResult.from_reply(rubric, one).reason is Reason.SCORE_OUT_OF_RANGE


def test_the_slack_of_the_totals_grows_with_the_rubrics_weight() -> None:
    rubric = Rubric(criteria=(Criterion(id="a", weight=1e6),))
    off_by_half = '{"scores": {"a": 1000}, "total": 1000.5, "max_total": 1000000.5}'

    assert JudgeResult.from_reply(rubric, off_by_half).outcome is Outcome.SCORED


def test_stored_totals_are_the_sum_and_the_weight_whatever_was_rounded(
    rubric: Rubric,
) -> None:
    result = JudgeResult.from_reply(rubric, reply(total=2.500001, max_total=5.000001))

    assert (result.total, result.max_total) == (2.5, 5.0)


def test_criteria_may_be_called_like_the_keys_of_the_reply() -> None:
    rubric = Rubric(criteria=(Criterion(id="total", weight=1),))
    good = '{"scores": {"total": 1}, "total": 1, "max_total": 1}'

    assert JudgeResult.from_reply(rubric, good).outcome is Outcome.SCORED
    repeated = good.replace('{"total": 1}', '{"total": 1, "total": 1}')
    assert JudgeResult.from_reply(rubric, repeated).reason is Reason.DUPLICATE_CRITERION


@pytest.mark.parametrize(("text", "reason"), CASES)
def test_the_detail_holds_no_text_of_the_reply(
    rubric: Rubric, text: str, reason: Reason
) -> None:
    with pytest.raises(ReplyError) as caught:
        read_reply(rubric, text.replace("law", "canary").replace("style", "canary"))

    assert caught.value.reason is reason

    assert "canary" not in str(caught.value)
