"""The three stages of one document, asked of a language model.

Each asks one question about the document and reads the reply strictly. Stage 2 writes questions
with rubrics, and each draft of its reply stands alone; stage 3 adds to criteria and changes none.
"""

import re
from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from rubric_core import DocumentAnalysis
from rubric_judge import ChatModel, JudgeTransportError
from rubric_judge.checks.directive import HEADS
from rubric_synth.calls import DocumentCalls
from rubric_synth.config import LLMConfig, Stage
from rubric_synth.document import Document, RejectionReason
from rubric_synth.stages.llm import replies
from rubric_synth.stages.llm.prompt import (
    ShownText,
    asks_for_checks,
    load_prompts,
    shown_text,
)
from rubric_synth.stages.llm.replies import (
    AnalysisReply,
    CheckedDraftReply,
    DraftReply,
    EnrichmentReply,
    to_directive,
)
from rubric_synth.stages.stages import (
    CriterionDraft,
    Draft,
    StageRefusal,
    Stages,
    StagesFactory,
    refuse,
)

_LOOKS_LIKE_DIRECTIVE = re.compile(rf"\s*(?:{'|'.join(HEADS)})\s*:")
_TO_THE_END = ("python_tests:", "json_schema:")
"""Directives that go on to the end of a method: nothing may follow them."""
_OFF_SCHEMA = RejectionReason.REPLY_OFF_SCHEMA


class LLMStages:
    """Analyst, synthesiser and enricher of one document, which share what the model is shown."""

    def __init__(
        self,
        calls: DocumentCalls,
        model: ChatModel,
        config: LLMConfig,
    ) -> None:
        """Keep them; nothing is read yet."""
        self._config = config
        self._prompts = load_prompts(config)
        self._calls = calls
        self._model = model
        self._document: Document | None = None
        self._opening = ""
        self._shown = ShownText("", (), (0,))

    async def analyse(self, document: Document) -> DocumentAnalysis:
        """Return the model's analysis.

        Raises:
            StageRefusal: no answer, or none that can be used.

        Source: paper, §3.4, Stage 1.
        """
        value = await self._ask(
            document, self._prompts.analysis, "analyse", AnalysisReply
        )
        return DocumentAnalysis.model_validate(
            dict(replies.checked(AnalysisReply, value))
        )

    async def synthesise(
        self, document: Document, analysis: DocumentAnalysis
    ) -> Sequence[Draft | StageRefusal]:
        """Return up to K_d drafts, and a refusal for each that cannot be used.

        Raises:
            StageRefusal: no answer, none that can be used, or one without any draft.

        Source: paper, §3.4, Stage 2.
        """
        task = self._prompts.for_synthesis(document, analysis)
        reply = replies.SynthesisReply
        draft_reply = DraftReply
        if asks_for_checks(self._config.task_types):
            reply = replies.CheckedSynthesisReply
            draft_reply = CheckedDraftReply
        value = await self._ask(document, task, "synthesise", reply)
        items = replies.items_of(value, name="drafts")
        refuse(RejectionReason.NO_QUESTION, "the model found none", when=not items)
        most = self._config.questions_per_document
        drafts: list[Draft | StageRefusal] = []
        for item in items[:most]:
            try:
                drafts.append(self._draft(replies.checked(draft_reply, item)))
            except StageRefusal as refusal:
                drafts.append(refusal)
        if len(items) > most:
            detail = f"{len(items)} drafts, {most} asked for; the others are not read"
            drafts.append(StageRefusal(_OFF_SCHEMA, detail))
        return drafts

    async def enrich(
        self,
        document: Document,
        analysis: DocumentAnalysis,  # noqa: ARG002 - the protocol's signature
        draft: Draft,
    ) -> Draft:
        """Return the draft with more to grade by; a criterion that the reply lacks stays as it is.

        Raises:
            StageRefusal: no answer, none that can be used, or one about criteria that the rubric
                does not have.

        Source: paper, §3.4, Stage 3.
        """
        task = self._prompts.for_enrichment(document, draft)
        value = await self._ask(document, task, "enrich", EnrichmentReply)
        items = replies.checked(EnrichmentReply, value).criteria
        added = {item.id: item for item in items}
        repeated = len(items) - len(added)
        refuse(_OFF_SCHEMA, f"criteria: {repeated} ids again", when=bool(repeated))
        unknown = len(added.keys() - {criterion.id for criterion in draft.criteria})
        detail = f"criteria: {unknown} ids that are not the rubric's"
        refuse(_OFF_SCHEMA, detail, when=bool(unknown))
        criteria = list(draft.criteria)
        for place, criterion in enumerate(criteria):
            if criterion.id in added:
                criteria[place] = enriched(criterion, added[criterion.id])
        return draft.model_copy(update={"criteria": tuple(criteria)})

    async def _ask(
        self,
        document: Document,
        task: str,
        stage: Stage,
        reply: type[BaseModel],
    ) -> object:
        """Ask for a reply and decode it; it is not yet checked against the schema.

        Args:
            document: Document that the message begins with.
            task: Text of the task, which follows.
            stage: Stage that asks.
            reply: Model of the reply, whose schema goes to the server.

        Raises:
            StageRefusal: No answer came, or one that holds no JSON document.
        """
        if self._document is not document:
            self._document = document
            self._shown = shown_text(document.text, limit=self._config.document_chars)
            self._opening = self._prompts.opening(document, self._shown)
        try:
            answer = await self._calls.ask(
                self._model,
                stage=stage,
                system=self._prompts.system,
                user=f"{self._opening}\n\n{task}",
                reply=reply,
            )
        except JudgeTransportError as error:
            about = f", for the field {error.refused}" if error.refused else ""
            detail = f"{error.reason.value} after {error.attempts} attempt(s){about}"
            raise StageRefusal(RejectionReason.MODEL_UNAVAILABLE, detail) from None
        return replies.decoded(answer)

    def _draft(self, reply: DraftReply | CheckedDraftReply) -> Draft:
        task_type = reply.task_type if isinstance(reply, CheckedDraftReply) else "open"
        detail = f"task_type: {task_type}, which was not asked for"
        refuse(_OFF_SCHEMA, detail, when=task_type not in self._config.task_types)
        repeated = len(reply.criteria) - len(
            {criterion.id for criterion in reply.criteria}
        )
        refuse(_OFF_SCHEMA, f"criteria: {repeated} ids again", when=bool(repeated))
        first = reply.first_paragraph
        last = reply.last_paragraph
        passage = self._shown.passage(first, last)
        detail = (
            f"paragraphs {first:.4g} to {last:.4g} of {len(self._shown.paragraphs)}"
        )
        refuse(RejectionReason.PASSAGE_NOT_IN_DOCUMENT, detail, when=not passage)
        return Draft(
            question=reply.question,
            passage=passage,
            criteria=tuple(map(_criterion, reply.criteria)),
            question_rationale=reply.question_rationale,
            reference_answer=reply.reference_answer,
            task_type=task_type,
        )


