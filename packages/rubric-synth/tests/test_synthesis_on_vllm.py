"""The three stages on a real vLLM with structured outputs, serving a tiny model of random weights.

What such a model says is noise within the schema. What is not: that every reply is a valid object
or a counted refusal, that calls and tokens add up with the server's own counts, and that a server
which ends in the middle loses nothing.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from rubric_core import DocumentAnalysis
from rubric_judge import ChatModel, JudgeSetupError, ModelConfig
from rubric_judge.testing.vllm import VLLMServer
from rubric_synth import (
    CriterionDraft,
    Draft,
    RejectionReason,
    StageRefusal,
    SynthConfig,
    SynthReport,
    UnfinishedError,
    check_dataset,
    collect,
    synthesise,
)
from rubric_synth.calls import DocumentCalls
from rubric_synth.config import LLMConfig
from rubric_synth.stages.llm.replies import (
    AnalysisReply,
    CheckedSynthesisReply,
    EnrichmentReply,
    SynthesisReply,
)
from rubric_synth.stages.llm.stages import llm_stages
from rubric_synth.testing import generated_documents

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from rubric_synth.document import Document
    from rubric_synth.stages.stages import Stages

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]

TRANSPORTS = {"direct": "served", "litellm": "hosted_vllm/served"}
OF_A_REPLY = {
    RejectionReason.REPLY_TRUNCATED,
    RejectionReason.REPLY_OFF_SCHEMA,
    RejectionReason.NO_QUESTION,
    RejectionReason.PASSAGE_NOT_IN_DOCUMENT,
    RejectionReason.BROKEN_CHECK,
}
"""What a reply within the schema can still be refused for."""
DOCUMENTS = 12
ENDS_STRINGS = 5.0
"""Added to the logits of tokens with a quote, or a random string would rarely end."""


@pytest.fixture(scope="module")
def quotes(chat_model: Path) -> list[int]:
    """Ids of the model's tokens that begin with a quote."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(chat_model)
    return [
        token
        for token in range(len(tokenizer))
        if tokenizer.decode([token]).startswith('"')
    ]


@pytest.fixture(scope="module")
def vllm(vllm: VLLMServer, quotes: list[int]) -> VLLMServer:
    return _awake(vllm, quotes)


def _awake(server: VLLMServer, quotes: list[int]) -> VLLMServer:
    """The first answer takes long on a busy machine, and a run asks for one within seconds."""
    config = ModelConfig.model_validate(_model(server, quotes, max_tokens=8))

    async def ask() -> None:
        async with ChatModel(config) as model:
            await model.complete(system="", user="", reply=AnalysisReply)

    anyio.run(ask)
    return server


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return list(generated_documents(DOCUMENTS))


@pytest.fixture(scope="module")
def collected(
    tmp_path_factory: pytest.TempPathFactory, documents: list[Document]
) -> Path:
    sources = tmp_path_factory.mktemp("sources")
    for number, document in enumerate(documents):
        (sources / f"{number:02}.md").write_text(
            f"# {document.title}\n\n{document.text}", "utf-8"
        )
    folder = tmp_path_factory.mktemp("collected")
    assert collect([str(sources)], folder).documents == len(documents)
    return folder


def _model(server: VLLMServer, quotes: list[int], **changes: object) -> dict[str, Any]:
    bias = {str(token): ENDS_STRINGS for token in quotes}
    return {
        "model": TRANSPORTS["direct"],
        "transport": "direct",
        "api_base": server.url,
        "temperature": 1.0,
        "max_tokens": 4000,
        "parameters": {"logit_bias": bias},
        "timeout_s": 300,
        **changes,
    }


def _config(model: dict[str, Any], **changes: object) -> SynthConfig:
    return SynthConfig.model_validate(
        {
            "synthesiser": {
                "type": "llm",
                "model": model,
                "questions_per_document": 2,
                "document_chars": 2000,
                "task_types": ["open", "quantitative", "code"],
            },
            "max_concurrency": 16,
            **changes,
        }
    )


