"""Stage 3: the model adds cues, terms, concepts and patterns to criteria; it changes none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rubric_judge.verification.directive import HEADS
from rubric_synth.llm.reading import checked
from rubric_synth.llm.replies import EnrichmentReply
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rubric_core import DocumentAnalysis
    from rubric_synth.document import Document
    from rubric_synth.llm.asking import Asking
    from rubric_synth.llm.replies import EnrichedReply
    from rubric_synth.stages import CriterionDraft, Draft

_LOOKS_LIKE_DIRECTIVE: Final = re.compile(rf"\s*(?:{'|'.join(HEADS)})\s*:")
_TO_THE_END: Final = ("python_tests:", "json_schema:")


def in_words(method: str) -> str:
    """Return a method that no judge takes for a directive.

    A program would execute one that the model wrote into free text, perhaps because the document
    told it to; and one that does not parse would make the whole rubric unusable.
    """
    return f"In words: {method}" if _LOOKS_LIKE_DIRECTIVE.match(method) else method


def runs_to_the_end(method: str) -> bool:
    """Whether a method begins with a directive that goes on to its end: nothing may follow."""
    return method.startswith(_TO_THE_END)


class LLMEnricher:
    """Stage 3 by a language model."""

    def __init__(self, asking: Asking) -> None:
        """Ask through this."""
        self._asking = asking

    async def enrich(self, document: Document, analysis: DocumentAnalysis, draft: Draft) -> Draft:  # noqa: ARG002 - the protocol's signature
        """Return the draft with more to grade by; a criterion that the reply lacks stays as it is.

        Raises:
            StageRefusal: no answer, none that can be used, or one about criteria that the rubric
                does not have.

        Source: paper, §3.4, Stage 3.
        """
        value = await self._asking.ask(
            document,
            self._asking.prompts.for_enrichment(document, draft),
            stage="enrich",
            reply=EnrichmentReply,
        )
        items = checked(EnrichmentReply, value).criteria
        added = {item.id: item for item in items}
        known = {criterion.id for criterion in draft.criteria}
        if len(added) < len(items):
            detail = f"criteria: {len(items) - len(added)} ids again"
            raise StageRefusal(RejectionReason.REPLY_OFF_SCHEMA, detail)
        if unknown := len(added.keys() - known):
            detail = f"criteria: {unknown} ids that are not the rubric's"
            raise StageRefusal(RejectionReason.REPLY_OFF_SCHEMA, detail)
        criteria = (
            enriched(criterion, added[criterion.id]) if criterion.id in added else criterion
            for criterion in draft.criteria
        )
        return draft.model_copy(update={"criteria": tuple(criteria)})


def enriched(criterion: CriterionDraft, added: EnrichedReply) -> CriterionDraft:
    """Return a criterion with what was added to it; a method that a program runs stays one."""
    cues = (
        ("Full credit", added.cues.full_credit),
        ("Partial credit", added.cues.partial_credit),
        ("No credit", added.cues.no_credit),
    )
    guide = [criterion.scoring_guide, *(f"{name}: {cue}" for name, cue in cues if cue.strip())]
    method = criterion.verification_method
    patterns = "; ".join(pattern for pattern in added.verification_patterns if pattern.strip())
    looking = [f"Look for: {patterns}"] if patterns else []
    if runs_to_the_end(method):
        guide += looking
    else:
        method = _lines([method, *looking])
    return criterion.model_copy(
        update={
            "scoring_guide": _lines(guide),
            "verification_method": method,
            "expected_keywords": _joined(criterion.expected_keywords, added.expected_keywords),
            "expected_concepts": _joined(criterion.expected_concepts, added.expected_concepts),
        }
    )


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part.strip())


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Return both without blanks and without what is there already but for case."""
    kept: dict[str, str] = {}
    for term in (*first, *second):
        if folded := term.strip().casefold():
            kept.setdefault(folded, term)
    return tuple(kept.values())