def _criterion(reply: replies.CriterionReply) -> CriterionDraft:
    fields = dict(reply)
    check = fields.pop("check", None)
    method = in_words(reply.verification_method)
    guide = reply.scoring_guide
    if check is not None:
        directive = to_directive(check)
        if directive.startswith(_TO_THE_END):
            method, guide = directive, f"{guide}\n{method}".strip()
        else:
            method = f"{directive}\n{method}".strip()
    fields |= {"scoring_guide": guide, "verification_method": method}
    return CriterionDraft.model_validate(fields)


def in_words(method: str) -> str:
    """Return a method that no judge takes for a directive.

    A program would execute one that the model wrote into free text, perhaps because the document
    told it to; and one that does not parse would make the whole rubric unusable.
    """
    if not _LOOKS_LIKE_DIRECTIVE.match(method):
        return method
    return f"In words: {method}"


def enriched(criterion: CriterionDraft, added: replies.EnrichedReply) -> CriterionDraft:
    """Return a criterion with what was added to it; a method that a program runs stays one."""
    guide = [criterion.scoring_guide]
    for name, cue in added.cues:
        if cue.strip():
            heading = name.replace("_", " ").capitalize()
            guide.append(f"{heading}: {cue}")
    method = criterion.verification_method
    patterns = [pattern for pattern in added.verification_patterns if pattern.strip()]
    look_for = ""
    if patterns:
        look_for = f"Look for: {'; '.join(patterns)}"
    # A directive that runs to the end would take what follows it for a part of it.
    if method.startswith(_TO_THE_END):
        guide.append(look_for)
    else:
        method = _lines([method, look_for])
    return criterion.model_copy(
        update={
            "scoring_guide": _lines(guide),
            "verification_method": method,
            "expected_keywords": _joined(
                criterion.expected_keywords, added.expected_keywords
            ),
            "expected_concepts": _joined(
                criterion.expected_concepts, added.expected_concepts
            ),
        }
    )


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part.strip())


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Return both without blanks and without what is there already but for case."""
    terms: dict[str, str] = {}
    for term in (*first, *second):
        folded = term.strip().casefold()
        if folded:
            terms.setdefault(folded, term)
    return tuple(terms.values())


def llm_stages(model: ChatModel, config: LLMConfig) -> StagesFactory:
    """Return what makes the stages for one document.

    Args:
        model: answers; not closed here.
        config: how many questions, of which kinds, and how much of a document is read.
    """

    def stages(calls: DocumentCalls) -> Stages:
        stages = LLMStages(calls, model, config)
        return Stages(stages, stages, stages)

    return stages