class _Counts(Counter[str]):
    """The server's own counts of finished requests and of tokens."""

    def __init__(self, server: VLLMServer) -> None:
        super().__init__()
        for line in server.metrics().splitlines():
            found = re.match(r"vllm:(\w+?)(?:_total)?\{(.*)\} ([0-9.e+]+)$", line)
            if found is None:
                continue
            name, labels, value = found.groups()
            if name in {"prompt_tokens", "generation_tokens"}:
                self[name] += int(float(value))
            elif name == "request_success":
                reason = re.search(r'finished_reason="(\w+)"', labels)
                self[reason[1] if reason else "?"] += int(float(value))

    @property
    def requests(self) -> int:
        return self["stop"] + self["length"]


def _assert_adds_up(report: SynthReport, *, before: _Counts, after: _Counts) -> None:
    asked_at_start = 1  # whether the model is there
    assert report.usage.calls == after.requests - before.requests - asked_at_start
    assert report.usage.attempts >= report.usage.calls
    # That question is short.
    for mine, theirs in (
        (report.usage.prompt_tokens, "prompt_tokens"),
        (report.usage.completion_tokens, "generation_tokens"),
    ):
        assert 0 <= after[theirs] - before[theirs] - mine < 1000


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_document_ends_as_tasks_or_as_a_counted_refusal(
    vllm: VLLMServer, quotes: list[int], collected: Path, tmp_path: Path, transport: str
) -> None:
    config = _config(
        _model(vllm, quotes, model=TRANSPORTS[transport], transport=transport)
    )
    before = _Counts(vllm)

    report = synthesise(collected, tmp_path / "out", config=config)

    after = _Counts(vllm)
    assert (report.documents, report.pending_documents) == (DOCUMENTS, 0)
    assert {RejectionReason(name) for name in report.rejected} <= OF_A_REPLY
    assert sum(report.rejected.values()) >= DOCUMENTS - report.accepted_documents
    cut_off = after["length"] - before["length"]
    assert report.rejected.get("reply_truncated", 0) == cut_off
    _assert_adds_up(report, before=before, after=after)
    assert check_dataset(tmp_path / "out", collected=collected)
    again = synthesise(collected, tmp_path / "out", config=config)
    assert again.rejected == report.rejected
    assert _Counts(vllm).requests == after.requests


def _stage(
    server: VLLMServer,
    quotes: list[int],
    ask: Callable[[Stages, Document], Any],
    documents: list[Document],
) -> list[object]:
    """Ask one stage about each document; its results and refusals."""
    config = LLMConfig.model_validate(_config(_model(server, quotes)).synthesiser)

    async def work() -> list[object]:
        found: list[object] = []

        async def one(document: Document) -> None:
            try:
                found.append(await ask(stages(DocumentCalls()), document))
            except StageRefusal as refusal:
                found.append(refusal)

        async with ChatModel(config.model) as model:
            stages = llm_stages(model, config)
            async with anyio.create_task_group() as group:
                for document in documents:
                    group.start_soon(one, document)
        return found

    return anyio.run(work)


ANALYSIS = DocumentAnalysis.model_validate(
    {
        "genre": "article",
        "contribution": "Explains a process.",
        "concepts": ["process"],
        "depth": "intermediate",
        "reasoning_mode": "causal",
    }
)
DRAFT = Draft(
    question="Why does the process slow down?",
    passage="It slows down.",
    criteria=tuple(
        CriterionDraft(
            id=name,
            weight=1.0,
            name=name,
            description=f"Names the {name}.",
            required_elements=(name,),
            scoring_guide="All or nothing.",
            verification_method="Read it.",
            expected_keywords=(name,),
        )
        for name in ("cause", "effect", "condition", "limit", "term")
    ),
    reference_answer="Because the cause has its effect.",
)


def test_the_first_stage_gives_an_analysis_or_a_reason(
    vllm: VLLMServer, quotes: list[int], documents: list[Document]
) -> None:
    found = _stage(
        vllm,
        quotes,
        lambda stages, document: stages.analyst.analyse(document),
        documents,
    )

    kinds = Counter(type(one) for one in found)
    assert set(kinds) <= {DocumentAnalysis, StageRefusal}
    assert kinds[DocumentAnalysis] >= len(documents) // 2
    assert _reasons(found) <= OF_A_REPLY


def test_the_second_stage_gives_drafts_or_reasons(
    vllm: VLLMServer, quotes: list[int], documents: list[Document]
) -> None:
    found = _stage(
        vllm,
        quotes,
        lambda stages, document: stages.synthesiser.synthesise(document, ANALYSIS),
        documents,
    )

    drafts = [one for some in found if isinstance(some, list) for one in some]
    assert {type(one) for one in drafts} <= {Draft, StageRefusal}
    assert _reasons([*found, *drafts]) <= OF_A_REPLY
    for draft in drafts:
        if isinstance(draft, Draft):
            assert all(criterion.verification_method for criterion in draft.criteria)


