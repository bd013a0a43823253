"""Drafts made of facts: question, criteria and reference answer of the same facts."""

from collections.abc import Mapping, Sequence

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.config import FEWEST_BY_RULES
from rubric_synth.document import Document, RejectionReason, parse_entry
from rubric_synth.stages import stages
from rubric_synth.stages.extractive.claims import Passage
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms
from rubric_synth.stages.extractive.facts import api, opening, prose, questions
from rubric_synth.stages.extractive.facts.fact import Fact, criteria_of
from rubric_synth.stages.stages import CriterionDraft, Draft

_FEWEST = 4
"""Fewest facts that a question about a page asks for."""
_MEANINGS = 2
"""Fewest of them that are no defaults, where the page is of a manual."""


def api_fact_drafts(
    document: Document,
    terms: CorpusTerms,
    most: int,
) -> list[Draft]:
    """Write the drafts of an API entry, each of facts of its own.

    Args:
        document: The entry.
        terms: Weights of words in the collection.
        most: Largest number of drafts.

    Raises:
        StageRefusal: It has no entry's layout, or states fewer than four facts; the reason says
            where it has no parameters.
    """
    entry = parse_entry(document.text)
    if entry is None:
        raise stages.StageRefusal(RejectionReason.NOT_AN_API_ENTRY)
    detail = (
        "by its page or its module nobody calls it directly, or nobody should any more"
    )
    stages.refuse(
        RejectionReason.NOT_FOR_USE,
        detail,
        when=api.is_unused(entry),
    )
    left = api.api_facts(entry, terms)
    notes = api.note_facts(entry)
    known = len(left) + len(notes)
    drafts: list[Draft] = []
    while len(drafts) < most:
        facts = api.chosen(left, notes)
        if not _are_enough(facts, _MEANINGS if entry.is_of_manual else 1):
            break
        draft = Draft(
            question=questions.question_of(entry, facts),
            passage=document.text,
            criteria=_with_keywords(facts, terms),
            question_rationale="Parameters, defaults and limits decide how it can be used.",
            reference_answer=" ".join(fact.sentence for fact in facts),
        )
        drafts.append(draft)
        used = {id(fact) for fact in facts}
        topics = {fact.topic for fact in facts if fact.topic}
        left = [
            fact for fact in left if id(fact) not in used and fact.topic not in topics
        ]
        notes = [fact for fact in notes if id(fact) not in used]
    reason = (
        RejectionReason.TOO_FEW_FACTS
        if entry.parameters
        else RejectionReason.NO_PARAMETERS
    )
    detail = f"{known} facts, and a question has {_FEWEST}"
    if entry.is_of_manual:
        detail += f", {_MEANINGS} of them no defaults"
    stages.refuse(reason, detail, when=not drafts)
    return drafts


def _are_enough(facts: Sequence[Fact], fewest_meanings: int = 1) -> bool:
    """Tell whether facts make a question, which asks for more than defaults."""
    meanings = sum(fact.kind != CriterionKind.DEFAULT for fact in facts)
    return len(facts) >= _FEWEST and meanings >= fewest_meanings


def prose_fact_draft(
    passage: Passage,
    facts: Mapping[str, Fact],
    document: Document,
    terms: CorpusTerms,
    product: str = "",
    *,
    is_of_a_book: bool = False,
) -> Draft | None:
    """Write the draft of a passage; None where it states too few facts.

    Args:
        passage: The passage that states them.
        facts: Facts of the document, by sentence.
        document: The document of the passage.
        terms: Weights of words in the collection.
        product: Name of the program that the document is about; "" where it is about none.
        is_of_a_book: Whether the document is long, so that its title alone does not say what
            "the tag" is: the heading of a section has to.
    """
    chosen = prose.chosen(passage, facts, terms, document.title)
    passage = prose.at_home(chosen, facts, passage)
    chosen = prose.of_home(chosen, facts, passage)
    has_topic = bool(product) or opening.has_title(passage)
    if is_of_a_book and not opening.names_section(
        passage, opening.opening_of(chosen, passage, product)
    ):
        has_topic = False
        chosen = [fact for fact in chosen if not opening.needs_section(fact)]
    if not has_topic:
        chosen = [fact for fact in chosen if not opening.needs_opening(fact)]
    if len(chosen) < FEWEST_BY_RULES:
        return None
    topic = opening.opening_of(chosen, passage, product)
    return Draft(
        question=opening.question_of(chosen, topic),
        passage=passage.text,
        criteria=_with_keywords(chosen, terms),
        question_rationale="Each part has one answer that can be checked.",
        reference_answer=" ".join(fact.sentence for fact in chosen),
    )


def _with_keywords(facts: list[Fact], terms: CorpusTerms) -> tuple[CriterionDraft, ...]:
    criteria: list[CriterionDraft] = []
    for fact, criterion in zip(facts, criteria_of(facts), strict=True):
        keywords = terms.key_terms(fact.sentence, limit=4)
        if not keywords:
            keywords = tuple(language.content_words(fact.sentence)[:3])
        update = {"expected_keywords": keywords or fact.required}
        criteria.append(criterion.model_copy(update=update))
    return tuple(criteria)
