"""The scripted model and the generated documents: real enough, distinct, the same every time."""

import runpy
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from rubric_judge import ChatModel, LexicalJudge
from rubric_judge.testing import Award, FakeCall, FakeEndpoint
from rubric_synth import Document, QualityConfig
from rubric_synth.calls import DocumentCalls
from rubric_synth.document import DocumentOutcome
from rubric_synth.run.engines.worker import Worker
from rubric_synth.stages.llm.stages import llm_stages
from rubric_synth.testing import generated_documents, scripted_reply

Write = Any


async def _outcomes(
    write: Write, url: str, documents: list[Document], **changes: object
) -> list[DocumentOutcome]:
    config = write.config(url, **changes)
    async with ChatModel(config.model) as model:
        worker = Worker(llm_stages(model, config), LexicalJudge(), QualityConfig())
        await worker.check()
        return [
            await worker.process(document, DocumentCalls()) for document in documents
        ]


@pytest.fixture
def award(monkeypatch: pytest.MonkeyPatch, *, is_template: bool) -> Award:
    """The scripted model, or the model of `benchmarks/synth_scale.py`."""
    benchmarks = Path(__file__).parents[4] / "benchmarks"
    monkeypatch.syspath_prepend(benchmarks)  # pyright: ignore[reportUnknownMemberType] - no stubs
    reply: Award = scripted_reply
    if is_template:
        reply = runpy.run_path(str(benchmarks / "synth_scale.py"))["template_reply"]
    return reply


@pytest.mark.anyio
@pytest.mark.parametrize("is_template", [False, True])
async def test_every_generated_document_gives_tasks_that_pass_the_checks(
    write: Write, award: Award
) -> None:
    documents = list(generated_documents(25, seed=7))
    with FakeEndpoint(award, keep="counts") as endpoint:
        outcomes = await _outcomes(
            write, endpoint.url, documents, questions_per_document=1
        )
    reasons = Counter(r.reason for outcome in outcomes for r in outcome.rejections)
    assert not reasons
    assert [len(outcome.tasks) for outcome in outcomes] == [1] * 25
    questions = {str(outcome.tasks[0]["question"]) for outcome in outcomes}
    assert len(questions) == 25


@pytest.mark.anyio
async def test_a_scripted_model_writes_as_many_drafts_as_it_is_asked_for(
    write: Write,
) -> None:
    documents = list(generated_documents(3))
    with FakeEndpoint(scripted_reply) as endpoint:
        outcomes = await _outcomes(
            write, endpoint.url, documents, questions_per_document=3
        )
    assert [len(outcome.tasks) for outcome in outcomes] == [3, 3, 3]


@pytest.mark.anyio
async def test_a_scripted_model_answers_where_checks_are_asked_for(
    write: Write,
) -> None:
    documents = list(generated_documents(2))
    with FakeEndpoint(scripted_reply) as endpoint:
        types = ["open", "quantitative"]
        outcomes = await _outcomes(write, endpoint.url, documents, task_types=types)
    assert [len(outcome.tasks) for outcome in outcomes] == [3, 3]


@pytest.mark.anyio
async def test_a_document_that_says_nothing_gets_no_draft(write: Write) -> None:
    with FakeEndpoint(scripted_reply) as endpoint:
        document = Document(title="Nothing", text="Nothing to say.", source="a.md")
        (outcome,) = await _outcomes(write, endpoint.url, [document])
    assert [str(rejection.reason) for rejection in outcome.rejections] == [
        "no_question"
    ]


@pytest.mark.parametrize("is_template", [False, True])
def test_what_is_no_stage_of_synthesis_is_not_answered(award: Award) -> None:
    body = {"messages": [{"role": "user", "content": "score this"}]}
    call = FakeCall(number=0, at_s=0.0, body=body, headers={}, weights={}, fault=None)
    with pytest.raises(ValueError, match="no stage"):
        award(call)


def test_a_generated_document_depends_on_its_number_and_seed_alone() -> None:
    ten = list(generated_documents(10))
    assert list(generated_documents(4, start=6)) == ten[6:]
    assert next(generated_documents(1, seed=1)) != ten[0]
    assert all(2_500 < len(document.text) < 3_500 for document in ten)
    assert all(
        document.text.startswith(f"# {document.title}\n\n## ") for document in ten
    )


def test_no_two_generated_documents_are_near_each_other() -> None:
    def shingles(text: str) -> set[tuple[str, ...]]:
        words = text.lower().split()
        return set(zip(words, words[1:], words[2:], strict=False))

    found = [shingles(document.text) for document in generated_documents(100)]
    assert max(len(a & b) / len(a | b) for a, b in combinations(found, 2)) < 0.25
