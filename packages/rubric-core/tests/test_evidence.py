import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import Criterion, JudgeResult, Outcome, Reason, Rubric, Usage
from rubric_core.judgement.evidence import MAX_QUOTE_CHARS, MIN_QUOTE_CHARS, find_quote

RESPONSE = "The loss is the “cross\u00adentropy” of the labels — nothing else."
PASSAGE = "Training minimises\n  the cross-entropy; the ﬁnal layer is linear."
RUBRIC = Rubric(
    criteria=(Criterion(id="loss", weight=2.0), Criterion(id="layer", weight=1.0))
)


def _reply(quotes: Any, scores: dict[str, float] | None = None) -> str:
    scores = scores or {"loss": 2.0, "layer": 0.0}
    total = sum(scores.values())
    return json.dumps(
        {"scores": scores, "total": total, "max_total": 3.0, "evidence": quotes}
    )


def _read(text: str, *, required: bool = True) -> JudgeResult:
    return JudgeResult.from_quoting_reply(
        RUBRIC, text, response=RESPONSE, passage=PASSAGE, required=required
    )


@pytest.mark.parametrize(
    ("quote", "place"),
    [
        ("the loss is the", "response"),
        ("THE LOSS\n\tis  the", "response"),
        ('"crossentropy" of the labels - nothing', "response"),
        ("“the cross-entropy; the final layer”", "passage"),
        ("minimises the cross–entropy", "passage"),
        ("", None),
        ("t", None),
        ("the ... of", None),
        ("---------", None),
        ("the loss was the", None),
        ("the loss of the labels", None),
    ],
)
def test_a_quote_is_found_word_for_word_whatever_its_typography(
    quote: str, place: str | None
) -> None:
    assert find_quote(quote, response=RESPONSE, passage=PASSAGE) == place


@pytest.mark.parametrize(
    ("quote", "text", "stands"),
    [
        (
            "stable for all step sizes",
            "The scheme is unstable for all step sizes.",
            False,
        ),
        (
            "stable for all step sizes",
            "The scheme is non-stable for all step sizes.",
            False,
        ),
        (
            "stable for all step sizes",
            "It is unstable; no: stable for all step sizes.",
            True,
        ),
        ("the step is stable", "the step is stableish", False),
        ("5 is the answer", "15 is the answer", False),
        ("5 is the answer", "1.5 is the answer", False),
        ("5 is the answer", ".5 is the answer", False),
        ("5 is the answer", "1,5 is the answer", False),
        ("5 is the answer", "−5 is the answer", False),
        ("5 is the answer", "Indeed, 5 is the answer", True),
        ("the answer is 5", "the answer is 50", False),
        ("the answer is 5", "the answer is 5.2", False),
        ("the answer is 5", "the answer is 5²", False),
        ("the answer is 5", "the answer is 5. Next", True),
        ("the answer is 5", "the answer is 5, or", True),
        ("5 meters and 10² units", "15 meters and 102 units", False),
        ("5 meters and 10² units", "5 meters and 102 units", False),
        ("x² + y² = 123", "x2 + y2 = 123", False),
        ("H₂O is a molecule", "H2O is a molecule", False),
        ("½ of the labels", "1⁄2 of the labels", False),
        ("t converge for any step", "It doesn't converge for any step", False),
        ("the loss—nothing else", "the loss — nothing else", True),
        ("ｆｉｎａｌ　layer is linear", "the ﬁnal layer is linear", True),
        ("cafe\u0301 is the place", "caf\u00e9 is the place", True),
        ("cafe is the place", "cafe\u0301 is the place", False),
        ("损失函数是交叉熵没有别的", "训练的损失函数是交叉熵没有别的东西", True),
        ("'stable' for all", "is 'stable' for all", True),
    ],
)
def test_a_quote_begins_and_ends_where_words_and_numbers_do(
    quote: str,
    text: str,
    stands: bool,  # noqa: FBT001
) -> None:
    found = find_quote(quote, response="", passage=text)
    assert found == ("passage" if stands else None)


@given(st.text("ab15.,-' _²é", min_size=8, max_size=30), st.sampled_from("cxyz023"))
def test_a_word_or_number_that_goes_on_is_not_what_is_quoted(
    quote: str, more: str
) -> None:
    words = f"a{quote}1"
    assert find_quote(words, response=more + words, passage=words + more) is None


def test_a_short_quote_counts_only_where_it_is_all_there_is() -> None:
    assert find_quote("42", response="42", passage=PASSAGE) == "response"
    assert find_quote("42", response="42 or so", passage=PASSAGE) is None
    assert find_quote("", response="", passage="") is None


