"""The three stages against a real endpoint, over both transports."""

import json
from typing import Any

import anyio
import pytest

from rubric_core import CriterionKind, DocumentAnalysis
from rubric_judge import ChatModel
from rubric_judge.testing import FakeEndpoint
from rubric_synth import Document, Draft, StageRefusal
from rubric_synth.calls import CallRecord, DocumentCalls
from rubric_synth.document import RejectionReason
from rubric_synth.quality.draft import to_task
from rubric_synth.stages.llm.stages import llm_stages
from rubric_synth.stages.stages import Stages
from rubric_synth.testing import scripted_reply

pytestmark = pytest.mark.anyio
Write = Any
Serving = Any


async def _all_stages(
    stages: Stages, document: Document
) -> tuple[DocumentAnalysis, list[Draft]]:
    analysis = await stages.analyst.analyse(document)
    drafts = await stages.synthesiser.synthesise(document, analysis)
    found = [one for one in drafts if isinstance(one, Draft)]
    return analysis, [
        await stages.enricher.enrich(document, analysis, one) for one in found
    ]


@pytest.mark.parametrize("transport", ["direct", "litellm"])
async def test_three_stages_make_typed_objects_of_three_replies(
    write: Write, serving: Serving, document: Document, transport: str
) -> None:
    model = {"transport": transport}
    async with serving(write.replies(), model=model) as (stages, endpoint):
        analysis, drafts = await _all_stages(stages, document)
    assert isinstance(analysis, DocumentAnalysis)
    assert (analysis.depth, analysis.reasoning_mode) == ("introductory", "causal")
    (draft,) = drafts
    assert isinstance(draft, Draft)
    assert [criterion.id for criterion in draft.criteria] == [
        "c1",
        "c2",
        "c3",
        "c4",
        "c5",
    ]
    assert draft.task_type == "open"
    assert len(endpoint.calls) == 3
    task = to_task(document, analysis, draft)
    assert task.document_analysis == analysis
    # What the model called each criterion's kind is published with it.
    assert {criterion.kind for criterion in task.rubric} == {CriterionKind.CAUSE}


async def test_the_passage_is_cut_out_of_the_document(
    write: Write, serving: Serving, document: Document
) -> None:
    async with serving(write.replies()) as (stages, _):
        _, (draft,) = await _all_stages(stages, document)
    assert draft.passage in document.text
    assert draft.passage.startswith("Corrosion of steel")
    assert draft.passage.endswith("fresh water.")


@pytest.mark.parametrize(
    ("first", "last"), [(0, 1), (1, 4), (3, 2), (-1, -1), (1e300, 1e300)]
)
async def test_paragraphs_that_are_not_there_refuse_one_draft_and_leave_the_others(
    write: Write, serving: Serving, document: Document, first: float, last: float
) -> None:
    bad = write.draft(first_paragraph=first, last_paragraph=last)
    award = write.replies(SynthesisReply={"drafts": [bad, write.draft()]})
    async with serving(award, questions_per_document=2) as (stages, _):
        refused, kept = await stages.synthesiser.synthesise(
            document, DocumentAnalysis()
        )
    assert isinstance(refused, StageRefusal)
    assert refused.reason is RejectionReason.PASSAGE_NOT_IN_DOCUMENT
    assert isinstance(kept, Draft)


async def test_a_bad_draft_leaves_its_refusal_and_the_others_live_on(
    write: Write, serving: Serving, document: Document
) -> None:
    good = write.draft()
    same_ids = write.draft(criteria=[write.criterion("c1")] * 5)
    text_weight = write.draft(criteria=[write.criterion("c1", weight="3")])
    drafts = [write.draft(unasked=1), good, 5, same_ids, text_weight]
    async with serving(
        write.replies(SynthesisReply={"drafts": drafts}), questions_per_document=5
    ) as (stages, _):
        found = await stages.synthesiser.synthesise(document, DocumentAnalysis())
    assert [getattr(one, "reason", "draft") for one in found] == [
        RejectionReason.REPLY_OFF_SCHEMA,
        "draft",
        RejectionReason.REPLY_OFF_SCHEMA,
        RejectionReason.REPLY_OFF_SCHEMA,
        RejectionReason.REPLY_OFF_SCHEMA,
    ]
    assert str(found[4]) == "reply_off_schema: criteria.0.weight: float_type"


async def test_more_drafts_than_asked_for_are_counted_and_not_read(
    write: Write, serving: Serving, document: Document
) -> None:
    award = write.replies(SynthesisReply={"drafts": [write.draft()] * 3})
    async with serving(award, questions_per_document=2) as (stages, _):
        found = await stages.synthesiser.synthesise(document, DocumentAnalysis())
    assert [type(one) for one in found] == [Draft, Draft, StageRefusal]


