"""Whatever an endpoint answers: tasks that are valid, or counted refusals; no exception."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from rubric_core import Task
from rubric_judge import ChatModel, LexicalJudge
from rubric_judge.testing import (
    HOSTILE_TEXTS,
    FakeCall,
    FakeEndpoint,
    Fault,
    Faults,
    HostileText,
    ServedModel,
)
from rubric_synth import Document, QualityConfig
from rubric_synth.calls import DocumentCalls
from rubric_synth.document import DocumentOutcome, RejectionReason
from rubric_synth.run.engines.worker import Worker
from rubric_synth.stages.llm.stages import llm_stages
from rubric_synth.testing import scripted_reply

pytestmark = pytest.mark.anyio
Write = Any
Award = Callable[[FakeCall], str]
STAGES = ("AnalysisReply", "SynthesisReply", "EnrichmentReply")
UNANSWERED = frozenset(
    {
        Fault.RATE_LIMIT,
        Fault.RATE_LIMIT_RETRY_AFTER,
        Fault.SERVER_ERROR,
        Fault.OVERLOADED,
        Fault.UNAUTHORIZED,
        Fault.NOT_FOUND,
        Fault.BAD_REQUEST,
        Fault.HANG,
        Fault.RESET,
        Fault.HALF_RESPONSE,
        Fault.SLOW_DRIP,
        Fault.WRONG_CONTENT_TYPE,
    }
)
REFUSED = frozenset({Fault.CONTENT_POLICY, Fault.REFUSAL, Fault.CONTENT_FILTER})
ENDLESS = frozenset({Fault.HANG, Fault.SLOW_DRIP})
IN_THE_RESPONSE = [*UNANSWERED, *REFUSED, Fault.TRUNCATED]

SPOILERS: dict[str, Callable[[str], str]] = {
    "fenced": lambda reply: f"```json\n{reply}\n```",
    "prose": lambda _: "This document deserves a question.",
    "empty": lambda _: "",
    "half": lambda reply: reply[: len(reply) // 2],
    "giant": lambda reply: reply.replace('"', f'"{"x" * 1_000_001}', 1),
    "thoughts": lambda reply: f"<think>What to ask?</think>{reply}",
    "NaN": lambda reply: reply.replace('"weight": 2.0', '"weight": NaN'),
    "infinite": lambda reply: reply.replace('"weight": 2.0', '"weight": 1e999'),
    "text": lambda reply: reply.replace('"weight": 2.0', '"weight": "3"'),
    "negative": lambda reply: reply.replace('"weight": 2.0', '"weight": -0.01'),
    "huge": lambda reply: reply.replace('"weight": 2.0', '"weight": 1e308'),
    "id twice": lambda reply: reply.replace('"id": ', '"id": "c1", "id": '),
    "ids alike": lambda reply: reply.replace("relation_1", "cause_1"),
    "renamed": lambda reply: reply.replace('"id": "central', '"id": "Central'),
    "key too many": lambda reply: reply.replace('"id": ', '"override": true, "id": '),
    "surrogate": lambda reply: reply.replace('"name": "', '"name": "\\ud800'),
    "null": lambda reply: reply.replace('"id": "definition_1"', '"id": null'),
}
HARMLESS = {"direct": {"renamed"}, "litellm": {"renamed", "thoughts"}}
"""Another id, but a valid one; litellm takes thoughts out of a reply before anyone sees it."""


async def _outcome(
    write: Write,
    document: Document,
    award: Award,
    *,
    faults: Faults = (),
    **model: object,
) -> DocumentOutcome:
    with FakeEndpoint(award, faults=faults) as endpoint:
        config = write.config(endpoint.url, model=model)
        async with ChatModel(config.model) as chat_model:
            stages = llm_stages(chat_model, config)
            worker = Worker(stages, LexicalJudge(), QualityConfig())
            return await worker.process(document, DocumentCalls())


@pytest.mark.parametrize(("owner", "penalty"), [("vllm", 1.0), ("organization", None)])
async def test_a_server_that_fills_fields_in_is_sent_neutral_ones(
    owner: str, penalty: float | None, write: Write, document: Document
) -> None:
    served = ServedModel(owner=owner)
    with FakeEndpoint(write.replies(), served=served) as endpoint:
        config = write.config(endpoint.url)
        async with ChatModel(config.model) as chat_model:
            worker = Worker(
                llm_stages(chat_model, config), LexicalJudge(), QualityConfig()
            )
            await worker.process(document, DocumentCalls())
    assert {call.body.get("repetition_penalty") for call in endpoint.calls} == {penalty}


def _whole(outcome: DocumentOutcome) -> RejectionReason | None:
    """Return why there is no task; check those that there are."""
    for row in outcome.tasks:
        Task.from_json(row)
    assert outcome.tasks or outcome.rejections
    assert json.loads(outcome.model_dump_json()) == outcome.model_dump(mode="json")
    reasons = [rejection.reason for rejection in outcome.rejections]
    assert RejectionReason.STAGE_FAILED not in reasons
    return None if outcome.tasks else reasons[0]


@pytest.fixture
def article(articles: dict[str, str]) -> Document:
    return Document(
        title="Corrosion of steel", text=articles["steel"], source="steel.md"
    )


@pytest.mark.parametrize(
    ("component", "empty"),
    [
        ("weight", None),
        ("description", " "),
        ("expected_keywords", []),
        ("expected_keywords", ["", "\n"]),
        ("verification_method", ""),
    ],
)
@pytest.mark.parametrize("is_left_out", [True, False])
async def test_a_criterion_without_a_component_of_the_definition_is_refused_by_name(
    write: Write, article: Document, component: str, empty: object, *, is_left_out: bool
) -> None:
    def award(call: FakeCall) -> str:
        reply = json.loads(scripted_reply(call))
        for draft in reply.get("drafts", ()):
            criterion = draft["criteria"][1]
            names.append(criterion["id"])
            criterion[component] = empty
            if is_left_out:
                del criterion[component]
        return json.dumps(reply)

    names: list[str] = []
    outcome = await _outcome(write, article, award)
    (rejection,) = outcome.rejections
    by_number = {True: "missing", False: "float_type"}[is_left_out]
    off_schema = is_left_out or component == "weight"
    assert (rejection.reason, rejection.detail) == (
        ("reply_off_schema", f"criteria.1.{component}: {by_number}")
        if off_schema
        else ("missing_field", f"{names[0]}: {component}")
    )
    assert not outcome.tasks
    assert "enrich" not in outcome.totals  # refused before stage 3 is paid for


async def test_the_article_without_faults_makes_a_task(
    write: Write, article: Document
) -> None:
    assert _whole(await _outcome(write, article, scripted_reply)) is None


@pytest.mark.parametrize(
    ("stage", "fault"),
    [
        (n, fault)
        for n in range(3)
        for fault in sorted(IN_THE_RESPONSE)
        if n == 0 or fault not in ENDLESS
    ],
)
async def test_each_fault_of_a_call_is_counted_in_its_stage(
    write: Write, article: Document, stage: int, fault: Fault
) -> None:
    faults = [None] * stage + [fault]
    timeout_s = 0.5 if fault in ENDLESS else 120
    outcome = await _outcome(
        write, article, scripted_reply, faults=faults, timeout_s=timeout_s
    )
    reason = _whole(outcome)
    if fault in UNANSWERED:
        assert reason is RejectionReason.MODEL_UNAVAILABLE
    elif fault in REFUSED:
        assert reason is RejectionReason.MODEL_REFUSED
    else:
        assert reason is RejectionReason.REPLY_TRUNCATED
    assert outcome.rejections[0].stage == ("analyse", "synthesise", "enrich")[stage]
    assert outcome.is_settled is (fault not in UNANSWERED)


@pytest.mark.parametrize("transport", ["direct", "litellm"])
@pytest.mark.parametrize("spoiler", SPOILERS)
async def test_each_spoilt_reply_is_refused_or_counted_by_the_checks(
    write: Write, article: Document, spoiler: str, transport: str
) -> None:
    def award(call: FakeCall) -> str:
        reply = scripted_reply(call)
        return SPOILERS[spoiler](reply) if '"drafts"' in reply else reply

    outcome = await _outcome(write, article, award, transport=transport)
    reason = _whole(outcome)
    assert (reason is None) is (spoiler in HARMLESS[transport])
    assert outcome.is_settled


def _hostile(text: HostileText, asked: str) -> Award:
    def award(call: FakeCall) -> str:
        body: Any = call.body
        reply = scripted_reply(call)
        if body["response_format"]["json_schema"]["name"] != asked:
            return reply
        if text.place in {"score", "total"}:
            return reply.replace('"weight": 2.0', f'"weight": {text.text}')
        found = text.text.replace("@reply@", reply).replace("@fields@", reply[1:])
        return found.replace("@quoted@", json.dumps(reply))

    return award


@pytest.mark.parametrize("asked", STAGES)
async def test_no_hostile_reply_makes_an_exception(
    write: Write, article: Document, asked: str
) -> None:
    for text in HOSTILE_TEXTS:
        if text.place != "body" and (
            text.place == "reply" or asked == "SynthesisReply"
        ):
            outcome = await _outcome(write, article, _hostile(text, asked))
            reason = _whole(outcome)
            # Bytes that are no UTF-8 make an HTTP body that is none: no answer.
            no_body = any("\udc80" <= character <= "\udcff" for character in text.text)
            assert (reason is RejectionReason.MODEL_UNAVAILABLE) is no_body, text.name


async def test_no_hostile_body_makes_an_exception(
    write: Write, article: Document
) -> None:
    for text in HOSTILE_TEXTS:
        if text.place == "body":
            outcome = await _outcome(write, article, scripted_reply, faults=[text])
            assert _whole(outcome) is not None, text.name


async def test_no_text_of_document_or_reply_stands_in_a_message(
    write: Write, document: Document, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="rubric_synth")
    bad: list[object] = [
        f"{write.planted} is no JSON",
        {write.planted: 1},
        {"drafts": [{write.planted: write.planted}]},
        {
            "drafts": [
                write.draft(criteria=[write.criterion(write.planted * 9, weight="x")])
            ]
        },
        {"drafts": [write.draft(first_paragraph=99)]},
        {"drafts": [write.draft(question=write.planted, criteria=[])]},
    ]
    with structlog.testing.capture_logs() as events:
        outcomes = [
            await _outcome(write, document, write.replies(SynthesisReply=reply))
            for reply in bad
        ]
    assert all(outcome.rejections for outcome in outcomes)
    details = [
        rejection.detail for outcome in outcomes for rejection in outcome.rejections
    ]
    assert write.planted not in f"{details} {outcomes!r} {events} {caplog.text}"