def test_a_copy_of_everything_is_no_quote() -> None:
    text = "word " * MAX_QUOTE_CHARS
    assert find_quote(text[:MAX_QUOTE_CHARS], response=text, passage="") == "response"
    assert find_quote(text[: MAX_QUOTE_CHARS + 1], response=text, passage="") is None


@given(st.text(max_size=80), st.text(max_size=30), st.text(max_size=30))
def test_whatever_stands_in_a_text_between_spaces_is_found(
    quote: str, before: str, after: str
) -> None:
    enough = sum(map(str.isalnum, quote)) >= MIN_QUOTE_CHARS
    found = find_quote(quote, response=f"{before} {quote} {after}", passage="")
    if enough and quote.isascii():
        assert found == "response"


def test_quotes_are_kept_with_their_place_and_out_of_repr() -> None:
    result = _read(_reply({"loss": "the loss is the", "layer": "no such words here"}))
    assert result.outcome is Outcome.SCORED
    places = {name: one.found_in for name, one in result.evidence.items()}
    assert places == {"loss": "response", "layer": None}
    assert "loss is the" not in repr(result)
    assert JudgeResult.model_validate_json(result.model_dump_json()) == result


def test_a_score_without_its_quote_is_invalid_only_where_evidence_is_required() -> None:
    text = _reply({"loss": "invented words here", "layer": ""})
    required = _read(text)
    assert (required.outcome, required.reason) == (
        Outcome.INVALID,
        Reason.EVIDENCE_NOT_FOUND,
    )
    assert (
        required.detail
        == "1 scores above 0 without a quote that is found, first 'loss'"
    )
    reported = _read(text, required=False)
    assert reported.scores == {"loss": 2.0, "layer": 0.0}
    assert reported.evidence["loss"].found_in is None


def test_no_score_above_zero_needs_no_quote() -> None:
    text = _reply({"loss": "", "layer": ""}, {"loss": 0.0, "layer": 0.0})
    assert _read(text).outcome is Outcome.SCORED


@pytest.mark.parametrize(
    ("quotes", "reason"),
    [
        ({"loss": "the loss is the"}, Reason.MISSING_CRITERION),
        ({"loss": "the loss is the", "layer": "", "x": ""}, Reason.UNKNOWN_CRITERION),
        ({"loss": "the loss is the", "layer": None}, Reason.WRONG_TYPE),
        ({"loss": ["the loss is the"], "layer": ""}, Reason.WRONG_TYPE),
        ("the loss is the", Reason.WRONG_TYPE),
    ],
)
def test_evidence_is_one_text_for_each_criterion(
    quotes: object, reason: Reason
) -> None:
    for required in (True, False):
        result = _read(_reply(quotes), required=required)
        assert (result.outcome, result.reason) == (Outcome.INVALID, reason)


def test_evidence_that_was_asked_for_is_missing_and_otherwise_is_too_much() -> None:
    plain = json.dumps({"scores": {"loss": 0, "layer": 0}, "total": 0, "max_total": 3})
    assert _read(plain, required=False).reason is Reason.WRONG_TYPE
    quoting = _reply({"loss": "the loss is the", "layer": ""})
    assert JudgeResult.from_reply(RUBRIC, quoting).reason is Reason.WRONG_TYPE
    twice = quoting.replace('"layer": ""', '"layer": "", "layer": ""')
    assert _read(twice).reason is Reason.DUPLICATE_CRITERION


def test_a_lone_surrogate_in_a_quote_can_be_written() -> None:
    text = _reply({"loss": "the loss is the", "layer": "\ud800"})
    assert _read(text).evidence["layer"].quote == "?"


def test_usage_of_attempts_adds_up_and_the_unknown_stays_unknown() -> None:
    known = Usage(prompt_tokens=5, completion_tokens=1, cached_tokens=2, cost_usd=0.5)
    silent = Usage(prompt_tokens=7)
    assert silent.plus(silent) == Usage(prompt_tokens=14)
    assert known.plus(silent) == Usage(
        prompt_tokens=12, completion_tokens=1, cached_tokens=2, cost_usd=0.5
    )
    assert silent.plus(known) == known.plus(silent)
    assert known.plus(None) == known


def test_a_response_of_one_letter_or_of_marks_is_searched_in_bounded_work() -> None:
    quote, letters = "a" * MIN_QUOTE_CHARS, "a" * 1_000_000

    assert find_quote(quote, response=letters, passage=f"the {quote} is") == "passage"
    assert find_quote(quote, response=f"{quote} {letters}", passage="") == "response"
    assert (
        find_quote(quote, response="a" + "\u0301\u0323" * 500_000, passage="") is None
    )
