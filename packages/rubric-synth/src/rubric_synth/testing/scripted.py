"""A model that is none: it answers the three stages with what the extractive stages find.

Its drafts are real: they come from the document in the prompt, and most pass the quality checks.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rubric_synth.api_entry import parse_entry
from rubric_synth.cleaning import sections
from rubric_synth.config import ExtractiveConfig
from rubric_synth.document import Document
from rubric_synth.extractive import extractive_stages
from rubric_synth.stages import Draft, StageRefusal
from rubric_synth.testing.prompted import (
    PromptedDocument,
    asked_for,
    most_drafts,
    prompted_document,
    prompted_draft,
)

if TYPE_CHECKING:
    from rubric_core import DocumentAnalysis
    from rubric_judge.testing import FakeCall
    from rubric_synth.stages import CriterionDraft, Stages

_Result = TypeVar("_Result")
_Json = dict[str, Any]

_LONGEST_MINIMUM: Final = 30
"""Words of the shortest passage: prompts may show little of a document."""


def scripted_reply(call: FakeCall) -> str:
    """Answer a stage from the document in its prompt: an `Award` for `FakeEndpoint`.

    Raises:
        ValueError: Something is asked that is none of the stages.
    """
    return json.dumps(_reply(asked_for(call.body), call.messages[-1]["content"]))


def _reply(asked: str, message: str) -> _Json:
    match asked:
        case "_Ready":
            return {"ready": True}
        case "AnalysisReply":
            return _analysed(prompted_document(message))[1].model_dump(mode="json")
        case "SynthesisReply" | "CheckedSynthesisReply":
            return {"drafts": _drafts(prompted_document(message), asked, most_drafts(message))}
        case "EnrichmentReply":
            return {"criteria": [_enriched(c) for c in prompted_draft(message)["criteria"]]}
        case _:
            raise ValueError(f"{asked!r} is asked for, which is no stage of synthesis")


# The three questions about a document follow each other.
@lru_cache(maxsize=64)
def _analysed(shown: PromptedDocument) -> tuple[Stages, DocumentAnalysis]:
    document = _document(shown)
    stages = extractive_stages([document], ExtractiveConfig())
    return stages, _now(stages.analyst.analyse(document))


def _document(shown: PromptedDocument) -> Document:
    kind = "prose" if parse_entry(shown.text) is None else "api"
    return Document(title=shown.title, text=shown.text, source="prompt", kind=kind)


def _drafts(shown: PromptedDocument, asked: str, most: int) -> list[_Json]:
    document = _document(shown)
    config = ExtractiveConfig(
        questions_per_document=min(most, 5), min_passage_words=_LONGEST_MINIMUM
    )
    stages = extractive_stages([document], config)
    analysis = _analysed(shown)[1]
    try:
        drafts = _now(stages.synthesiser.synthesise(document, analysis))
    except StageRefusal:
        return []
    found = [_draft(draft, shown) for draft in drafts if isinstance(draft, Draft)]
    if asked == "CheckedSynthesisReply":
        found = [_unchecked(draft) for draft in found]
    return found


def _draft(draft: Draft, shown: PromptedDocument) -> _Json:
    first, last = _paragraphs(draft.passage, shown.paragraphs)
    spare = [word for c in draft.criteria for word in c.expected_keywords]
    return {
        "question_rationale": draft.question_rationale,
        "first_paragraph": first,
        "last_paragraph": last,
        "question": draft.question,
        "criteria": [_criterion(criterion, spare) for criterion in draft.criteria],
        "reference_answer": draft.reference_answer,
    }


def _paragraphs(passage: str, paragraphs: Sequence[str]) -> tuple[int, int]:
    """Return the numbers of the first and last paragraph that hold a cleaned passage."""
    parts = frozenset(passage.split("\n\n"))
    holding = [
        number
        for number, paragraph in enumerate(paragraphs, start=1)
        if any(found in parts for section in sections(paragraph) for found in section.paragraphs)
    ]
    return (holding[0], holding[-1]) if holding else (1, len(paragraphs))


def _criterion(criterion: CriterionDraft, spare: Sequence[str]) -> _Json:
    """Write a criterion with all components; one about form asks for terms of the others."""
    terms = list(criterion.expected_keywords or spare[:2])
    required = list(criterion.required_elements) or terms[:1]
    return {
        "id": criterion.id,
        "name": criterion.name,
        "description": criterion.description,
        "required_elements": required,
        "expected_keywords": [term for term in terms if term not in required] or required,
        "verification_method": criterion.verification_method,
        "scoring_guide": criterion.scoring_guide,
        "weight": criterion.weight,
    }


def _unchecked(draft: _Json) -> _Json:
    criteria = [{**criterion, "check": None} for criterion in draft["criteria"]]
    return {**draft, "task_type": "open", "criteria": criteria}


def _enriched(criterion: Mapping[str, Any]) -> _Json:
    terms = [*criterion["required_elements"], *criterion["expected_keywords"]]
    return {
        "id": criterion["id"],
        "cues": {
            "full_credit": f"The answer holds {', '.join(terms)} and says how they are connected.",
            "partial_credit": "The answer holds some of these terms.",
            "no_credit": "The answer names none of them, or only repeats the question.",
        },
        "expected_keywords": [],
        "expected_concepts": terms[:1],
        "verification_patterns": [f"a complete sentence about {terms[0]}"],
    }


def _now(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine that waits for nothing; the endpoint's own event loop is running."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError("the extractive stages wait for nothing")
