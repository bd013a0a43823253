"""The boundary around stages: what becomes a counted reason, and what must pass."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import pytest
from pydantic import BaseModel

from rubric_core import DocumentAnalysis, Reason
from rubric_judge import (
    ChatModel,
    ChatReply,
    ChatRequest,
    JudgeTransportError,
    LexicalJudge,
    ModelConfig,
    Transport,
)
from rubric_judge.testing import FailingJudge
from rubric_synth import (
    Document,
    Draft,
    ExtractiveConfig,
    OutputError,
    QualityConfig,
    RejectionReason,
    StageRefusal,
    Stages,
    extractive_stages,
)
from rubric_synth.calls import CallRecord, DocumentCalls
from rubric_synth.errors import CallsStoppedError
from rubric_synth.run.engines.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rubric_core import Judge
    from rubric_synth.config import Stage
    from rubric_synth.document import DocumentOutcome


@pytest.fixture
def document(articles: dict[str, str]) -> Document:
    return Document(
        title="Tides along a coast", text=articles["tides"], source="tides.md"
    )


@pytest.fixture
def stages(document: Document) -> Stages:
    return extractive_stages([document], ExtractiveConfig())


class _Reply(BaseModel):
    text: str


class _Synthesiser:
    """Does what it is told to."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    async def synthesise(
        self, document: Document, analysis: DocumentAnalysis
    ) -> Sequence[Draft]:
        del document, analysis
        return self._work()  # pyright: ignore[reportReturnType] - third-party code


def _process(
    document: Document,
    stages: Stages,
    *,
    judge: Judge | None = None,
    calls: DocumentCalls | None = None,
) -> DocumentOutcome:
    worker = Worker(stages, judge or LexicalJudge(), QualityConfig())
    return anyio.run(worker.process, document, calls or DocumentCalls())


def _raising(error: Exception) -> Callable[[], object]:
    def work() -> object:
        raise error

    return work


def test_a_document_becomes_a_task(document: Document, stages: Stages) -> None:
    outcome = _process(document, stages)
    (task,) = outcome.tasks
    assert task["doc_hash"] == outcome.doc_hash == document.doc_hash
    assert outcome.is_settled
    assert outcome.rejections == ()


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [
        (KeyError("x"), "stage_failed", "KeyError at test_worker.py:"),
        (StageRefusal(RejectionReason.NO_PASSAGE, "3 words"), "no_passage", "3 words"),
        (JudgeTransportError(Reason.TIMEOUT, "late"), "model_unavailable", "timeout"),
        (
            ExceptionGroup(
                "two", [ExceptionGroup("one", [ValueError(1)]), KeyError("y")]
            ),
            "stage_failed",
            "ValueError",
        ),
    ],
)
def test_what_a_stage_raises_becomes_a_reason(
    document: Document, stages: Stages, error: Exception, reason: str, detail: str
) -> None:
    outcome = _process(
        document, stages._replace(synthesiser=_Synthesiser(_raising(error)))
    )
    (rejection,) = outcome.rejections
    assert (rejection.stage, rejection.reason) == ("synthesise", reason)
    assert rejection.detail.startswith(detail)
    assert outcome.is_settled is (reason != "model_unavailable")


@pytest.mark.parametrize("found", [None, 3, ["text"], [None]])
def test_what_is_no_list_of_drafts_is_a_fault_of_the_stage(
    document: Document, stages: Stages, found: object
) -> None:
    outcome = _process(
        document, stages._replace(synthesiser=_Synthesiser(lambda: found))
    )
    (rejection,) = outcome.rejections
    assert rejection.reason is RejectionReason.STAGE_FAILED


def test_a_judge_without_an_answer_leaves_the_document_for_another_run(
    document: Document, stages: Stages
) -> None:
    outcome = _process(document, stages, judge=FailingJudge())
    (rejection,) = outcome.rejections
    assert rejection.reason is RejectionReason.JUDGE_UNAVAILABLE
    assert rejection.draft is not None
    assert not outcome.is_settled


def test_a_refused_draft_is_kept_in_a_form_that_any_file_can_hold(
    document: Document, stages: Stages
) -> None:
    analysis = anyio.run(stages.analyst.analyse, document)
    (draft,) = anyio.run(stages.synthesiser.synthesise, document, analysis)
    assert isinstance(draft, Draft)
    criteria = tuple(
        c.model_copy(update={"weight": float("nan")}) for c in draft.criteria
    )
    odd = draft.model_copy(
        update={"criteria": criteria, "question": "half \ud83d a pair?"}
    )
    outcome = _process(
        document, stages._replace(synthesiser=_Synthesiser(lambda: [odd]))
    )
    (rejection,) = outcome.rejections
    assert rejection.draft is not None
    assert rejection.draft["question"] == "half ? a pair?"
    assert rejection.draft["criteria"][0]["weight"] is None
    assert "half" not in repr(outcome)
    outcome.model_dump_json()