async def test_a_reply_without_drafts_says_that_there_is_no_question(
    write: Write, serving: Serving, document: Document
) -> None:
    async with serving(write.replies(SynthesisReply={"drafts": []})) as (stages, _):
        with pytest.raises(StageRefusal) as refused:
            await stages.synthesiser.synthesise(document, DocumentAnalysis())
    assert refused.value.reason is RejectionReason.NO_QUESTION


async def test_what_the_quality_checks_count_is_not_refused_before(
    write: Write, serving: Serving, document: Document
) -> None:
    poor = write.criterion("c1", weight=-1, required_elements=[], description="")
    award = write.replies(
        SynthesisReply={"drafts": [write.draft(criteria=[poor], question="")]}
    )
    async with serving(award) as (stages, _):
        (draft,) = await stages.synthesiser.synthesise(document, DocumentAnalysis())
    assert draft.criteria[0].weight == -1


async def test_enrichment_adds_and_changes_nothing(
    write: Write, serving: Serving, document: Document
) -> None:
    added = [write.enriched("c1", expected_keywords=["ANODE", "KEYWORD of C1", " "])]
    async with serving(write.replies(EnrichmentReply={"criteria": added})) as (
        stages,
        _,
    ):
        (before,) = await stages.synthesiser.synthesise(document, DocumentAnalysis())
        after = await stages.enricher.enrich(document, DocumentAnalysis(), before)
    kept = ("id", "weight", "name", "description", "required_elements")
    for old, new in zip(before.criteria, after.criteria, strict=True):
        assert [getattr(new, name) for name in kept] == [
            getattr(old, name) for name in kept
        ]
        assert new.scoring_guide.startswith(old.scoring_guide)
        assert new.verification_method.startswith(old.verification_method)
        assert (
            new.expected_keywords[: len(old.expected_keywords)] == old.expected_keywords
        )
    assert after.criteria[0].expected_keywords == ("keyword of c1", "ANODE")
    assert after.criteria[0].expected_concepts == ("loss of electrons",)
    assert "Full credit: All." in after.criteria[0].scoring_guide
    assert "Look for: a cause" in after.criteria[0].verification_method
    assert after.criteria[1:] == before.criteria[1:]
    assert after.model_dump(exclude={"criteria"}) == before.model_dump(
        exclude={"criteria"}
    )


@pytest.mark.parametrize("ids", [["c9"], ["c1", "c1"]])
async def test_enrichment_of_criteria_that_are_not_there_is_off_the_schema(
    write: Write, serving: Serving, document: Document, ids: list[str]
) -> None:
    added = [write.enriched(name) for name in ids]
    async with serving(write.replies(EnrichmentReply={"criteria": added})) as (
        stages,
        _,
    ):
        (draft,) = await stages.synthesiser.synthesise(document, DocumentAnalysis())
        with pytest.raises(StageRefusal) as refused:
            await stages.enricher.enrich(document, DocumentAnalysis(), draft)
    assert refused.value.reason is RejectionReason.REPLY_OFF_SCHEMA


@pytest.mark.parametrize(
    "method", ["regex: .*", " sentences: any", "python_tests:\nimport os"]
)
async def test_words_of_a_model_are_never_a_directive(
    write: Write, serving: Serving, document: Document, method: str
) -> None:
    one = write.draft(criteria=[write.criterion("c1", verification_method=method)])
    async with serving(write.replies(SynthesisReply={"drafts": [one]})) as (stages, _):
        (draft,) = await stages.synthesiser.synthesise(document, DocumentAnalysis())
    assert draft.criteria[0].verification_method == f"In words: {method}"


def _checked(write: Write, check: object, **changes: object) -> dict[str, Any]:
    one = write.criterion("c1", check=check)
    others = [write.criterion(f"c{n}", check=None) for n in range(2, 6)]
    return write.draft(criteria=[one, *others], **{"task_type": "code", **changes})


TESTS = {"kind": "python_tests", "tests": "assert f(1) == 2"}
NUMBER = {
    "kind": "numeric",
    "value": 12.0,
    "unit": "m/s",
    "tolerance": 2,
    "tolerance_as": "percent",
    "where": "answer",
}


async def test_a_typed_check_becomes_the_first_line_of_the_method_and_stays_it(
    write: Write, serving: Serving, document: Document
) -> None:
    drafts = [_checked(write, NUMBER, task_type="quantitative"), _checked(write, TESTS)]
    award = write.replies(CheckedSynthesisReply={"drafts": drafts})
    types = ["quantitative", "code"]
    async with serving(award, questions_per_document=2, task_types=types) as (
        stages,
        _,
    ):
        analysis = DocumentAnalysis()
        found = await stages.synthesiser.synthesise(document, analysis)
        number, tests = [
            await stages.enricher.enrich(document, analysis, one) for one in found
        ]
    assert (number.task_type, tests.task_type) == ("quantitative", "code")
    first, *rest = number.criteria[0].verification_method.split("\n")
    assert first.startswith("numeric: 12.0")
    assert rest == ["Read the answer.", "Look for: a cause before its effect"]
    assert tests.criteria[0].verification_method == "python_tests:\nassert f(1) == 2"
    assert "Look for:" in tests.criteria[0].scoring_guide
    assert "Read the answer." in tests.criteria[0].scoring_guide


