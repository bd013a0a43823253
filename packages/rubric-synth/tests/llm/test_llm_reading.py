"""Replies are read strictly: each departure has its reason, and nothing else is ever raised."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core.errors import NotJsonError, RepeatedKeyError
from rubric_judge import ChatReply
from rubric_judge.checks.directive import parse_verification
from rubric_judge.models.chat import Finish
from rubric_synth import CriterionDraft, StageRefusal
from rubric_synth.document import RejectionReason
from rubric_synth.stages.llm.replies import (
    LONGEST_REPLY_CHARS,
    AnalysisReply,
    CheckedDraftReply,
    CuesReply,
    DraftReply,
    EnrichedReply,
    EnrichmentReply,
    checked,
    decoded,
    items_of,
)
from rubric_synth.stages.llm.stages import enriched, in_words

Write = Any
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
VALID = json.dumps(
    {
        "question_rationale": "",
        "first_paragraph": 1,
        "last_paragraph": 1,
        "question": "Why?",
        "criteria": [
            {
                "id": "c1",
                "name": "n",
                "description": "d",
                "required_elements": ["e"],
                "expected_keywords": ["k"],
                "verification_method": "v",
                "scoring_guide": "s",
                "weight": 1,
            }
        ],
        "reference_answer": "Because.",
    }
)
TERMS = st.lists(st.text(max_size=5), max_size=3).map(tuple)
CUES = st.builds(
    CuesReply.model_construct,
    full_credit=st.text(),
    partial_credit=st.text(),
    no_credit=st.text(),
)
ENRICHED = {
    "id": st.just("c1"),
    "cues": CUES,
    "expected_keywords": TERMS,
    "expected_concepts": TERMS,
    "verification_patterns": TERMS,
}
HEAD = st.sampled_from(
    ["regex", "numeric", "sentences", "structure", "python_tests", "x"]
)
NOT_JSON = RejectionReason.REPLY_NOT_JSON
TRUNCATED = RejectionReason.REPLY_TRUNCATED


def _answer(text: str, finish: Finish = "complete") -> ChatReply:
    return ChatReply(text=text, finish=finish, usage=None, attempts=1)


def _reason(answer: ChatReply) -> RejectionReason:
    with pytest.raises(StageRefusal) as refused:
        decoded(answer)
    return refused.value.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", NOT_JSON),
        (" \n", NOT_JSON),
        ("Here it is: {}", NOT_JSON),
        ("{} I hope this helps!", NOT_JSON),
        ("```json\n{}\n```", NOT_JSON),
        ("<think>hmm</think>{}", NOT_JSON),
        ("\ufeff{}", NOT_JSON),
        ("{}\n{}", NOT_JSON),
        ("{,}", NOT_JSON),
        ('{"a": 1, "a": 2}', NOT_JSON),
        ('{"b": {"a": 1, "\\u0061": 2}}', NOT_JSON),
        ("[" * 100_000, NOT_JSON),
        (f'"{"x" * LONGEST_REPLY_CHARS}"', NOT_JSON),
        ('{"a": "b', TRUNCATED),
        ('{"a": [1, ', TRUNCATED),
    ],
)
def test_a_reply_that_is_no_json_document_has_its_reason(
    text: str, reason: RejectionReason
) -> None:
    assert _reason(_answer(text)) is reason


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("refused", RejectionReason.MODEL_REFUSED),
        ("truncated", TRUNCATED),
        ("oversized", NOT_JSON),
    ],
)
def test_how_a_reply_ended_counts_before_what_it_holds(
    finish: Finish, reason: RejectionReason
) -> None:
    assert _reason(_answer("{}", finish)) is reason


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"weight": float("nan")}, "criteria.0.weight: finite_number"),
        ({"weight": float("inf")}, "criteria.0.weight: finite_number"),
        ({"weight": "3"}, "criteria.0.weight: float_type"),
        ({"weight": True}, "criteria.0.weight: float_type"),
        ({"weight": None}, "criteria.0.weight: float_type"),
        ({"id": "two words"}, "criteria.0.id: string_pattern_mismatch"),
        ({"id": ""}, "criteria.0.id: string_pattern_mismatch"),
        ({"id": "c\n"}, "criteria.0.id: string_pattern_mismatch"),
        ({"name": 1.0}, "criteria.0.name: string_type"),
        ({"name": "\ud800"}, "criteria.0.name: string_unicode"),
        ({"required_elements": "one"}, "criteria.0.required_elements: tuple_type"),
        ({"required_elements": [1.0]}, "criteria.0.required_elements.0: string_type"),
        ({"secret text of the reply": 1}, "criteria.0: extra_forbidden"),
    ],
)
def test_a_field_that_is_wrong_is_named_and_its_value_is_not(
    write: Write, changes: dict[str, object], detail: str
) -> None:
    draft = write.draft(criteria=[write.criterion("c1", **changes)])
    with pytest.raises(StageRefusal) as refused:
        checked(DraftReply, draft)
    assert refused.value.reason is RejectionReason.REPLY_OFF_SCHEMA
    assert refused.value.detail == detail
    assert refused.value.__context__ is None


@pytest.mark.parametrize("number", ["1", 1.5, True, None, float("inf")])
def test_a_number_of_a_paragraph_is_a_whole_number(
    write: Write, number: object
) -> None:
    with pytest.raises(StageRefusal):
        checked(DraftReply, write.draft(first_paragraph=number))


def test_a_whole_reply_is_read_as_it_was_written(write: Write) -> None:
    text = json.dumps(write.draft())
    reply = checked(DraftReply, decoded(_answer(text)))
    assert json.loads(reply.model_dump_json()) == json.loads(text)


def _refusal(read: Callable[[], object]) -> StageRefusal | None:
    try:
        read()
    except StageRefusal as refusal:
        return refusal
    return None


@given(value=JSON)
def test_any_json_is_read_or_refused(value: object) -> None:
    for model in (AnalysisReply, DraftReply, CheckedDraftReply, EnrichmentReply):
        with pytest.raises(StageRefusal):
            checked(model, value)
    refusal = _refusal(lambda: items_of(value, name="drafts"))
    assert refusal is None or refusal.reason is RejectionReason.REPLY_OFF_SCHEMA


@given(text=st.text() | st.from_regex(r"[\[\]{}\",:0-9eE.+-]*", fullmatch=True))
def test_any_text_is_decoded_or_refused(text: str) -> None:
    refusal = _refusal(lambda: decoded(_answer(text)))
    assert refusal is None or refusal.reason in {NOT_JSON, TRUNCATED}
    wrong = refusal.__context__ if refusal else None
    assert type(wrong) in {
        type(None),
        NotJsonError,
        RepeatedKeyError,
    }  # hold nothing of the reply
    assert wrong is None or wrong.__context__ is None  # it would hold the reply


@given(
    value=JSON,
    name=st.sampled_from(["weight", "id", "name", "required_elements", "question"]),
)
def test_a_draft_with_anything_in_place_of_a_part_is_read_or_refused(
    value: object, name: str
) -> None:
    reply: dict[str, Any] = json.loads(VALID)
    part = reply if name in reply else reply["criteria"][0]
    part[name] = value
    refusal = _refusal(lambda: checked(DraftReply, decoded(_answer(json.dumps(reply)))))
    assert refusal is None or refusal.reason is RejectionReason.REPLY_OFF_SCHEMA


@given(
    method=st.text() | st.builds("{}{}:{}".format, st.text(" \n\t"), HEAD, st.text())
)
def test_words_of_a_model_are_read_as_words(method: str) -> None:
    assert parse_verification(in_words(method)) is None


@given(
    reply=st.builds(EnrichedReply.model_construct, **ENRICHED), directive=st.booleans()
)
def test_enrichment_keeps_every_component_that_was_there(
    reply: EnrichedReply, *, directive: bool
) -> None:
    method = "contains_all: a | b\nRead it." if directive else "Read it."
    before = CriterionDraft(
        id="c1",
        weight=2.5,
        name="n",
        description="d",
        required_elements=("e", "E "),
        scoring_guide="g",
        verification_method=method,
        expected_keywords=("k",),
    )
    after = enriched(before, reply)
    kept = {"id", "weight", "name", "description", "required_elements"}
    assert after.model_dump(include=kept) == before.model_dump(include=kept)
    assert after.scoring_guide.startswith("g")
    assert after.verification_method.startswith(method)
    assert parse_verification(after.verification_method) == parse_verification(method)
    assert after.expected_keywords[0] == "k"
    assert all(
        term.strip() for term in (*after.expected_keywords, *after.expected_concepts)
    )