def test_a_stopped_call_is_no_outcome_even_where_a_stage_swallows_it(
    document: Document, stages: Stages
) -> None:
    def refuse() -> None:
        raise CallsStoppedError("no more")

    calls = DocumentCalls(permit=refuse)

    class Swallowing(_Synthesiser):
        async def synthesise(
            self, document: Document, analysis: DocumentAnalysis
        ) -> Sequence[Draft]:
            with suppress(Exception):
                await calls.ask(
                    model, stage="synthesise", system="s", user="u", reply=_Reply
                )
            return [
                d for d in await stages.synthesiser.synthesise(document, analysis) if d
            ]

    config = ModelConfig(
        model="fake", transport="direct", api_base="http://127.0.0.1:9/v1"
    )
    model = ChatModel(config)
    with pytest.raises(CallsStoppedError):
        _process(document, stages._replace(synthesiser=Swallowing(list)), calls=calls)


def test_an_answer_that_cannot_be_kept_ends_the_run(
    document: Document, stages: Stages
) -> None:
    def full(record: CallRecord) -> None:
        raise OutputError("no room", path=record.key)

    class Scripted:
        name = "scripted"

        async def judge(self, view: object) -> object:
            return LexicalJudge().judge_now(view)  # pyright: ignore[reportArgumentType]

    with pytest.raises(OutputError, match="no room"):
        _process(
            document, stages, judge=Scripted(), calls=DocumentCalls(on_answer=full)
        )


def test_the_key_of_a_call_is_a_hash_of_all_that_may_change_its_answer() -> None:
    class Reply(BaseModel):
        word: str

    class Client(Transport):
        async def ask(self, request: ChatRequest) -> ChatReply:
            del request
            return ChatReply("{}", "complete", None, 1)

    kept: list[CallRecord] = []
    calls = DocumentCalls(on_answer=kept.append)
    hot = ModelConfig(model="fake", parameters={"top_p": 0.5})
    models = [
        ChatModel(config, client=Client())
        for config in (ModelConfig(model="fake"), hot)
    ]

    asked: list[tuple[ChatModel, Stage, str, str]] = [
        (models[0], "analyse", "be brief", "half \ud83d a pair"),
        (models[0], "enrich", "be brief", "half \ud83d a pair"),
        (models[1], "analyse", "be brief", "half \ud83d a pair"),
        (models[0], "analyse", "be briefh", "alf \ud83d a pair"),
    ]

    async def ask() -> None:
        for model, stage, system, user in asked:
            for _ in range(2):
                await calls.ask(
                    model, stage=stage, system=system, user=user, reply=Reply
                )

    anyio.run(ask)
    schema = hashlib.sha256(
        json.dumps([Reply.model_json_schema()], sort_keys=True).encode()
    )
    parts = ["analyse", models[0].identity, "Reply", schema.hexdigest()]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for text in (b"be brief", b"half \xed\xa0\xbd a pair"):
        key.update(len(text).to_bytes(8) + text)
    assert kept[0].key == key.hexdigest()
    assert len({record.key for record in kept}) == len(kept) == 4


def test_a_judgement_is_asked_for_once_over_runs(
    document: Document, stages: Stages
) -> None:
    asked: list[str] = []

    class Scripted:
        name = "scripted"

        async def judge(self, view: object) -> object:
            asked.append("again")
            return LexicalJudge().judge_now(view)  # pyright: ignore[reportArgumentType]

    kept: list[CallRecord] = []
    first = _process(
        document, stages, judge=Scripted(), calls=DocumentCalls(on_answer=kept.append)
    )
    count = len(asked)
    assert count == len(kept) > 0
    assert first.totals["quality"].unpriced_calls == 0  # it is no model
    assert (
        _process(document, stages, judge=Scripted(), calls=DocumentCalls(kept)) == first
    )
    assert len(asked) == count


def test_a_judge_that_answers_at_once_is_asked_again_and_none_of_its_answers_is_kept(
    document: Document, stages: Stages
) -> None:
    class Program:
        name = "program"

        async def judge(self, view: object) -> object:
            raise AssertionError(f"nothing has to be waited for: {view!r:.20}")

        def judge_now(self, view: object) -> object:
            return LexicalJudge().judge_now(view)  # pyright: ignore[reportArgumentType]

    kept: list[CallRecord] = []
    outcome = _process(
        document, stages, judge=Program(), calls=DocumentCalls(on_answer=kept.append)
    )
    assert outcome.tasks
    assert kept == []