@pytest.mark.parametrize(
    ("check", "task_type", "reason"),
    [
        ({**NUMBER, "tolerance": -1}, "quantitative", RejectionReason.BROKEN_CHECK),
        (
            {**NUMBER, "value": float("inf")},
            "quantitative",
            RejectionReason.REPLY_OFF_SCHEMA,
        ),
        (None, "code", RejectionReason.REPLY_OFF_SCHEMA),
        (None, "essay", RejectionReason.REPLY_OFF_SCHEMA),
        (
            {"kind": "shell", "tests": "rm"},
            "quantitative",
            RejectionReason.REPLY_OFF_SCHEMA,
        ),
    ],
)
async def test_a_check_that_no_program_can_run_refuses_its_draft(
    write: Write,
    serving: Serving,
    document: Document,
    check: object,
    task_type: str,
    reason: RejectionReason,
) -> None:
    drafts = [_checked(write, check, task_type=task_type)]
    award = write.replies(CheckedSynthesisReply={"drafts": drafts})
    async with serving(award, task_types=["quantitative"]) as (stages, _):
        (refused,) = await stages.synthesiser.synthesise(document, DocumentAnalysis())
    assert isinstance(refused, StageRefusal)
    assert refused.reason is reason


async def test_the_stages_share_the_system_message_and_the_document(
    write: Write, serving: Serving, document: Document
) -> None:
    async with serving(write.replies()) as (stages, endpoint):
        await _all_stages(stages, document)
    systems = {call.messages[0]["content"] for call in endpoint.calls}
    users = [call.messages[1]["content"] for call in endpoint.calls]
    assert len(systems) == 1
    opening = _common_prefix(users)
    assert "\n[3] ## Protection\n\nA zinc anode" in opening
    assert "----- END DOCUMENT" in opening
    assert "TASK" not in opening


async def test_a_known_answer_is_not_asked_for_again(
    write: Write, document: Document
) -> None:
    records: list[CallRecord] = []
    with FakeEndpoint(write.replies()) as endpoint:
        config = write.config(endpoint.url)
        async with ChatModel(config.model) as model:
            factory = llm_stages(model, config)
            first = await _all_stages(
                factory(DocumentCalls(on_answer=records.append)), document
            )
            again = await _all_stages(factory(DocumentCalls(records)), document)
        assert len(endpoint.calls) == 3
    assert first == again


async def test_several_documents_at_once_keep_apart(write: Write) -> None:
    documents = [
        Document(title=f"t{n}", text=f"Text {n} is here.\n\nMore of it.", source="s")
        for n in range(8)
    ]
    passages: dict[int, str] = {}
    with FakeEndpoint(write.replies(), latency=0.01) as endpoint:
        config = write.config(endpoint.url)
        async with ChatModel(config.model) as model, anyio.create_task_group() as group:
            factory = llm_stages(model, config)

            async def one(number: int) -> None:
                _, (draft,) = await _all_stages(
                    factory(DocumentCalls()), documents[number]
                )
                passages[number] = draft.passage

            for number in range(8):
                group.start_soon(one, number)
    assert passages == {n: documents[n].text for n in range(8)}


async def test_the_schemas_go_to_the_server(
    write: Write, serving: Serving, document: Document
) -> None:
    async with serving(write.replies()) as (stages, endpoint):
        await _all_stages(stages, document)
    formats: list[Any] = [call.body["response_format"] for call in endpoint.calls]
    names = [found["json_schema"]["name"] for found in formats]
    assert names == ["AnalysisReply", "SynthesisReply", "EnrichmentReply"]
    text = json.dumps(formats)
    assert "minLength" not in text  # hosted servers refuse it
    assert '"default":' not in text


async def test_a_scripted_model_answers_all_stages_from_the_document(
    serving: Serving, articles: dict[str, str]
) -> None:
    for name, text in articles.items():
        article = Document(title=name, text=text, source=name)
        async with serving(scripted_reply, questions_per_document=2) as (stages, _):
            analysis, drafts = await _all_stages(stages, article)
        assert analysis.concepts
        assert all(draft.passage in text for draft in drafts)


def _common_prefix(texts: list[str]) -> str:
    shortest = min(texts, key=len)
    for position, character in enumerate(shortest):
        if any(text[position] != character for text in texts):
            return shortest[:position]
    return shortest
