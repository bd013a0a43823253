"""Drafts made of facts: question, criteria and reference answer of the same facts."""

from rubric_core import CriterionKind
from rubric_synth import language, stages
from rubric_synth.document import Document, RejectionReason, parse_entry
from rubric_synth.extractive.claims import Passage
from rubric_synth.extractive.phrases import CorpusTerms
from rubric_synth.facts import api, prose
from rubric_synth.facts.fact import Fact, criteria_of
from rubric_synth.stages import CriterionDraft

_FEWEST = 5


def api_fact_draft(document: Document, terms: CorpusTerms) -> stages.Draft:
    """Write the draft of an API entry.

    Raises:
        StageRefusal: It has no entry's layout, or states fewer than five facts.
    """
    entry = parse_entry(document.text)
    if entry is None:
        raise stages.StageRefusal(RejectionReason.NOT_AN_API_ENTRY)
    facts = api.chosen(api.api_facts(entry))
    detail = f"{len(facts)} facts, fewer than {_FEWEST}"
    stages.refuse(RejectionReason.TOO_FEW_FACTS, detail, when=len(facts) < _FEWEST)
    return stages.Draft(
        question=api.question_of(entry, facts),
        passage=document.text,
        criteria=_with_keywords(facts, terms),
        question_rationale="Its parameters, defaults and limits decide how it can be used.",
        reference_answer=" ".join(fact.sentence for fact in facts),
    )


def prose_fact_draft(passage: Passage, title: str, terms: CorpusTerms) -> stages.Draft | None:
    """Write the draft of a passage; None where it states too few facts."""
    facts = prose.prose_facts(passage, title, terms)
    if len(facts) < _FEWEST:
        return None
    topics = prose.topics_of(facts, passage, terms)
    subject = passage.subject or (topics[0] if topics else title)
    context = f" in {passage.context}" if passage.context else ""
    kinds = {fact.kind for fact in facts}
    opening = (
        subject if subject.endswith("?") else f"What should one know about {subject}{context}?"
    )
    parts = [f"Explain {language.listed(topics)}" if topics else "Explain the main points"]
    if CriterionKind.CAUSE in kinds:
        parts.append("say what causes what")
    if CriterionKind.QUANTITY in kinds:
        parts.append("give the figures")
    if kinds & {CriterionKind.CONDITION, CriterionKind.LIMIT}:
        parts.append("name conditions and limits")
    return stages.Draft(
        question=f"{language.capital_first(opening)} {language.capital_first(language.listed(parts))}.",
        passage=passage.text,
        criteria=_with_keywords(facts, terms),
        question_rationale="The facts hang together, and each can be checked.",
        reference_answer=" ".join(fact.sentence for fact in facts),
    )


def _with_keywords(facts: list[Fact], terms: CorpusTerms) -> tuple[CriterionDraft, ...]:
    return tuple(
        criterion.model_copy(
            update={
                "expected_keywords": tuple(terms.key_terms(fact.sentence, limit=4))
                or tuple(language.content_words(fact.sentence)[:3])
                or fact.required
            }
        )
        for fact, criterion in zip(facts, criteria_of(facts), strict=True)
    )
