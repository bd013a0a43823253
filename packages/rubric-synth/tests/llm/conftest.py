"""A document, a model behind a real endpoint, and replies to spoil."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from rubric_judge import ChatModel
from rubric_judge.testing import FakeCall, FakeEndpoint, Faults
from rubric_synth import Document
from rubric_synth.calls import DocumentCalls
from rubric_synth.config import LLMConfig
from rubric_synth.stages.llm.stages import llm_stages
from rubric_synth.stages.stages import Stages

Json = dict[str, Any]
Serving = Callable[..., AbstractAsyncContextManager[tuple[Stages, FakeEndpoint]]]

PLANTED = "zyxwvut"
"""Stands in documents and replies, and must stand in no message."""

_TEXT = f"""# Corrosion in sea water

Corrosion of steel in sea water is a reaction between iron and dissolved oxygen. {PLANTED}

Chloride ions break down the passive film that protects stainless steel in fresh water.

## Protection

A zinc anode protects the hull because zinc gives up its electrons more readily than iron."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def document() -> Document:
    return Document(title="Corrosion in sea water", text=_TEXT, source="corrosion.md")


class Write:
    """Replies of a model, with anything replaced; and a configuration."""

    planted = PLANTED

    @staticmethod
    def criterion(name: str, /, **changes: object) -> Json:
        return {
            "id": name,
            "kind": "cause",
            "name": "A title",
            "description": "What is asked.",
            "wrong_answer": "Something else.",
            "required_elements": [f"element of {name}"],
            "expected_keywords": [f"keyword of {name}"],
            "verification_method": "Read the answer.",
            "scoring_guide": "In proportion.",
            "weight": 2,
            **changes,
        }

    @staticmethod
    def draft(**changes: object) -> Json:
        return {
            "question_rationale": f"It takes understanding. {PLANTED}",
            "first_paragraph": 1,
            "last_paragraph": 2,
            "question": "Why does steel rust in the sea?",
            "criteria": [
                Write.criterion(name) for name in ("c1", "c2", "c3", "c4", "c5")
            ],
            "reference_answer": "Because iron reacts with oxygen.",
            **changes,
        }

    @staticmethod
    def enriched(name: str, /, **changes: object) -> Json:
        return {
            "id": name,
            "cues": {
                "full_credit": "All.",
                "partial_credit": "Some.",
                "no_credit": "None.",
            },
            "expected_keywords": ["anode"],
            "expected_concepts": ["loss of electrons"],
            "verification_patterns": ["a cause before its effect"],
            **changes,
        }

    @staticmethod
    def analysis(**changes: object) -> Json:
        return {
            "genre": "textbook section",
            "contribution": f"It explains rust. {PLANTED}",
            "concepts": ["corrosion", "anode"],
            "depth": "introductory",
            "reasoning_mode": "causal",
            **changes,
        }

    @staticmethod
    def replies(**by_schema: object) -> Callable[[FakeCall], str]:
        """Answer each schema with a fixed reply: text as it is, anything else as JSON."""
        known: Json = {
            "AnalysisReply": Write.analysis(),
            "SynthesisReply": {"drafts": [Write.draft()]},
            "EnrichmentReply": {
                "criteria": [Write.enriched(f"c{n}") for n in range(1, 6)]
            },
            **by_schema,
        }

        def award(call: FakeCall) -> str:
            body: Any = call.body
            reply = known[body["response_format"]["json_schema"]["name"]]
            return reply if isinstance(reply, str) else json.dumps(reply)

        return award

    @staticmethod
    def config(url: str, **changes: object) -> LLMConfig:
        model = {
            "model": "openai/fake",
            "transport": "direct",
            "api_base": url,
            "timeout_s": 120,
            "deadline_s": 120,
            "max_transport_attempts": 1,
            "backoff_s": 0.001,
            **changes.pop("model", {}),  # pyright: ignore[reportGeneralTypeIssues]
        }
        return LLMConfig.model_validate({"model": model, **changes})


@pytest.fixture
def write() -> type[Write]:
    return Write


@pytest.fixture
def serving() -> Serving:
    """Serve an award, and give stages that ask it."""

    @asynccontextmanager
    async def serve(
        award: Callable[[FakeCall], str], *, faults: Faults = (), **changes: object
    ) -> AsyncIterator[tuple[Stages, FakeEndpoint]]:
        with FakeEndpoint(award, faults=faults) as endpoint:
            settings = Write.config(endpoint.url, **changes)
            async with ChatModel(settings.model) as model:
                yield llm_stages(model, settings)(DocumentCalls()), endpoint

    return serve
