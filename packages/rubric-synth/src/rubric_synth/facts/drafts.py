"""Drafts made of facts: question, criteria and reference answer of the same facts."""

from collections.abc import Mapping

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


def prose_fact_draft(
    passage: Passage, facts: Mapping[str, Fact], document: Document, terms: CorpusTerms
) -> stages.Draft | None:
    """Write the draft of a passage; None where it states too few facts.

    Args:
        passage: Where they stand.
        facts: Those of the document, by sentence.
        document: Whose passage it is.
        terms: Weights of words in the collection.
    """
    found = prose.chosen(passage, facts, terms, document.title)
    if len(found) < _FEWEST:
        return None
    return stages.Draft(
        question=prose.question_of(found, passage, prose.product_of(document.text)),
        passage=passage.text,
        criteria=_with_keywords(found, terms),
        question_rationale="Each part has one answer that can be checked.",
        reference_answer=" ".join(fact.sentence for fact in found),
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
