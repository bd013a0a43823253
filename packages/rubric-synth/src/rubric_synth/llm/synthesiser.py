"""Stage 2: the model writes questions with rubrics; each draft of a reply stands alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_synth.llm.enricher import in_words, runs_to_the_end
from rubric_synth.llm.executable import to_directive
from rubric_synth.llm.prompt import asks_for_checks
from rubric_synth.llm.reading import checked, items_of
from rubric_synth.llm.replies import (
    CheckedCriterionReply,
    CheckedDraftReply,
    CheckedSynthesisReply,
    CriterionReply,
    DraftReply,
    SynthesisReply,
)
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import CriterionDraft, Draft, StageRefusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_core import DocumentAnalysis
    from rubric_synth.document import Document
    from rubric_synth.llm.asking import Asking
    from rubric_synth.llm.paragraphs import ShownText


class LLMSynthesiser:
    """Stage 2 by a language model."""

    def __init__(self, asking: Asking) -> None:
        """Ask through this."""
        self._asking = asking
        self._checks = asks_for_checks(asking.config.task_types)

    async def synthesise(
        self, document: Document, analysis: DocumentAnalysis
    ) -> Sequence[Draft | StageRefusal]:
        """Return up to K_d drafts, and a refusal for each that cannot be used.

        Raises:
            StageRefusal: no answer, none that can be used, or one without any draft.

        Source: paper, §3.4, Stage 2.
        """
        value = await self._asking.ask(
            document,
            self._asking.prompts.for_synthesis(document, analysis),
            stage="synthesise",
            reply=CheckedSynthesisReply if self._checks else SynthesisReply,
        )
        items = items_of(value, name="drafts")
        if not items:
            raise StageRefusal(RejectionReason.NO_QUESTION, "the model found none")
        shown = self._asking.shown(document)
        most = self._asking.config.questions_per_document
        found = [self._draft_or_refusal(item, shown) for item in items[:most]]
        if len(items) > most:
            detail = f"{len(items)} drafts, {most} asked for; the others are not read"
            found.append(StageRefusal(RejectionReason.REPLY_OFF_SCHEMA, detail))
        return found

    def _draft_or_refusal(self, item: object, shown: ShownText) -> Draft | StageRefusal:
        try:
            return self._draft(item, shown)
        except StageRefusal as refusal:
            return refusal

    def _draft(self, item: object, shown: ShownText) -> Draft:
        reply = checked(CheckedDraftReply if self._checks else DraftReply, item)
        task_type = reply.task_type if isinstance(reply, CheckedDraftReply) else "open"
        if task_type not in self._asking.config.task_types:
            detail = f"task_type: {task_type}, which was not asked for"
            raise StageRefusal(RejectionReason.REPLY_OFF_SCHEMA, detail)
        ids = {criterion.id for criterion in reply.criteria}
        if repeated := len(reply.criteria) - len(ids):
            raise StageRefusal(RejectionReason.REPLY_OFF_SCHEMA, f"criteria: {repeated} ids again")
        passage = shown.passage(reply.first_paragraph, reply.last_paragraph)
        if not passage:
            raise StageRefusal(
                RejectionReason.PASSAGE_NOT_IN_DOCUMENT,
                f"paragraphs {reply.first_paragraph:.4g} to {reply.last_paragraph:.4g} "
                f"of {len(shown.paragraphs)}",
            )
        return Draft(
            question=reply.question,
            passage=passage,
            criteria=tuple(_criterion(criterion) for criterion in reply.criteria),
            question_rationale=reply.question_rationale,
            reference_answer=reply.reference_answer,
            task_type=task_type,
        )


def _criterion(reply: CriterionReply | CheckedCriterionReply) -> CriterionDraft:
    method, guide = in_words(reply.verification_method), reply.scoring_guide
    check = reply.check if isinstance(reply, CheckedCriterionReply) else None
    if check is not None:
        directive = to_directive(check)
        if runs_to_the_end(directive):
            method, guide = directive, f"{guide}\n{method}".strip()
        else:
            method = f"{directive}\n{method}".strip()
    return CriterionDraft(
        id=reply.id,
        weight=reply.weight,
        name=reply.name,
        description=reply.description,
        required_elements=reply.required_elements,
        scoring_guide=guide,
        verification_method=method,
        expected_keywords=reply.expected_keywords,
    )