def test_the_third_stage_enriches_the_rubric_or_says_why_not(
    vllm: VLLMServer, quotes: list[int], documents: list[Document]
) -> None:
    found = _stage(
        vllm,
        quotes,
        lambda stages, document: stages.enricher.enrich(document, ANALYSIS, DRAFT),
        documents,
    )

    # Ids are free in the schema: noise names none of the rubric's.
    assert _reasons(found) <= OF_A_REPLY
    assert all(isinstance(one, Draft | StageRefusal) for one in found)


def _reasons(found: list[object]) -> set[RejectionReason]:
    return {one.reason for one in found if isinstance(one, StageRefusal)}


@pytest.mark.parametrize("backend", ["xgrammar", "guidance"])
def test_the_schemas_of_all_replies_are_ones_that_a_backend_can_hold(
    backend: str,
) -> None:
    models: list[type[BaseModel]] = [
        AnalysisReply,
        SynthesisReply,
        CheckedSynthesisReply,
        EnrichmentReply,
    ]
    if backend == "xgrammar":
        from vllm.v1.structured_output.backend_xgrammar import (
            has_xgrammar_unsupported_json_features as is_refused,
        )
    else:
        from vllm.v1.structured_output.backend_guidance import (
            has_guidance_unsupported_json_features as is_refused,
        )

    assert not any(is_refused(model.model_json_schema()) for model in models)


def test_replies_that_are_cut_off_are_counted(
    vllm: VLLMServer, quotes: list[int], collected: Path, tmp_path: Path
) -> None:
    config = _config(_model(vllm, quotes, max_tokens=8))

    report = synthesise(collected, tmp_path / "out", config=config)

    assert report.rejected == {"reply_truncated": DOCUMENTS}
    assert (report.usage.calls, report.usage.completion_tokens) == (
        DOCUMENTS,
        DOCUMENTS * 8,
    )


def test_a_model_that_the_server_does_not_have_is_an_error_before_the_first_document(
    vllm: VLLMServer, quotes: list[int], collected: Path, tmp_path: Path
) -> None:
    config = _config(_model(vllm, quotes, model="nobody"))

    with pytest.raises(JudgeSetupError, match="nobody"):
        synthesise(collected, tmp_path / "out", config=config)


def test_a_server_that_is_killed_in_the_middle_loses_nothing(
    vllm: VLLMServer,
    chat_model: Path,
    serve: Callable[[Path], VLLMServer],
    quotes: list[int],
    collected: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    changes = {"max_concurrency": 4, "max_unavailable_in_a_row": 1000}
    hurried = {"max_transport_attempts": 2, "backoff_s": 0.1}
    with serve(chat_model) as server:
        killer = _Killer(_awake(server, quotes), after=3)
        with pytest.raises(UnfinishedError, match="documents got no answer") as stopped:
            synthesise(
                collected,
                out,
                config=_config(_model(server, quotes, **hurried), **changes),
                on_document=killer.count,
            )
    assert stopped.value.cause == "unavailable"
    assert 0 < stopped.value.pending < DOCUMENTS
    first = json.loads((out / "manifest.json").read_text("utf-8"))
    assert first["rejected"]["model_unavailable"] == stopped.value.pending

    before = _Counts(vllm)
    second = synthesise(
        collected, out, config=_config(_model(vllm, quotes, **hurried), **changes)
    )
    after = _Counts(vllm)

    # What was answered before is not asked again, though the address is another one.
    assert "model_unavailable" not in second.rejected
    asked_again = after.requests - before.requests - 1
    assert second.usage.calls - first["usage"]["total"]["calls"] == asked_again
    assert {RejectionReason(name) for name in second.rejected} <= OF_A_REPLY


class _Killer:
    """Ends a server, as a machine that fails would, when some documents are done."""

    def __init__(self, server: VLLMServer, *, after: int) -> None:
        self._server = server
        self._after = after
        self._is_killed = threading.Event()

    def count(self, done: int) -> None:
        if done >= self._after and not self._is_killed.is_set():
            self._is_killed.set()
            self._server.kill()
